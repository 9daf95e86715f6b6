import type { ResizeReply } from '../api/runner.ts';
import { Svc3Error } from '../errors.ts';
import type { GuestAgent } from './agent.ts';
import { nodes } from './args.ts';
import { endOf, startProgram } from './guestprogram.ts';
import type { Qmp } from './qmp.ts';

const mebibyte = 1024 * 1024;

/** Whole MiB: QEMU takes multiples of 512 only, guests like their partitions aligned. */
export function roundDiskSize(bytes: number): number {
  return Math.ceil(bytes / mebibyte) * mebibyte;
}

/** QEMU shrinks a disk without a word; nothing of ours may. */
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

/** Grows the partition and file system of `/`; exits 3 where the guest lacks the tools. */
const growScript = `
src=$(findmnt -no SOURCE / 2>/dev/null || awk '$2 == "/" { print $1 }' /proc/mounts | tail -n 1)
type=$(awk '$2 == "/" { print $3 }' /proc/mounts | tail -n 1)
case $src in /dev/*) ;; *) src=/dev/$(basename "$(readlink -f "/sys/dev/block/$(stat -c '%d' / | awk '{ print int($1/256) ":" $1%256 }')")") ;; esac
name=$(basename "$src")
if [ -e "/sys/class/block/$name/partition" ]; then
  part=$(cat "/sys/class/block/$name/partition")
  disk=$(basename "$(dirname "$(readlink -f "/sys/class/block/$name")")")
  command -v growpart >/dev/null || exit 3
  growpart "/dev/$disk" "$part" || [ $? -eq 1 ] || exit 4
fi
case $type in
  ext*) command -v resize2fs >/dev/null || exit 3; resize2fs "$src" ;;
  xfs) command -v xfs_growfs >/dev/null || exit 3; xfs_growfs / ;;
  btrfs) command -v btrfs >/dev/null || exit 3; btrfs filesystem resize max / ;;
  *) exit 3 ;;
esac
`;

/** Growing ends within this time, or counts as failed. */
const polling = { withinMs: 30_000, everyMs: 250 } as const;

/** Whether the guest's root file system has been grown; false with the reason otherwise. */
export async function growFileSystem(agent: GuestAgent): Promise<{ grown: boolean; why: string }> {
  if (!(await agent.isAnswering())) return { grown: false, why: 'no guest agent answers' };
  try {
    const pid = await startProgram(agent, '/bin/sh', ['-c', growScript]);
    const { exitcode: code } = await endOf(agent, pid, polling);
    if (code === 0) return { grown: true, why: '' };
    return {
      grown: false,
      why:
        code === 3
          ? 'the guest lacks growpart or the tool of its file system'
          : 'growing failed in the guest',
    };
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
