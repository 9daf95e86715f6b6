import { chmod, lstat, open, readdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '../errors.ts';
import { RunnerFailure } from './failure.ts';

/** Of the files on a VM's volumes: with a GPU its pod is root's, who has no right over files of others there, else not; the group is always the same. */
export const fileMode = 0o660;

/** What the group has of a file and of a folder. */
const groupRights = { file: 0o060, folder: 0o070 } as const;

/**
 * Opens to the group what is in the folder and this user's: runners that knew no `fileMode` have kept it to their user, and Kubernetes opens no volume
 * of kind hostPath. What is another user's stays as it is; links are not followed.
 */
export async function openToGroup(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isFile()) await addRights(path, groupRights.file);
    if (!entry.isDirectory()) continue;
    await addRights(path, groupRights.folder);
    await openToGroup(path);
  }
}

async function addRights(path: string, rights: number): Promise<void> {
  try {
    const { mode } = await lstat(path);
    if ((mode & rights) !== rights) await chmod(path, (mode & 0o7777) | rights);
  } catch {
    // Another user's: whoever made it can open it.
  }
}

/** Has what was written of a file come to the disk. */
export async function flushFile(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What file systems say that flush no folders, or let not everybody read them. */
const unflushed: ReadonlySet<unknown> = new Set(['EACCES', 'EBADF', 'EINVAL']);

/** Has the names in a folder come to the disk, as far as its file system does that. */
export async function flushFolder(path: string): Promise<void> {
  try {
    await flushFile(path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && unflushed.has(error.code))) throw error;
  }
}

/**
 * Gives a file that is whole its name, in place of what had it, and lets no power cut undo that: the name is in the folder, which the flush of the
 * file leaves in memory (fsync(2)).
 *
 * @param draft - in the same folder
 * @param flush - of the folder; only tests have another
 */
export async function putInPlace(draft: string, path: string, flush = flushFolder): Promise<void> {
  await rename(draft, path);
  await flush(dirname(path));
}

const full = /No space left|ENOSPC|Disk quota|EDQUOT/i;

/** Whether something could not be written for want of room. */
export function isForWantOfRoom(error: unknown): boolean {
  return full.test(messageOf(error));
}

/** Work that writes `what` to the VM's volume. Throws a RunnerFailure that says so, and whether the volume is full. */
export async function asStorage<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const message = messageOf(cause);
    if (!isForWantOfRoom(cause))
      throw new RunnerFailure('StartFailed', `${what} cannot be written: ${message}`, { cause });
    const told = `the VM's volume is full, ${what} cannot be written: ${message}`;
    throw new RunnerFailure('StorageFull', told, { cause });
  }
}

/** Why the volume takes no disk of so many bytes; undefined where it does, or where it is not the node's own storage. */
export function roomRefusal(bytes: number, limit: number | undefined): string | undefined {
  if (limit === undefined || bytes <= limit) return undefined;
  return `the disk has ${bytes} bytes, an Ephemeral disk may have ${limit} here (chart value disk.ephemeralLimit); deploy it again with storage Persistent`;
}
