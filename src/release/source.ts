/** What a release is made from: a version, a commit and its lockfile. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { Svc3Error } from '../errors.ts';
import { run } from '../localcluster/host/command.ts';
import { sha256 } from '../registry/manifest.ts';

export interface NpmPackage {
  readonly name: string;
  readonly version: string;
  /** As package.json says it. */
  readonly license?: string | undefined;
}

export interface Source {
  /** Of the chart. */
  readonly version: string;
  /** The commit; undefined where the tree has changes that are not committed. */
  readonly commit?: string;
  /** Time of the commit (RFC 3339, UTC): the only time in a release. */
  readonly created: string;
  /** `sha256:…` of package-lock.json. */
  readonly lockfile: string;
  /** Version of Node. */
  readonly node: string;
  /** npm packages of what runs in the cluster. */
  readonly packages: readonly NpmPackage[];
}

/** @throws Conflict where the tree is not what its commit says, unless `dirty` allows that. */
export async function readSource(root: string, { dirty }: { dirty: boolean }): Promise<Source> {
  const git = (...parameters: string[]): Promise<string> => run('git', ['-C', root, ...parameters]);
  const changed = (await git('status', '--porcelain')).trim() !== '';
  if (changed && !dirty)
    throw new Svc3Error(
      'Conflict',
      'the checkout has changes that are not committed: commit them, or say --dirty',
    );
  const [commit = '', seconds = ''] = (await git('log', '-1', '--format=%H %ct')).trim().split(' ');
  const lock = await readFile(join(root, 'package-lock.json'));
  const chart = parse(await readFile(join(root, 'charts/svc3/Chart.yaml'), 'utf8')) as { version: string };
  return {
    version: chart.version,
    ...(changed ? {} : { commit }),
    created: new Date(Number(seconds) * 1000).toISOString().replace('.000Z', 'Z'),
    lockfile: sha256(lock),
    ...packagesOf(JSON.parse(lock.toString()) as Lockfile),
  };
}

interface Lockfile {
  readonly packages: Readonly<Record<string, { version?: string; license?: string; dev?: boolean }>>;
}

const modules = 'node_modules/';

/** The packages that are no tools of development, in the order of the alphabet, and the version of Node. */
export function packagesOf({ packages }: Lockfile): Pick<Source, 'node' | 'packages'> {
  const found = Object.entries(packages)
    .filter(([path, { dev }]) => path.includes(modules) && dev !== true)
    .map(([path, { version = '', license }]) => ({
      name: path.slice(path.lastIndexOf(modules) + modules.length),
      version,
      license,
    }));
  const unique = new Map(found.map((each) => [`${each.name}@${each.version}`, each]));
  return {
    node: packages[`${modules}node`]?.version ?? '',
    packages: [...unique].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each),
  };
}
