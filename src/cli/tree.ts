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

const leaf = (path: string, load: () => Promise<Command>): Leaf => ({ path: path.split(' '), load });

/** Every command, in the order of help. */
export const leaves: readonly Leaf[] = [
  leaf('vm deploy', async () => (await import('./commands/vm/deploy.ts')).vmDeploy),
  leaf('vm list', async () => (await import('./commands/vm/list.ts')).vmList),
  leaf('vm get', async () => (await import('./commands/vm/get.ts')).vmGet),
  leaf('vm delete', async () => (await import('./commands/vm/delete.ts')).vmDelete),
  leaf('vm start', async () => (await import('./commands/vm/start.ts')).vmStart),
  leaf('vm stop', async () => (await import('./commands/vm/stop.ts')).vmStop),
  leaf('vm restart', async () => (await import('./commands/vm/restart.ts')).vmRestart),
  leaf('vm suspend', async () => (await import('./commands/vm/suspend.ts')).vmSuspend),
  leaf('vm resume', async () => (await import('./commands/vm/resume.ts')).vmResume),
  leaf('vm revert', async () => (await import('./commands/vm/revert.ts')).vmRevert),
  leaf('vm save', async () => (await import('./commands/vm/save.ts')).vmSave),
  leaf('vm commit', async () => (await import('./commands/vm/commit.ts')).vmCommit),
  leaf('vm set', async () => (await import('./commands/vm/set.ts')).vmSet),
  leaf('vm resize', async () => (await import('./commands/vm/resize.ts')).vmResize),
  leaf('vm eject', async () => (await import('./commands/vm/eject.ts')).vmEject),
  leaf('vm explain', async () => (await import('./commands/vm/explain.ts')).vmExplain),
  leaf('vm logs', async () => (await import('./commands/vm/logs.ts')).vmLogs),
  leaf('vm top', async () => (await import('./commands/vm/top.ts')).vmTop),
  leaf('vm ssh', async () => (await import('./commands/vm/ssh.ts')).vmSsh),
  leaf('vm console', async () => (await import('./commands/vm/console.ts')).vmConsole),
  leaf('vm serial', async () => (await import('./commands/vm/serial.ts')).vmSerial),
  leaf('vm tunnel', async () => (await import('./commands/vm/tunnel.ts')).vmTunnel),
  leaf('vmc create', async () => (await import('./commands/vmc/create.ts')).vmcCreate),
  leaf('vmc list', async () => (await import('./commands/vmc/list.ts')).vmcList),
  leaf('vmc get', async () => (await import('./commands/vmc/get.ts')).vmcGet),
  leaf('vmc delete', async () => (await import('./commands/vmc/delete.ts')).vmcDelete),
  leaf('pool create', async () => (await import('./commands/pool/create.ts')).poolCreate),
  leaf('pool list', async () => (await import('./commands/pool/list.ts')).poolList),
  leaf('pool get', async () => (await import('./commands/pool/get.ts')).poolGet),
  leaf('pool scale', async () => (await import('./commands/pool/scale.ts')).poolScale),
  leaf('pool delete', async () => (await import('./commands/pool/delete.ts')).poolDelete),
  leaf('image list', async () => (await import('./commands/image/list.ts')).imageList),
  leaf('image get', async () => (await import('./commands/image/get.ts')).imageGet),
  leaf('image generate', async () => (await import('./commands/image/generate.ts')).imageGenerate),
  leaf('image copy', async () => (await import('./commands/image/copy.ts')).imageCopy),
  leaf(
    'image set-description',
    async () => (await import('./commands/image/setdescription.ts')).imageSetDescription,
  ),
  leaf('image upload', async () => (await import('./commands/image/upload.ts')).imageUpload),
  leaf('image download', async () => (await import('./commands/image/download.ts')).imageDownload),
  leaf('image delete', async () => (await import('./commands/image/delete.ts')).imageDelete),
  leaf('image prune', async () => (await import('./commands/image/prune.ts')).imagePrune),
  leaf('iso list', async () => (await import('./commands/iso/list.ts')).isoList),
  leaf('iso get', async () => (await import('./commands/iso/get.ts')).isoGet),
  leaf('iso copy', async () => (await import('./commands/iso/copy.ts')).isoCopy),
  leaf(
    'iso set-description',
    async () => (await import('./commands/iso/setdescription.ts')).isoSetDescription,
  ),
  leaf('iso upload', async () => (await import('./commands/iso/upload.ts')).isoUpload),
  leaf('iso download', async () => (await import('./commands/iso/download.ts')).isoDownload),
  leaf('iso delete', async () => (await import('./commands/iso/delete.ts')).isoDelete),
  leaf('remote-image list', async () => (await import('./commands/remoteimage/list.ts')).remoteImageList),
  leaf('remote-image pull', async () => (await import('./commands/remoteimage/pull.ts')).remoteImagePull),
  leaf('remote-iso list', async () => (await import('./commands/remoteiso/list.ts')).remoteIsoList),
  leaf('remote-iso pull', async () => (await import('./commands/remoteiso/pull.ts')).remoteIsoPull),
  leaf('node list', async () => (await import('./commands/node/list.ts')).nodeList),
  leaf('node top', async () => (await import('./commands/node/top.ts')).nodeTop),
  leaf('node tag', async () => (await import('./commands/node/tag.ts')).nodeTag),
  leaf('node untag', async () => (await import('./commands/node/untag.ts')).nodeUntag),
  leaf('node assign', async () => (await import('./commands/node/assign.ts')).nodeAssign),
  leaf('node gpu enable', async () => (await import('./commands/node/gpu/enable.ts')).nodeGpuEnable),
  leaf('node gpu disable', async () => (await import('./commands/node/gpu/disable.ts')).nodeGpuDisable),
  leaf('regcred list', async () => (await import('./commands/regcred/list.ts')).regcredList),
  leaf('regcred add', async () => (await import('./commands/regcred/add.ts')).regcredAdd),
  leaf('regcred remove', async () => (await import('./commands/regcred/remove.ts')).regcredRemove),
  leaf('sa list', async () => (await import('./commands/sa/list.ts')).saList),
  leaf('sa create', async () => (await import('./commands/sa/create.ts')).saCreate),
  leaf('sa token', async () => (await import('./commands/sa/token.ts')).saToken),
  leaf('sa delete', async () => (await import('./commands/sa/delete.ts')).saDelete),
  leaf('user get-token', async () => (await import('./commands/user/gettoken.ts')).userGetToken),
  leaf('user set-token', async () => (await import('./commands/user/settoken.ts')).userSetToken),
  leaf('user logout', async () => (await import('./commands/user/logout.ts')).userLogout),
  leaf('user add', async () => (await import('./commands/user/add.ts')).userAdd),
  leaf('user remove', async () => (await import('./commands/user/remove.ts')).userRemove),
  leaf('user list', async () => (await import('./commands/user/list.ts')).userList),
  leaf('ui', async () => (await import('./commands/ui.ts')).ui),
  leaf('login', async () => (await import('./commands/login.ts')).login),
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
