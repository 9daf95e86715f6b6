import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

export const noRoom = "the VM's storage has no room for the copy";

const Mi = 2 ** 20;

/**
 * What copies leave to a guest that runs, in bytes; of a small volume this share. How much a guest will write nobody knows, and a disk may be
 * far larger than what is on it. The same is left of what the kubelet lets a pod have: it counts the container's logs as well, and others write too.
 */
const leftBytes = 256 * Mi;
const leftShare = 0.05;

/** More often than a copy could fill what is left. */
const everyMs = 200;

/**
 * Share of the file system with its volumes that the kubelet keeps free by its defaults, evicting pods (`nodefs.available<10%`). Its 15 % of the one with the images
 * (`imagefs.available`), which is the same on most nodes, stop no copy, though it evicts pods for them as well: it takes unused images away first, which are most of
 * what is on a node that many VMs have been on, and is without that threshold where its settings name only others. Nobody in the pod can tell either, and a
 * node whose images are collected at 85 % (`imageGCHighThresholdPercent`) is near them all the time.
 */
const defaultEvictionShare = 0.1;

/** What of the pod's storage copies are made on. */
export interface CopyStorage {
  /** Folder of the VM's volume, with the disk and its copies. */
  readonly folder: string;
  /**
   * The container's limit of ephemeral storage in bytes, or what the node can allocate where there is none (`runnerEnvironment.ephemeralStorage`): the runner
   * cannot tell which. Undefined on a claim, and where the node counts no ephemeral storage: the kubelet evicts nobody for it.
   */
  readonly ephemeralStorageBytes?: number | undefined;
  /** The pod's limit of ephemeral storage in bytes, of whoever sees the pod (`ExportRequest`); undefined where it has none, or nobody has said one. */
  readonly podLimitBytes?: number | undefined;
}

/** The file system of a volume, in bytes. */
export interface FileSystem {
  readonly size: number;
  /** For those who are not root. */
  readonly free: number;
}

export interface RoomWatch {
  /** Whether a guest runs: one that does not writes nothing. */
  readonly hasGuest: () => boolean;
  /** Ends the watch. */
  readonly signal: AbortSignal;
}

/**
 * Resolves to the reason once the storage has too little room for a guest that runs beside copies, or for the kubelet, which would evict the pod, and the disk with it, or that of another VM;
 * to undefined when the watch is ended.
 */
export async function shortage(
  { folder, ephemeralStorageBytes, podLimitBytes }: CopyStorage,
  { hasGuest, signal }: RoomWatch,
): Promise<string | undefined> {
  const rules =
    ephemeralStorageBytes === undefined
      ? undefined
      : { podLimitBytes, keptFree: await keptFree(folder, ephemeralStorageBytes) };
  while (!signal.aborted) {
    const disk = await fileSystemOf(folder);
    if (hasGuest() && disk !== undefined && isNearlyUsedUp(disk.free, disk.size)) return noRoom;
    const occupied = rules?.podLimitBytes === undefined ? 0 : await occupiedBytes(folder);
    const reason = rules && evictionReason({ disk, occupied }, rules);
    if (reason !== undefined) return reason;
    await delay(everyMs, undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}

/** What the kubelet evicts pods for, in bytes. */
export interface KubeletRules {
  /** The most that the pod may have; undefined where it may have whatever the node has: the kubelet evicts no pod for more than its node can allocate. */
  readonly podLimitBytes?: number | undefined;
  /** The least that it keeps free of the node's storage; 0 where it evicts nobody for that. */
  readonly keptFree: number;
}

async function keptFree(folder: string, ephemeralStorageBytes: number): Promise<number> {
  const disk = await fileSystemOf(folder);
  return disk === undefined ? 0 : keptFreeBytes(disk, ephemeralStorageBytes);
}

/**
 * The least that the kubelet keeps free of the file system with its volumes, evicting pods, where images that it could take away are too few: what it can
 * allocate is without that. Where more than its default is missing, the node sets storage aside for itself, or the limit is the container's own, as where there is
 * more than the file system has: the default is taken then, unless less was free before the copy. Pods would have been evicted, so that it is not in force: 0.
 *
 * @param disk - before the copy
 * @param ephemeralStorageBytes - what the node can allocate, or the container's limit (`CopyStorage`)
 */
export function keptFreeBytes({ size, free }: FileSystem, ephemeralStorageBytes: number): number {
  const missing = size - ephemeralStorageBytes;
  // In whole per cent: kubelet and file system round differently.
  const percent = Math.round((100 * missing) / size);
  if (percent >= 0 && percent <= 100 * defaultEvictionShare) return Math.max(0, missing);
  const kept = size * defaultEvictionShare;
  return free < kept ? 0 : kept;
}

/**
 * Why the kubelet would soon evict somebody; undefined where there is room.
 *
 * @param occupied - what the files of the volume take, in bytes
 */
export function evictionReason(
  { disk, occupied }: { readonly disk: FileSystem | undefined; readonly occupied: number },
  { podLimitBytes, keptFree }: KubeletRules,
): string | undefined {
  if (podLimitBytes !== undefined && isNearlyUsedUp(podLimitBytes - occupied, podLimitBytes))
    return `${noRoom}: the kubelet evicts the pod when it has more than ${inMiB(podLimitBytes)} of ephemeral storage`;
  if (disk === undefined || keptFree === 0 || !isNearlyUsedUp(disk.free - keptFree, disk.size))
    return undefined;
  return `${noRoom}: the kubelet may evict pods when less than ${inMiB(keptFree)} of the node's storage are free`;
}

function inMiB(bytes: number): string {
  return `${Math.round(bytes / Mi)} MiB`;
}

function isNearlyUsedUp(left: number, whole: number): boolean {
  return left < Math.min(leftBytes, whole * leftShare);
}

/** Undefined where it does not say how much is free: that is not taken for a full one. */
async function fileSystemOf(folder: string): Promise<FileSystem | undefined> {
  const said = await statfs(folder).catch(() => undefined);
  if (said === undefined) return undefined;
  const { bavail, blocks, bsize } = said;
  return { size: blocks * bsize, free: bavail * bsize };
}

/** Blocks of all files in a folder, as the kubelet counts them: a file with holes takes less than its size. */
async function occupiedBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const sizes = await Promise.all(
    // A file may go at any time.
    names.map((name) =>
      lstat(join(folder, name)).then(
        ({ blocks }) => blocks * 512,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
