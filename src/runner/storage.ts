import { messageOf } from '../errors.ts';
import { RunnerFailure } from './failure.ts';

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
  return `the disk has ${bytes} bytes, an Ephemeral disk may have ${limit} here (chart value disk.ephemeralLimit); use storage Persistent`;
}
