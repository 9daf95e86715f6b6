/**
 * Debian packages as the lowest layer of an image, for any architecture on any host: packages are unpacked, none of their programs
 * runs. What their scripts would do and an image needs is done here: accounts and the list of authorities.
 */
import { existsSync } from 'node:fs';
import { appendFile, chmod, copyFile, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../localcluster/host/command.ts';
import type { Architecture } from './recipe.ts';

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** `all` where it is for every architecture. */
  readonly architecture: string;
  /** sha256 of the .deb, in hexadecimal digits. */
  readonly sha256: string;
}

export interface DebianTree {
  /** Folder with the files. */
  readonly root: string;
  /** In the order of the alphabet. */
  readonly packages: readonly DebianPackage[];
}

/** What every image has: a shell and the small programs beside it. Debian's Essential packages, without what configures others. */
const base = [
  'base-files',
  'base-passwd',
  'bash',
  'coreutils',
  'dash',
  'findutils',
  'grep',
  'libc-bin',
  'sed',
  'util-linux',
];

const excluded = ['/usr/share/man/*', '/usr/share/doc/*', '/usr/share/locale/*', '/usr/share/info/*'];

/** What the host or apt leaves in the tree: it differs from one build to the next, and containers get their own. */
const leftBehind = [
  'dev',
  'etc/hostname',
  'etc/resolv.conf',
  'etc/apt',
  'tmp',
  'var/cache',
  'var/lib/apt',
  'var/lib/dpkg',
  'var/log',
];

/** Unpacks packages with all that they depend on into `<work>/root`, which must not be there. Needs root. */
export async function unpackDebian(
  work: string,
  wanted: { suite: string; architecture: Architecture; packages: readonly string[] },
  signal: AbortSignal,
): Promise<DebianTree> {
  const root = join(work, 'root');
  const digests = join(work, 'digests');
  const status = join(work, 'status');
  await mkdir(work, { recursive: true });
  const parameters = [
    '--quiet',
    '--mode=root',
    '--variant=extract',
    '--components=main',
    `--architectures=${wanted.architecture}`,
    `--include=${[...new Set([...base, ...wanted.packages])].join(',')}`,
    ...excluded.map((path) => `--dpkgopt=path-exclude=${path}`),
    `--extract-hook=${recordHook(digests, status)}`,
    wanted.suite,
    root,
  ];
  await run('mmdebstrap', parameters, { signal });
  for (const path of leftBehind) await rm(join(root, path), { recursive: true, force: true });
  for (const folder of ['dev', 'tmp', 'var/lib/dpkg']) await mkdir(join(root, folder), { recursive: true });
  await chmod(join(root, 'tmp'), 0o1777);
  await copyFile(status, join(root, 'var/lib/dpkg/status'));
  await addAccounts(root);
  await addAuthorities(root);
  return { root, packages: parsePackages(await readFile(digests, 'utf8')) };
}

/** Runs while the packages still lie in apt's cache. Scanners of images read dpkg's status. */
function recordHook(digests: string, status: string): string {
  return [
    'cd "$1/var/cache/apt/archives" || exit 1',
    'for deb in *.deb; do',
    `  dpkg-deb --show --showformat='\${Package} \${Version} \${Architecture} ' "$deb" >>'${digests}'`,
    `  sha256sum <"$deb" >>'${digests}'`,
    `  dpkg-deb --field "$deb" | sed 's/^Package: .*/&\\nStatus: install ok installed/' >>'${status}'`,
    `  echo >>'${status}'`,
    'done',
  ].join('\n');
}

/** Lines of name, version, architecture and digest. */
export function parsePackages(text: string): DebianPackage[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [name = '', version = '', architecture = '', sha256 = ''] = line.split(/\s+/);
      return { name, version, architecture, sha256 };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** As the script of base-passwd does. */
async function addAccounts(root: string): Promise<void> {
  for (const name of ['passwd', 'group'])
    await copyFile(join(root, 'usr/share/base-passwd', `${name}.master`), join(root, 'etc', name));
}

/** As the script of ca-certificates does. */
async function addAuthorities(root: string): Promise<void> {
  const from = join(root, 'usr/share/ca-certificates/mozilla');
  if (!existsSync(from)) return;
  const target = join(root, 'etc/ssl/certs/ca-certificates.crt');
  await mkdir(join(root, 'etc/ssl/certs'), { recursive: true });
  await writeFile(target, '');
  for (const name of (await readdir(from)).toSorted())
    await appendFile(target, await readFile(join(from, name)));
}
