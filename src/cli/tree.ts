import type { Command } from './command.ts';

/** One command that is loaded when it is called: the file has the path joined by `/` as its name under `commands/`. */
export interface Leaf {
  readonly path: readonly string[];
  load(): Promise<Command>;
}

/** What stands before other words. */
export interface Group {
  readonly path: readonly string[];
  readonly summary: string;
  readonly aliases?: readonly string[];
}

export const groups: readonly Group[] = [
  { path: [], summary: 'svc3 runs virtual machines on the nodes of a Kubernetes cluster.' },
  { path: ['vm'], summary: 'Virtual machines: deploy, list, start, stop, log in, delete.' },
  { path: ['vmc'], aliases: ['vm-config'], summary: 'VM configurations: the defaults a VM can name.' },
  { path: ['image'], summary: 'Disk images in the store of the cluster.' },
  { path: ['iso'], summary: 'Install media in the store of the cluster.' },
  { path: ['remote-image'], summary: 'Disk images in the remote registries of the installation.' },
  { path: ['remote-iso'], summary: 'Install media in the remote registries of the installation.' },
  { path: ['node'], summary: 'Nodes: capacity, tags, namespaces, GPU passthrough.' },
  { path: ['node', 'gpu'], summary: 'GPU passthrough of a node.' },
  {
    path: ['regcred'],
    aliases: ['registrycredential'],
    summary: 'Registry credentials of a namespace, for private OCI images.',
  },
  { path: ['sa'], aliases: ['serviceaccount'], summary: 'Service accounts and their tokens.' },
  { path: ['user'], summary: 'Users and their tokens.' },
  { path: ['config'], summary: 'Configuration of this program.' },
  { path: ['dev'], summary: 'The local cluster: a complete Kubernetes with svc3 on this machine.' },
];

const leaf = (path: string, load: () => Promise<Command>): Leaf => ({ path: path.split(' '), load });

export const leaves: readonly Leaf[] = [
  leaf('vm deploy', async () => (await import('./commands/vm/deploy.ts')).vmDeploy),
  leaf('vm list', async () => (await import('./commands/vm/list.ts')).vmList),
  leaf('vm get', async () => (await import('./commands/vm/get.ts')).vmGet),
  leaf('vm delete', async () => (await import('./commands/vm/delete.ts')).vmDelete),
  leaf('vmc create', async () => (await import('./commands/vmc/create.ts')).vmcCreate),
  leaf('vmc list', async () => (await import('./commands/vmc/list.ts')).vmcList),
  leaf('vmc get', async () => (await import('./commands/vmc/get.ts')).vmcGet),
  leaf('vmc delete', async () => (await import('./commands/vmc/delete.ts')).vmcDelete),
  leaf('node list', async () => (await import('./commands/node/list.ts')).nodeList),
  leaf('config set', async () => (await import('./commands/config/set.ts')).configSet),
  leaf('config view', async () => (await import('./commands/config/view.ts')).configView),
  leaf('dev up', async () => (await import('./commands/dev/up.ts')).devUp),
  leaf('dev down', async () => (await import('./commands/dev/down.ts')).devDown),
  leaf('dev status', async () => (await import('./commands/dev/status.ts')).devStatus),
  leaf('version', async () => (await import('./commands/version.ts')).version),
  leaf('completion', async () => (await import('./commands/completion.ts')).completion),
];

/** The group a path stands for, aliases resolved in its first word; undefined where it is none. */
export function groupAt(path: readonly string[]): Group | undefined {
  const canonical = canonicalPath(path).join(' ');
  return groups.find((group) => group.path.join(' ') === canonical);
}

export function leafAt(path: readonly string[]): Leaf | undefined {
  const canonical = canonicalPath(path).join(' ');
  return leaves.find((each) => each.path.join(' ') === canonical);
}

export function canonicalPath(path: readonly string[]): readonly string[] {
  const [first, ...rest] = path;
  const group = groups.find((each) => first !== undefined && each.aliases?.includes(first) === true);
  return group === undefined ? path : [...group.path, ...rest];
}

/** Words that may follow a group, in the order of the tree. */
export function childWords(path: readonly string[]): string[] {
  const depth = path.length;
  const prefix = path.join(' ');
  const paths = [...groups, ...leaves].map((each) => each.path);
  const words = paths
    .filter((each) => each.length === depth + 1 && each.slice(0, depth).join(' ') === prefix)
    .map((each) => each[depth] ?? '');
  return [...new Set(words)];
}
