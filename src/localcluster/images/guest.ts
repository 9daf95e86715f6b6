/**
 * The demo and test guest: a self-contained BIOS disk of about 20 MB, made of Debian packages without a loop mount. It runs
 * an SSH server (users root and admin, password admin) with sftp and scp, bash, the QEMU guest agent, the hook that makes a copy of its memory one of its
 * own, shuts down on the power button, reads a NoCloud seed, and prints READY on its serial console.
 */
import { copyFile, mkdir, open, readFile, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../host/command.ts';
import { guestRecipe, makeSmallRoot, placeText, platforms } from './guestroot.ts';
import { hashOf } from './hash.ts';
import { withLock } from '../host/lock.ts';

const bootMiB = 28;
const sectorsPerMiB = 2048;

/** What the disk, the network, the console and a seed need; whatever a kernel has built in is left out by itself. */
const modules = [
  'crc32c_generic',
  'ext4',
  'virtio_pci',
  'virtio_mmio',
  'virtio_blk',
  'virtio_net',
  'virtio_console',
  'virtio_rng',
  'virtio_balloon',
  'pvpanic_mmio',
  'pvpanic_pci',
  'button',
  'evdev',
  'ahci',
  'sd_mod',
  'sr_mod',
  'e1000',
  'isofs',
  'vfat',
  'nls_cp437',
  'nls_ascii',
];

/** Those for files and a shell are what CI clients expect of a guest: sftp, scp and bash. */
const guestPackages = [
  'bash',
  'busybox-static',
  'dropbear-bin',
  'openssh-client',
  'openssh-sftp-server',
  'qemu-guest-agent',
] as const;

export interface GuestImage {
  /** The compressed qcow2. */
  readonly disk: string;
  /** Names the content: 12 hexadecimal digits. */
  readonly hash: string;
}

/** Builds the guest into `<cache>/guests/<hash>` unless it is there. Needs root: file owners go into the image. */
export function buildGuest(cache: string, signal?: AbortSignal): Promise<GuestImage> {
  return ensureGuest({ cache, prefix: '', sources: [], ...sign(signal) }, async (work) => {
    const tree = join(work, 'packages');
    await unpackPackages(tree, { packages: ['linux-image-cloud-amd64'], architecture: 'amd64' }, signal);
    await makeInitrd(work, tree, signal);
    await placeText('syslinux.cfg', join(work, 'boot/syslinux.cfg'), platforms.amd64, 0o644);
    await makeSmallRoot(join(work, 'root'), tree, platforms.amd64, signal);
    await makeBiosDisk(work, { rootMiB: 40 }, signal);
  });
}

export interface GuestBuild {
  readonly cache: string;
  /** In front of the hash in the name of the folder. */
  readonly prefix: string;
  /** What it is made of beside the recipe and this file. */
  readonly sources: readonly string[];
  readonly signal?: AbortSignal;
}

/** The guest of the cache, or the one whose `disk.qcow2` `make` leaves in the folder it is given. One of a kind at a time. */
export async function ensureGuest(
  { cache, prefix, sources }: GuestBuild,
  make: (work: string) => Promise<void>,
): Promise<GuestImage> {
  const own = [
    guestRecipe,
    fileURLToPath(import.meta.url),
    fileURLToPath(new URL('./guestroot.ts', import.meta.url)),
  ];
  const hash = (await hashOf([...own, ...sources])).slice(0, 12);
  const folder = join(cache, 'guests', `${prefix}${hash}`);
  const disk = join(folder, 'disk.qcow2');
  if (existsSync(disk)) return { disk, hash };
  await withLock(join(cache, 'guests', `${prefix}build.lock`), async () => {
    if (existsSync(disk)) return;
    const work = `${folder}.${process.pid}`;
    await rm(work, { recursive: true, force: true });
    try {
      await mkdir(join(work, 'done'), { recursive: true });
      await make(work);
      await rename(join(work, 'disk.qcow2'), join(work, 'done', 'disk.qcow2'));
      await rename(join(work, 'done'), folder);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  });
  return { disk, hash };
}

/** Unpacks what the guest is made of, and these packages, of this architecture, without running anything of them. */
export async function unpackPackages(
  tree: string,
  { packages, architecture }: { packages: readonly string[]; architecture: 'amd64' | 'arm64' },
  signal?: AbortSignal,
): Promise<void> {
  const parameters = [
    '--quiet',
    '--variant=extract',
    '--components=main',
    `--architectures=${architecture}`,
    `--include=${[...guestPackages, ...packages].join(',')}`,
    '--aptopt=APT::Install-Recommends "false"',
  ];
  await run('mmdebstrap', [...parameters, await debianSuite(), tree], sign(signal));
}

/** The release of Debian that the host runs, else the oldest that fits. */
export async function debianSuite(): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '');
  const isDebian = /^ID=debian$/m.test(release);
  return (isDebian ? /^VERSION_CODENAME=(\w+)$/m.exec(release)?.[1] : undefined) ?? 'bookworm';
}

