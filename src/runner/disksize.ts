import type { ResizeReply } from '../api/runner.ts';
import { Svc3Error } from '../errors.ts';
import type { GuestAgent } from './agent.ts';
import { nodes } from './args.ts';
import { endOf, startProgram } from './guestprogram.ts';
import type { Qmp } from './qmp.ts';

const mebibyte = 1024 * 1024;
/** Of QEMU's disks and of sysfs, whatever the disk has. */
const sectorBytes = 512;

/** Whole MiB: QEMU takes multiples of 512 only, guests like their partitions aligned. */
export function roundDiskSize(bytes: number): number {
  return Math.ceil(bytes / mebibyte) * mebibyte;
}

/**
 * Bytes of a disk on an image, where so many are asked for. Those of the image are kept as they are, or a memory that was saved with such a disk would
 * not fit; more are whole MiB.
 */
export function sizeOnImage(bytes: number, imageBytes: number): number {
  const leastBytes = Math.ceil(imageBytes / sectorBytes) * sectorBytes;
  return bytes <= leastBytes ? leastBytes : roundDiskSize(bytes);
}

/**
 * QEMU shrinks a disk without a word; nothing of ours may. Both sizes in bytes.
 *
 * @throws Svc3Error Invalid, with field `bytes` as its cause, where the disk would shrink
 */
export function checkGrows(bytes: number, current: number): void {
  if (bytes >= current) return;
  throw new Svc3Error('Invalid', `a disk can only grow: it has ${current} bytes, ${bytes} were asked for`, {
    details: { causes: [{ field: 'bytes', message: `must be at least ${current}` }] },
  });
}

/** Virtual size of the running VM's disk in bytes. */
export async function liveDiskSize(qmp: Qmp): Promise<number> {
  const found = await qmp.execute<{ 'node-name'?: string; image?: { 'virtual-size'?: number } }[]>(
    'query-named-block-nodes',
    { flat: true },
  );
  const size = found.find((node) => node['node-name'] === nodes.disk)?.image?.['virtual-size'];
  if (size === undefined) throw new Svc3Error('InternalError', 'QEMU does not tell the size of the disk');
  return size;
}

export async function growLive(qmp: Qmp, bytes: number): Promise<void> {
  await qmp.execute('block_resize', { 'node-name': nodes.disk, size: bytes }, { timeoutMs: 60_000 });
}

/**
 * Grows the partition and file system of `/` on a disk of `$1` sectors. What grows without an error may have found no room: the disk of a guest on SATA has its
 * new size when it boots next, and a partition ends where the next one begins. A table of GPT, and what a partition is aligned to, take less than 4096 sectors.
 */
const growScript = `
src=$(findmnt -no SOURCE / 2>/dev/null || awk '$2 == "/" { print $1 }' /proc/mounts | tail -n 1)
src=\${src%%[[]*}
type=$(awk '$2 == "/" { print $3 }' /proc/mounts | tail -n 1)
case $src in /dev/mapper/*) exit 5 ;; esac
[ -e "/sys/class/block/$(basename "$src")/size" ] || src=/dev/$(basename "$(readlink -f "/sys/dev/block/$(stat -c '%d' / | awk '{ print int($1/256) ":" $1%256 }')")")
name=$(basename "$src")
block=/sys/class/block/$name
case $name in dm-*|md*) exit 5 ;; esac
[ -e "$block/size" ] || exit 3
disk=$name
[ ! -e "$block/partition" ] || disk=$(basename "$(dirname "$(readlink -f "$block")")")
tries=1
until [ "$(cat "/sys/class/block/$disk/size")" -ge "$1" ]; do
  [ $tries -lt 5 ] || exit 6
  tries=$((tries + 1)); sleep 1
done
behind=0
if [ -e "$block/partition" ]; then
  command -v growpart >/dev/null || exit 3
  growpart "/dev/$disk" "$(cat "$block/partition")" || [ $? -eq 1 ] || exit 4
  behind=$(($(cat "/sys/class/block/$disk/size") - $(cat "$block/start") - $(cat "$block/size")))
fi
case $type in
  ext*) command -v resize2fs >/dev/null || exit 3; resize2fs "$src" ;;
  xfs) command -v xfs_growfs >/dev/null || exit 3; xfs_growfs / ;;
  btrfs) command -v btrfs >/dev/null || exit 3; btrfs filesystem resize max / ;;
  *) exit 3 ;;
esac || exit 4
[ $behind -le 4096 ] || exit 5
`;

/** Why it has not grown, by the exit code of the script. */
const whyNot: Readonly<Record<number, string>> = {
  3: 'the guest lacks growpart or the tool of its file system',
  5: 'its root is on a mapped device such as LVM, or another partition stands behind it',
  6: 'the guest sees the larger disk only after a restart',
};

/** Growing ends within this time, or counts as failed. */
const polling = { withinMs: 30_000, everyMs: 250 } as const;

/** Whether the guest's root file system has been grown to a disk of so many bytes; false with the reason otherwise. */
export async function growFileSystem(
  agent: Pick<GuestAgent, 'execute' | 'isAnswering'>,
  bytes: number,
): Promise<{ grown: boolean; why: string }> {
  if (!(await agent.isAnswering())) return { grown: false, why: 'no guest agent answers' };
  try {
    const pid = await startProgram(agent, '/bin/sh', ['-c', growScript, 'grow', `${bytes / sectorBytes}`]);
    const { exitcode: code } = await endOf(agent, pid, polling);
    if (code === 0) return { grown: true, why: '' };
    return { grown: false, why: whyNot[code ?? 0] ?? 'growing failed in the guest' };
  } catch {
    return { grown: false, why: 'the guest agent does not run commands' };
  }
}

/** What a person is to do where the guest could not. */
export function resizeReply(diskSize: number, outcome: { grown: boolean; why: string }): ResizeReply {
  if (outcome.grown)
    return {
      diskSize,
      fileSystemGrown: true,
      message: 'the disk and the file system of the guest have grown',
    };
  const how =
    'grow the partition and its file system in the guest, for example: growpart /dev/vda 1 && resize2fs /dev/vda1';
  return {
    diskSize,
    fileSystemGrown: false,
    message: `the disk has grown, the file system has not (${outcome.why}); ${how}`,
  };
}
