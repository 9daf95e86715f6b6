/** Programs of the host that a full cluster needs, and the Debian packages they come from. None of them is a daemon. */
import { existsSync } from 'node:fs';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Svc3Error, messageOf } from '../../errors.ts';
import { run } from '../host/command.ts';
import type { Progress } from '../host/progress.ts';

/** A command, or a file where the path is absolute → the package that has it. */
export type Requirements = Readonly<Record<string, string>>;

const requirements: Requirements = {
  // Elsewhere than on Debian mmdebstrap does not bring it along, and takes what it makes images from for unsigned.
  '/usr/share/keyrings/debian-archive-keyring.gpg': 'debian-archive-keyring',
  bash: 'bash',
  buildah: 'buildah',
  cpio: 'cpio',
  depmod: 'kmod',
  flock: 'util-linux',
  gcc: 'gcc',
  ip: 'iproute2',
  lz4: 'lz4',
  mcopy: 'mtools',
  'mkfs.ext4': 'e2fsprogs',
  'mkfs.vfat': 'dosfstools',
  mmdebstrap: 'mmdebstrap',
  nft: 'nftables',
  nsenter: 'util-linux',
  openssl: 'openssl',
  perl: 'perl-base',
  'pkg-config': 'pkg-config',
  'qemu-img': 'qemu-utils',
  readelf: 'binutils',
  setpriv: 'util-linux',
  sfdisk: 'fdisk',
  syslinux: 'syslinux',
  unshare: 'util-linux',
  xz: 'xz-utils',
  '/usr/include/seccomp.h': 'libseccomp-dev',
  '/usr/lib/syslinux/mbr/mbr.bin': 'syslinux-common',
};

/** Folders of programs for root, which are not on every user's PATH. */
const systemFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/local/bin', '/usr/bin', '/bin'];

/** Packages that are missing, in the order of the alphabet; `also` adds to what a local cluster needs. */
async function missingPackages(path: string, also: Requirements = {}): Promise<string[]> {
  const folders = [...path.split(delimiter).filter(Boolean), ...systemFolders];
  const found = await Promise.all(
    Object.entries({ ...requirements, ...also }).map(async ([name, pack]) =>
      (await isThere(name, folders)) ? '' : pack,
    ),
  );
  return [...new Set(found.filter(Boolean))].toSorted();
}

async function isThere(name: string, folders: readonly string[]): Promise<boolean> {
  if (name.startsWith('/')) return existsSync(name);
  const tries = folders.map((folder) => access(join(folder, name), constants.X_OK));
  return Promise.any(tries).then(
    () => true,
    () => false,
  );
}

/** Installs what is missing with apt-get, as root or through sudo; says in one sentence what it cannot. */
export async function ensurePackages(
  path: string,
  progress: Progress,
  options: { signal?: AbortSignal; also?: Requirements } = {},
): Promise<void> {
  const { signal } = options;
  const missing = await missingPackages(path, options.also);
  if (missing.length === 0) return;
  const advice = `apt-get install --no-install-recommends ${missing.join(' ')}`;
  if (!(await isThere('apt-get', systemFolders)))
    throw new Svc3Error(
      'InternalError',
      `the local cluster needs the Debian packages ${missing.join(', ')}, or what is their like here`,
    );
  progress(`installing Debian packages: ${missing.join(' ')}`);
  const asRoot = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const apt = async (...parameters: string[]): Promise<void> => {
    const [program = '', ...rest] = [
      ...asRoot,
      'env',
      'DEBIAN_FRONTEND=noninteractive',
      'apt-get',
      ...parameters,
    ];
    await run(program, rest, signal === undefined ? {} : { signal });
  };
  const install = [
    '-o',
    'DPkg::Lock::Timeout=600',
    'install',
    '--yes',
    '--no-install-recommends',
    ...missing,
  ];
  try {
    await apt('-o', 'DPkg::Lock::Timeout=600', 'update');
    await apt(...install);
  } catch (cause) {
    throw new Svc3Error('InternalError', `run '${advice}' as root: ${messageOf(cause)}`, { cause });
  }
}
