import type { Command } from './command.ts';

/** One command that is loaded when it is called. */
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

/** Every group of commands, in the order of help. */
export const groups: readonly Group[] = [
  { path: [], summary: 'svc3 runs virtual machines on the nodes of a Kubernetes cluster.' },
  { path: ['vm'], summary: 'Virtual machines: deploy, list, start, stop, log in, delete.' },
  { path: ['vmc'], aliases: ['vm-config'], summary: 'VM configurations: the defaults a VM can name.' },
  { path: ['pool'], summary: 'VM pools: guests that have booted already, for VMs that name the pool.' },
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

/** A file of `commands`. It is loaded when one of its commands is called, or asked for its words. */
type CommandFile = () => Promise<{ readonly commands: readonly Command[] }>;

/** Commands of a file, by the words that they follow and by their own, joined by `|`. */
function leavesOf(group: string, names: string, load: CommandFile): Leaf[] {
  return names.split('|').map((name) => {
    const path = [...group.split(' '), name].filter((word) => word !== '');
    return { path, load: async () => commandAt(path, (await load()).commands) };
  });
}

function commandAt(path: readonly string[], commands: readonly Command[]): Command {
  const wanted = path.join(' ');
  const found = commands.find((each) => each.path.join(' ') === wanted);
  if (found === undefined) throw new Error(`no file of commands has ${wanted}`);
  return found;
}

const power = 'start|stop|restart|suspend|resume|revert';
const ofImages = 'list|get|generate|copy|set-description|upload|download|delete|prune';
const ofIsos = 'list|get|copy|set-description|upload|download|delete';

/** Every command, in the order of help. */
export const leaves: readonly Leaf[] = [
  ...leavesOf('vm', 'deploy', () => import('./commands/vm/deploy.ts')),
  ...leavesOf('vm', 'list|get', () => import('./commands/vm/show.ts')),
  ...leavesOf('vm', 'delete', () => import('./commands/vm/delete.ts')),
  ...leavesOf('vm', power, () => import('./commands/vm/power.ts')),
  ...leavesOf('vm', 'save|commit', () => import('./commands/vm/save.ts')),
  ...leavesOf('vm', 'set|resize|eject', () => import('./commands/vm/change.ts')),
  ...leavesOf('vm', 'explain|logs|top', () => import('./commands/vm/show.ts')),
  ...leavesOf('vm', 'ssh|console|serial|tunnel', () => import('./commands/vm/guest.ts')),
  ...leavesOf('vmc', 'create|list|get|delete', () => import('./commands/vmc.ts')),
  ...leavesOf('pool', 'create|list|get|scale|delete', () => import('./commands/pool.ts')),
  ...leavesOf('image', ofImages, () => import('./commands/image.ts')),
  ...leavesOf('iso', ofIsos, () => import('./commands/iso.ts')),
  ...leavesOf('remote-image', 'list|pull', () => import('./commands/remote.ts')),
  ...leavesOf('remote-iso', 'list|pull', () => import('./commands/remote.ts')),
  ...leavesOf('node', 'list|top|tag|untag|assign', () => import('./commands/node.ts')),
  ...leavesOf('node gpu', 'enable|disable', () => import('./commands/node.ts')),
  ...leavesOf('regcred', 'list|add|remove', () => import('./commands/regcred.ts')),
  ...leavesOf('sa', 'list|create|token|delete', () => import('./commands/sa.ts')),
  ...leavesOf('user', 'get-token|set-token|logout|add|remove|list', () => import('./commands/user.ts')),
  ...leavesOf('', 'ui', () => import('./commands/ui.ts')),
  ...leavesOf('', 'login', () => import('./commands/login.ts')),
  ...leavesOf('config', 'set|view', () => import('./commands/config.ts')),
  ...leavesOf('dev', 'up|down|status', () => import('./commands/dev.ts')),
  ...leavesOf('', 'version', () => import('./commands/version.ts')),
  ...leavesOf('', 'completion', () => import('./commands/completion.ts')),
];

/** The group a path stands for, aliases resolved in its first word; undefined where it is none. */
export function groupAt(path: readonly string[]): Group | undefined {
  const canonical = canonicalPath(path).join(' ');
  return groups.find((group) => group.path.join(' ') === canonical);
}

/** The command a path stands for, aliases resolved; undefined where it is none. */
export function leafAt(path: readonly string[]): Leaf | undefined {
  const canonical = canonicalPath(path).join(' ');
  return leaves.find((each) => each.path.join(' ') === canonical);
}

/** The path with an alias in its first word replaced by the group's own name. */
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
