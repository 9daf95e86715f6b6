import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { growFileSystem } from '../../../src/runner/disksize.ts';

const sectorBytes = 512;
const before = 2 * 2 ** 30;
const after = 2 * before;

interface Layout {
  /** What `findmnt` says of the root; undefined where there is no such program. */
  readonly source?: string;
  /** What the kernel says in `/proc/mounts`. */
  readonly mounts: string;
  /** Bytes of the disk vda that the kernel has seen. Default: it has seen the growth. */
  readonly disk?: number;
  /** Bytes at which partition vda1 ends. Undefined: the file system is on the whole disk. */
  readonly partitionEnd?: number;
  /** The end of the partition when `growpart` has done its work. Default: `growpart` finds no room. */
  readonly grownEnd?: number;
}

const sectors = (bytes: number): string => `${bytes / sectorBytes}\n`;

/**
 * A guest with this layout: its agent runs programs on this machine, where `/sys` and `/proc` are folders and all that would change a disk is a stand-in
 * that notes its arguments.
 */
async function aGuest({ source, mounts, disk = after, partitionEnd, grownEnd }: Layout) {
  const root = await mkdtemp(join(tmpdir(), 'svc3-grow-'));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const write = async (path: string, content: string, mode = 0o644) => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content, { mode });
  };
  const program = (name: string, then = 'exit 0') =>
    write(`bin/${name}`, `#!/bin/sh\necho "${name} $*" >> '${root}/asked'\n${then}\n`, 0o755);
  await write('asked', '');
  await write('proc/mounts', `rootfs / rootfs rw 0 0\n${mounts}\n`);
  await write('sys/devices/vda/size', sectors(disk));
  await mkdir(join(root, 'sys/class/block'), { recursive: true });
  await symlink('../../devices/vda', join(root, 'sys/class/block/vda'));
  if (partitionEnd !== undefined) {
    await write('sys/devices/vda/vda1/partition', '1\n');
    await write('sys/devices/vda/vda1/start', sectors(2 ** 20));
    await write('sys/devices/vda/vda1/size', sectors(partitionEnd - 2 ** 20));
    await symlink('../../devices/vda/vda1', join(root, 'sys/class/block/vda1'));
  }
  await write('bin/findmnt', `#!/bin/sh\n${source === undefined ? 'exit 127' : `echo '${source}'`}\n`, 0o755);
  const grow = `echo ${((grownEnd ?? 0) - 2 ** 20) / sectorBytes} > '${root}/sys/class/block/vda1/size'`;
  await program('growpart', grownEnd === undefined ? 'exit 1' : grow);
  for (const name of ['resize2fs', 'btrfs', 'xfs_growfs', 'sleep']) await program(name);

  const ended: (number | null)[] = [];
  const agent = {
    isAnswering: async () => true,
    execute: async <T>(command: string, args: object = {}): Promise<T> => {
      if (command === 'guest-exec-status')
        return { exited: true, exitcode: ended[(args as { pid: number }).pid - 1] } as T;
      const { path, arg } = args as { path: string; arg: readonly string[] };
      const here = arg.map((word) => word.replaceAll(/\/(sys|proc)\//g, `${root}/$1/`));
      const env = { PATH: `${join(root, 'bin')}:${process.env['PATH'] ?? ''}` };
      const [code] = (await once(spawn(path, here, { env, stdio: 'ignore' }), 'exit')) as [number | null];
      return { pid: ended.push(code) } as T;
    },
  };
  const asked = async () => (await readFile(join(root, 'asked'), 'utf8')).split('\n').slice(0, -1);
  return { agent, asked };
}

const ext4 = '/dev/vda1 / ext4 rw,relatime 0 0';
const growpart = 'growpart /dev/vda 1';

test.each<[what: string, layout: Layout, asked: readonly string[]]>([
  [
    'in the last partition',
    { source: '/dev/vda1', mounts: ext4, partitionEnd: before, grownEnd: after - 2 ** 20 },
    [growpart, 'resize2fs /dev/vda1'],
  ],
  [
    'in the last partition, which has grown before',
    { source: '/dev/vda1', mounts: ext4, partitionEnd: after - 2 ** 20 },
    [growpart, 'resize2fs /dev/vda1'],
  ],
  [
    'on the whole disk of a guest without findmnt',
    { mounts: '/dev/vda / xfs rw,relatime 0 0' },
    ['xfs_growfs /'],
  ],
  [
    'of a btrfs whose root is a subvolume',
    {
      source: '/dev/vda1[/@]',
      mounts: '/dev/vda1 / btrfs rw,subvol=/@ 0 0',
      partitionEnd: before,
      grownEnd: after,
    },
    [growpart, 'btrfs filesystem resize max /'],
  ],
])('a file system %s grows', async (_what, layout, asked) => {
  const guest = await aGuest(layout);
  expect(await growFileSystem(guest.agent, after)).toEqual({ grown: true, why: '' });
  expect(await guest.asked()).toEqual(asked);
});

const elsewhere = 'its root is on a mapped device such as LVM, or another partition stands behind it';

test.each<[what: string, layout: Layout, why: string, asked: readonly string[]]>([
  [
    'on LVM',
    { source: '/dev/mapper/vg-root', mounts: '/dev/mapper/vg-root / ext4 rw 0 0', partitionEnd: before },
    elsewhere,
    [],
  ],
  [
    'in a partition that another stands behind',
    { source: '/dev/vda1', mounts: ext4, partitionEnd: before },
    elsewhere,
    [growpart, 'resize2fs /dev/vda1'],
  ],
  [
    'of a btrfs subvolume that another partition stands behind',
    { source: '/dev/vda1[/@]', mounts: '/dev/vda1 / btrfs rw,subvol=/@ 0 0', partitionEnd: before },
    elsewhere,
    [growpart, 'btrfs filesystem resize max /'],
  ],
  [
    'of a guest whose disk has its new size when it boots next, as on SATA',
    { source: '/dev/vda1', mounts: ext4, partitionEnd: before, disk: before },
    'the guest sees the larger disk only after a restart',
    Array.from({ length: 4 }, () => 'sleep 1'),
  ],
  [
    'of another kind',
    { source: '/dev/vda1', mounts: '/dev/vda1 / f2fs rw 0 0', partitionEnd: before, grownEnd: after },
    'the guest lacks growpart or the tool of its file system',
    [growpart],
  ],
  [
    'in memory',
    { source: 'overlay', mounts: 'overlay / overlay rw 0 0' },
    'the guest lacks growpart or the tool of its file system',
    [],
  ],
])('a file system %s has not grown', async (_what, layout, why, asked) => {
  const guest = await aGuest(layout);
  expect(await growFileSystem(guest.agent, after)).toEqual({ grown: false, why });
  expect(await guest.asked()).toEqual(asked);
});