async function kernelVersion(tree: string): Promise<string> {
  const versions = await readdir(join(tree, 'lib/modules')).catch(() =>
    readdir(join(tree, 'usr/lib/modules')),
  );
  const version = versions.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1);
  if (version === undefined) throw new Error('the kernel package has no modules');
  return version;
}

/** Modules with what they depend on, in the order in which they must be loaded. `dependencies` is a modules.dep. */
export function loadOrder(dependencies: string, wanted: readonly string[]): string[] {
  const needs = new Map<string, string[]>();
  const byName = new Map<string, string>();
  for (const line of dependencies.split('\n')) {
    const [path, rest] = line.split(':');
    if (path === undefined || rest === undefined) continue;
    needs.set(path, rest.split(' ').filter(Boolean));
    byName.set(moduleName(path), path);
  }
  const order: string[] = [];
  const visit = (path: string): void => {
    if (order.includes(path)) return;
    for (const need of needs.get(path) ?? []) visit(need);
    if (!order.includes(path)) order.push(path);
  };
  for (const name of wanted) {
    const path = byName.get(name);
    if (path !== undefined) visit(path);
  }
  return order;
}

function moduleName(path: string): string {
  return basename(path)
    .replace(/\.ko(\.\w+)?$/, '')
    .replaceAll('-', '_');
}

/** Leaves `boot/vmlinuz` and `boot/initrd` in `work`, of the kernel of an unpacked tree. */
export async function makeInitrd(work: string, tree: string, signal?: AbortSignal): Promise<void> {
  const version = await kernelVersion(tree);
  await run('depmod', ['-b', tree, version], sign(signal));
  const modulesDir = join(tree, 'lib/modules', version);
  const order = loadOrder(await readFile(join(modulesDir, 'modules.dep'), 'utf8'), modules);
  const initrd = join(work, 'initrd');
  for (const folder of ['bin', 'lib', 'dev', 'proc', 'sys', 'newroot'])
    await mkdir(join(initrd, folder), { recursive: true });
  await copyFile(join(tree, 'bin/busybox'), join(initrd, 'bin/busybox'));
  await symlink('busybox', join(initrd, 'bin/sh'));
  for (const path of order) {
    const file = join(initrd, 'lib', basename(path));
    await copyFile(join(modulesDir, path), file);
    if (path.endsWith('.xz')) await run('xz', ['-d', file], sign(signal));
  }
  await writeFile(
    join(initrd, 'lib/order'),
    order.map((path) => basename(path).replace(/\.xz$/, '')).join('\n'),
  );
  await placeText('init', join(initrd, 'init'), platforms.amd64, 0o755);
  await mkdir(join(work, 'boot'));
  await run(
    'sh',
    [
      '-c',
      'cd "$1" && find . | cpio --quiet -o -H newc | lz4 -l -9 > "$2"',
      'sh',
      initrd,
      join(work, 'boot/initrd'),
    ],
    sign(signal),
  );
  await copyFile(join(tree, 'boot', `vmlinuz-${version}`), join(work, 'boot/vmlinuz'));
}

