/**
 * The demo and test guest: a self-contained BIOS disk of about 20 MB, made of Debian packages without a loop mount. It runs
 * an SSH server (users root and admin, password admin), the QEMU guest agent, shuts down on the power button, reads a
 * NoCloud seed, and prints READY on its serial console.
 */
import {
  chmod,
  chown,
  copyFile,
  cp,
  mkdir,
  open,
  readFile,
  readdir,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hashOf } from './hash.ts';
import { run } from './command.ts';

const recipe = fileURLToPath(new URL('../../containers/guest', import.meta.url));
const bootMiB = 28;
const rootMiB = 40;

/** What the disk, the network, the console and a seed need; whatever a kernel has built in is left out by itself. */
const modules = [
  'virtio_pci',
  'virtio_mmio',
  'virtio_blk',
  'virtio_net',
  'virtio_console',
  'virtio_rng',
  'virtio_balloon',
  'pvpanic_mmio',
  'button',
  'evdev',
  'ahci',
  'sr_mod',
  'isofs',
  'vfat',
  'nls_cp437',
  'nls_ascii',
];

export const guestPackages = [
  'busybox-static',
  'dropbear-bin',
  'qemu-guest-agent',
  'linux-image-cloud-amd64',
] as const;

export interface GuestImage {
  /** The compressed qcow2. */
  readonly disk: string;
  /** Names the content: 12 hexadecimal digits. */
  readonly hash: string;
}

