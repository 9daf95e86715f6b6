import { mkdir, open, readdir, readFile, rename, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { marker } from './hostsfile.ts';

/** What one pass over `certs.d` did. */
export interface CertsResult {
  /** Folders whose file was written or changed. */
  readonly written: readonly string[];
  readonly removed: readonly string[];
  /** Wanted folders that somebody else's file or folder stands before: they were left alone. */
  readonly foreign: readonly string[];
}

const fileName = 'hosts.toml';

/** Makes the files of ours below `directory` exactly the wanted ones; a file without our first line is never touched. */
export async function reconcileCerts(
  directory: string,
  wanted: ReadonlyMap<string, string>,
): Promise<CertsResult> {
  await mkdir(directory, { recursive: true });
  const present = await foldersOf(directory);
  const result = { written: [] as string[], removed: [] as string[], foreign: [] as string[] };
  for (const folder of present)
    if (!wanted.has(folder) && (await remove(join(directory, folder)))) result.removed.push(folder);
  for (const [folder, content] of wanted) {
    const state = present.includes(otherName(folder))
      ? 'foreign'
      : await write(join(directory, folder), content);
    if (state !== 'kept') result[state].push(folder);
  }
  return result;
}

async function foldersOf(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** containerd looks into `host_port_` before `host:port`, and then not into the other. */
function otherName(folder: string): string {
  return folder.replace(/:(\d+)$/, '_$1_');
}

/** `undefined` where there is none. */
async function contentOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

function isOurs(content: string): boolean {
  return content.split('\n', 1)[0] === marker;
}

async function write(folder: string, content: string): Promise<'written' | 'kept' | 'foreign'> {
  const path = join(folder, fileName);
  const present = await contentOf(path);
  if (present === content) return 'kept';
  if (present !== undefined && !isOurs(present)) return 'foreign';
  await mkdir(folder, { recursive: true });
  // containerd reads at every pull: it is to see the old file or the new one.
  const temporary = join(folder, `.${fileName}.svc3`);
  const file = await open(temporary, 'w', 0o644);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  return 'written';
}

/** True when a file of ours was there. */
async function remove(folder: string): Promise<boolean> {
  const content = await contentOf(join(folder, fileName));
  if (content === undefined || !isOurs(content)) return false;
  await unlink(join(folder, fileName));
  await rmdir(folder).catch((error: NodeJS.ErrnoException) => {
    // Certificates that somebody put beside our file stay.
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
  });
  return true;
}