/** MBR, a FAT partition that syslinux boots, an ext4 root. */
export async function makeBiosDisk(
  work: string,
  { rootMiB }: { rootMiB: number },
  signal?: AbortSignal,
): Promise<void> {
  const at = { cwd: work, ...sign(signal) };
  const table = [
    'label: dos',
    `start=${sectorsPerMiB},size=${bootMiB * sectorsPerMiB},type=c,bootable`,
    `start=${(1 + bootMiB) * sectorsPerMiB},size=${rootMiB * sectorsPerMiB},type=83`,
  ];
  await makeDisk(work, { table, bootMiB, rootMiB, spareMiB: 0 }, signal, async () => {
    await run('syslinux', ['--install', 'boot.fat'], at);
  });
  await run(
    'dd',
    ['if=/usr/lib/syslinux/mbr/mbr.bin', 'of=disk.raw', 'bs=440', 'count=1', 'conv=notrunc'],
    at,
  );
  await compress(work, signal);
}

/** GPT, a FAT partition with whatever boots by UEFI, an ext4 root. */
export async function makeUefiDisk(
  work: string,
  { espMiB, rootMiB }: { espMiB: number; rootMiB: number },
  signal?: AbortSignal,
): Promise<void> {
  const table = [
    'label: gpt',
    `start=${sectorsPerMiB},size=${espMiB * sectorsPerMiB},type=U`,
    `start=${(1 + espMiB) * sectorsPerMiB},size=${rootMiB * sectorsPerMiB},type=L`,
  ];
  await makeDisk(work, { table, bootMiB: espMiB, rootMiB, spareMiB: 1 }, signal);
  await compress(work, signal);
}

interface Layout {
  readonly table: readonly string[];
  readonly bootMiB: number;
  readonly rootMiB: number;
  /** Behind the root, for the second table of GPT. */
  readonly spareMiB: number;
}

/** `disk.raw` of the folders `boot` and `root`. Without a journal: the guest syncs what must last. */
async function makeDisk(
  work: string,
  layout: Layout,
  signal?: AbortSignal,
  onBootMade: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const at = { cwd: work, ...sign(signal) };
  const { bootMiB: boot, rootMiB, spareMiB } = layout;
  await sized(join(work, 'disk.raw'), 1 + boot + rootMiB + spareMiB);
  await run('sfdisk', ['-q', 'disk.raw'], { ...at, input: `${layout.table.join('\n')}\n` });
  await sized(join(work, 'boot.fat'), boot);
  await run('mkfs.vfat', ['-n', 'BOOT', 'boot.fat'], at);
  const entries = (await readdir(join(work, 'boot'))).map((name) => `boot/${name}`);
  await run('mcopy', ['-s', '-i', 'boot.fat', ...entries, '::/'], at);
  await onBootMade();
  await sized(join(work, 'root.ext4'), rootMiB);
  await run('mkfs.ext4', ['-q', '-L', 'root', '-d', 'root', '-O', '^has_journal', 'root.ext4'], at);
  const into = ['of=disk.raw', 'bs=1M', 'conv=notrunc,sparse'];
  await run('dd', ['if=boot.fat', 'seek=1', ...into], at);
  await run('dd', ['if=root.ext4', `seek=${1 + boot}`, ...into], at);
}

async function compress(work: string, signal?: AbortSignal): Promise<void> {
  const how = ['-c', '-O', 'qcow2', '-o', 'compression_type=zstd', '-W'];
  await run('qemu-img', ['convert', ...how, 'disk.raw', 'disk.qcow2'], { cwd: work, ...sign(signal) });
}

async function sized(path: string, mebibytes: number): Promise<void> {
  const file = await open(path, 'w');
  await file.truncate(mebibytes * 1024 * 1024);
  await file.close();
}

function sign(signal?: AbortSignal): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
