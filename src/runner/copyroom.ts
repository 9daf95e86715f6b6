import { statfs } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

export const noRoom = "the VM's storage has no room for the copy";

/**
 * What copies leave to a guest that runs, in bytes; of a small volume this share. How much a guest will write nobody knows, and a disk may be
 * far larger than what is on it.
 */
const leftBytes = 256 * 2 ** 20;
const leftShare = 0.05;

/** More often than a copy could fill what is left. */
const everyMs = 200;

export interface RoomWatch {
  /** Whether a guest runs: one that does not writes nothing. */
  readonly isNeeded: () => boolean;
  /** Ends the watch. */
  readonly signal: AbortSignal;
}

/** Resolves to true once the volume of the folder has too little room for a guest that runs, to false when the watch is ended. */
export async function runsShort(folder: string, { isNeeded, signal }: RoomWatch): Promise<boolean> {
  while (!signal.aborted) {
    if (isNeeded() && (await isShort(folder))) return true;
    await delay(everyMs, undefined, { signal }).catch(() => undefined);
  }
  return false;
}

/** A volume that does not say how much is free is not taken for a full one. */
async function isShort(folder: string): Promise<boolean> {
  const volume = await statfs(folder).catch(() => undefined);
  if (volume === undefined) return false;
  const { bavail, blocks, bsize } = volume;
  return bavail * bsize < Math.min(leftBytes, blocks * bsize * leftShare);
}