/** Builds the guest into `<cache>/guests/<hash>` unless it is there. Needs root: file owners go into the image. */
export async function buildGuest(cache: string, signal?: AbortSignal): Promise<GuestImage> {
  const hash = (await hashOf([recipe, fileURLToPath(import.meta.url)])).slice(0, 12);
  const folder = join(cache, 'guests', hash);
  const disk = join(folder, 'disk.qcow2');
  if (existsSync(disk)) return { disk, hash };
  const work = join(cache, 'guests', `${hash}.${process.pid}`);
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  try {
    const tree = join(work, 'packages');
    await unpackPackages(tree, signal);
    await makeInitrd(work, tree, signal);
    await makeRoot(work, tree, signal);
    await makeDisk(work, signal);
    await mkdir(join(work, 'done'));
    await rename(join(work, 'disk.qcow2'), join(work, 'done', 'disk.qcow2'));
    await rename(join(work, 'done'), folder).catch(() => undefined);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return { disk, hash };
}

async function unpackPackages(tree: string, signal?: AbortSignal): Promise<void> {
  const suite = await debianSuite();
  const parameters = [
    '--quiet',
    '--variant=extract',
    '--components=main',
    `--include=${guestPackages.join(',')}`,
  ];
  await run(
    'mmdebstrap',
    [...parameters, '--aptopt=APT::Install-Recommends "false"', suite, tree],
    sign(signal),
  );
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

async function makeInitrd(work: string, tree: string, signal?: AbortSignal): Promise<void> {
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
  await place(join(recipe, 'init'), join(initrd, 'init'), 0o755);
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
  await copyFile(join(recipe, 'syslinux.cfg'), join(work, 'boot/syslinux.cfg'));
}

async function makeRoot(work: string, tree: string, signal?: AbortSignal): Promise<void> {
  const root = join(work, 'root');
  const folders = [
    'bin',
    'sbin',
    'etc/dropbear',
    'usr/bin',
    'usr/sbin',
    'usr/share/udhcpc',
    'lib64',
    'lib/x86_64-linux-gnu',
  ];
  for (const folder of [
    ...folders,
    'dev',
    'proc',
    'sys',
    'tmp',
    'var/run',
    'run',
    'root',
    'home/admin',
    'mnt',
  ])
    await mkdir(join(root, folder), { recursive: true });
  await copyFile(join(tree, 'bin/busybox'), join(root, 'bin/busybox'));
  for (const applet of (await run(join(root, 'bin/busybox'), ['--list'], sign(signal)))
    .split('\n')
    .filter(Boolean))
    if (applet !== 'busybox') await symlink('busybox', join(root, 'bin', applet));
  for (const name of ['init', 'getty', 'poweroff']) await symlink('../bin/busybox', join(root, 'sbin', name));
  for (const program of ['usr/sbin/dropbear', 'usr/bin/dropbearkey', 'usr/sbin/qemu-ga'])
    await copyProgram(tree, root, program, signal);
  await copyFile(
    join(tree, 'lib/x86_64-linux-gnu/libnss_files.so.2'),
    join(root, 'lib/x86_64-linux-gnu/libnss_files.so.2'),
  );
  await writeAccounts(root, signal);
  for (const script of ['rcS', 'rcK', 'seed'])
    await place(join(recipe, script), join(root, 'etc', script), 0o755);
  await place(join(recipe, 'inittab'), join(root, 'etc/inittab'), 0o644);
  await place(join(recipe, 'udhcpc.script'), join(root, 'usr/share/udhcpc/default.script'), 0o755);
}

async function copyProgram(tree: string, root: string, program: string, signal?: AbortSignal): Promise<void> {
  await copyFile(join(tree, program), join(root, program));
  const paths = ['lib/x86_64-linux-gnu', 'usr/lib/x86_64-linux-gnu']
    .map((path) => join(tree, path))
    .join(':');
  const loader = join(tree, 'lib64/ld-linux-x86-64.so.2');
  const list = await run(loader, ['--library-path', paths, '--list', join(tree, program)], sign(signal));
  for (const match of list.matchAll(/(\/\S+) \(0x/g)) {
    const library = match[1] ?? '';
    await cp(library, join(root, 'lib/x86_64-linux-gnu', basename(library)), { dereference: true });
  }
  await cp(loader, join(root, 'lib64/ld-linux-x86-64.so.2'), { dereference: true });
}

async function writeAccounts(root: string, signal?: AbortSignal): Promise<void> {
  const password = (await run('openssl', ['passwd', '-6', 'admin'], sign(signal))).trim();
  const etc = (name: string, text: string, mode = 0o644) =>
    writeFile(join(root, 'etc', name), text, { mode });
  await etc('passwd', 'root:x:0:0:root:/root:/bin/sh\nadmin:x:1000:1000:admin:/home/admin:/bin/sh\n');
  await etc(
    'shadow',
    ['root', 'admin'].map((user) => `${user}:${password}:19000:0:99999:7:::\n`).join(''),
    0o600,
  );
  await etc('group', 'root:x:0:\nadmin:x:1000:\n');
  await etc('hostname', 'svc3-guest\n');
  await etc('shells', '/bin/sh\n');
  await etc('nsswitch.conf', 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n');
  await chown(join(root, 'home/admin'), 1000, 1000);
  await chmod(join(root, 'root'), 0o700);
}

/** MBR, a FAT partition that syslinux boots, an ext4 root. Without a journal: the guest syncs what must last. */
async function makeDisk(work: string, signal?: AbortSignal): Promise<void> {
  const file = (name: string): string => join(work, name);
  const at = { cwd: work, ...sign(signal) };
  const sectorsPerMiB = 2048;
  await sized(file('disk.raw'), 1 + bootMiB + rootMiB);
  const table = [
    'label: dos',
    `start=${sectorsPerMiB},size=${bootMiB * sectorsPerMiB},type=c,bootable`,
    `start=${(1 + bootMiB) * sectorsPerMiB},size=${rootMiB * sectorsPerMiB},type=83`,
  ].join('\n');
  await run('sfdisk', ['-q', 'disk.raw'], { ...at, input: `${table}\n` });
  await sized(file('boot.fat'), bootMiB);
  await run('mkfs.vfat', ['-n', 'BOOT', 'boot.fat'], at);
  await run('mcopy', ['-i', 'boot.fat', 'boot/vmlinuz', 'boot/initrd', 'boot/syslinux.cfg', '::/'], at);
  await run('syslinux', ['--install', 'boot.fat'], at);
  await sized(file('root.ext4'), rootMiB);
  await run('mkfs.ext4', ['-q', '-L', 'root', '-d', 'root', '-O', '^has_journal', 'root.ext4'], at);
  await run('dd', ['if=boot.fat', 'of=disk.raw', 'bs=1M', 'seek=1', 'conv=notrunc'], at);
  await run('dd', ['if=root.ext4', 'of=disk.raw', 'bs=1M', `seek=${1 + bootMiB}`, 'conv=notrunc'], at);
  await run(
    'dd',
    ['if=/usr/lib/syslinux/mbr/mbr.bin', 'of=disk.raw', 'bs=440', 'count=1', 'conv=notrunc'],
    at,
  );
  await run('qemu-img', ['convert', '-c', '-O', 'qcow2', 'disk.raw', 'disk.qcow2'], at);
}

async function sized(path: string, mebibytes: number): Promise<void> {
  const file = await open(path, 'w');
  await file.truncate(mebibytes * 1024 * 1024);
  await file.close();
}

async function place(from: string, to: string, mode: number): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to);
  await chmod(to, mode);
}

function sign(signal?: AbortSignal): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
