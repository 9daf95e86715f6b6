/** The root file system of the small guests: BusyBox, an SSH server, the guest agent, and nothing that is installed. */
import { chmod, chown, copyFile, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../host/command.ts';

/** Scripts and settings of the guests. */
export const guestRecipe = fileURLToPath(new URL('../../../containers/guest', import.meta.url));

/** What differs between architectures. */
export interface GuestPlatform {
  readonly architecture: 'amd64' | 'arm64';
  readonly triplet: string;
  /** The dynamic loader as programs name it. */
  readonly loader: string;
  /** Device of the serial console. */
  readonly console: string;
}

export const platforms: Record<'amd64' | 'arm64', GuestPlatform> = {
  amd64: {
    architecture: 'amd64',
    triplet: 'x86_64-linux-gnu',
    loader: 'lib64/ld-linux-x86-64.so.2',
    console: 'ttyS0',
  },
  arm64: {
    architecture: 'arm64',
    triplet: 'aarch64-linux-gnu',
    loader: 'lib/ld-linux-aarch64.so.1',
    console: 'ttyAMA0',
  },
};

const folders = [
  'bin sbin etc/dropbear usr/bin usr/lib usr/sbin usr/share/udhcpc lib64',
  'dev proc sys tmp var/run run root home/admin mnt',
].flatMap((line) => line.split(' '));

/** A program of the packages, and its path in the guest where that is another. */
const programs: ReadonlyArray<readonly [program: string, path?: string]> = [
  ['bin/bash'],
  ['usr/bin/dropbearkey'],
  ['usr/bin/scp'],
  // Where dropbear looks for it.
  ['usr/lib/openssh/sftp-server', 'usr/lib/sftp-server'],
  ['usr/sbin/dropbear'],
  ['usr/sbin/qemu-ga'],
];

/** Fills `root` from an unpacked tree. Needs root: files belong to users of the guest. */
export async function makeSmallRoot(
  root: string,
  tree: string,
  platform: GuestPlatform,
  signal?: AbortSignal,
): Promise<void> {
  for (const folder of [...folders, `lib/${platform.triplet}`])
    await mkdir(join(root, folder), { recursive: true });
  await copyFile(join(tree, 'bin/busybox'), join(root, 'bin/busybox'));
  await linkApplets(root, platform, signal);
  for (const name of ['init', 'getty', 'poweroff']) await symlink('../bin/busybox', join(root, 'sbin', name));
  const copied = new Set<string>();
  for (const [program, path = program] of programs) {
    await copyFile(join(tree, program), join(root, path));
    await copyLibraries({ tree, root, triplet: platform.triplet, copied }, join(tree, program), signal);
  }
  await copyLibrary({ tree, root, triplet: platform.triplet, copied }, 'libnss_files.so.2');
  await cp(
    libraryIn(tree, platform.triplet, platform.loader.replace(/^.*\//, '')),
    join(root, platform.loader),
    {
      dereference: true,
    },
  );
  await writeAccounts(root, signal);
  for (const script of ['rcS', 'rcK', 'seed'])
    await placeText(script, join(root, 'etc', script), platform, 0o755);
  await placeText('woken', join(root, 'usr/lib/svc3/woken'), platform, 0o755);
  await placeText('inittab', join(root, 'etc/inittab'), platform, 0o644);
  await placeText('udhcpc.script', join(root, 'usr/share/udhcpc/default.script'), platform, 0o755);
}

/** A BusyBox of another architecture cannot be asked here; its guest makes the links when it boots first. */
async function linkApplets(root: string, platform: GuestPlatform, signal?: AbortSignal): Promise<void> {
  if (platform.architecture !== (process.arch === 'x64' ? 'amd64' : process.arch)) return;
  const applets = await run(join(root, 'bin/busybox'), ['--list'], signal === undefined ? {} : { signal });
  for (const applet of applets.split('\n').filter(Boolean))
    if (applet !== 'busybox') await symlink('busybox', join(root, 'bin', applet));
}

interface Libraries {
  readonly tree: string;
  readonly root: string;
  readonly triplet: string;
  /** Names of those that are there already. */
  readonly copied: Set<string>;
}

/** All that a program or library needs, by what it says about itself. */
async function copyLibraries(libraries: Libraries, file: string, signal?: AbortSignal): Promise<void> {
  const dynamic = await run('readelf', ['-d', file], signal === undefined ? {} : { signal });
  for (const match of dynamic.matchAll(/\(NEEDED\)\s+Shared library: \[([^\]]+)\]/g)) {
    const name = match[1] ?? '';
    if (libraries.copied.has(name)) continue;
    await copyLibraries(libraries, await copyLibrary(libraries, name), signal);
  }
}

async function copyLibrary({ tree, root, triplet, copied }: Libraries, name: string): Promise<string> {
  copied.add(name);
  const found = libraryIn(tree, triplet, name);
  await cp(found, join(root, 'lib', triplet, name), { dereference: true });
  return found;
}

function libraryIn(tree: string, triplet: string, name: string): string {
  const candidates = ['lib', 'usr/lib'].map((folder) => join(tree, folder, triplet, name));
  const found = candidates.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`the packages of the guest have no ${name}`);
  return found;
}

async function writeAccounts(root: string, signal?: AbortSignal): Promise<void> {
  const hashed = await run('openssl', ['passwd', '-6', 'admin'], signal === undefined ? {} : { signal });
  const etc = (name: string, text: string, mode = 0o644) =>
    writeFile(join(root, 'etc', name), text, { mode });
  await etc('passwd', 'root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000:admin:/home/admin:/bin/bash\n');
  await etc(
    'shadow',
    ['root', 'admin'].map((user) => `${user}:${hashed.trim()}:19000:0:99999:7:::\n`).join(''),
    0o600,
  );
  await etc('group', 'root:x:0:\nadmin:x:1000:\n');
  await etc('hostname', 'svc3-guest\n');
  // bash shows its version as the prompt unless a profile says something else.
  await etc('profile', "export PS1='\\u@\\h:\\w\\$ '\n");
  await etc('shells', '/bin/sh\n/bin/bash\n');
  await etc('nsswitch.conf', 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n');
  await chown(join(root, 'home/admin'), 1000, 1000);
  await chmod(join(root, 'root'), 0o700);
}

/** A file of the recipe, for the serial console of the platform. */
export async function placeText(
  name: string,
  to: string,
  platform: GuestPlatform,
  mode: number,
): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  const text = await readFile(join(guestRecipe, name), 'utf8');
  await writeFile(to, text.replaceAll('ttyS0', platform.console));
  await chmod(to, mode);
}
