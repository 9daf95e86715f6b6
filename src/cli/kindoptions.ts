import { readFile } from 'node:fs/promises';
import { messageOf } from '../errors.ts';
import type { SettingsRequest } from '../wire/deploy.ts';
import type { ArgumentSpecs, Input, OptionSpecs } from './command.ts';
import { usageError } from './usage.ts';
import { withoutUndefined } from './settings.ts';

/** Options of `vm deploy`, `vm set` and `vmc create` for what the kinds say in objects. */
export const kindOptions = {
  arch: {
    kind: 'choice',
    alias: 'architecture',
    choices: ['amd64', 'arm64'],
    summary: "Architecture of the guest; else the image's; also --architecture",
  },
  storage: {
    kind: 'choice',
    choices: ['ephemeral', 'persistent'],
    summary: 'Whether changes to the disk go with the pod, or stay in a PersistentVolumeClaim',
  },
  'storage-class': {
    kind: 'text',
    placeholder: 'NAME',
    summary: 'StorageClass of a persistent disk',
  },
  'when-deleted': {
    kind: 'choice',
    choices: ['retain', 'delete'],
    summary: 'What becomes of a persistent disk when its VM is deleted; else it stays (retain)',
  },
  'disk-size': {
    kind: 'text',
    placeholder: 'SIZE',
    summary: "Virtual size of the disk, e.g. 40Gi; else the image's",
  },
  'suspend-to': {
    kind: 'choice',
    choices: ['memory', 'disk'],
    summary:
      'Where the memory of a suspended guest is: in its pod (memory), or on the claim of a persistent disk',
  },
  'on-eviction': {
    kind: 'choice',
    choices: ['shutdown', 'suspend'],
    summary: 'What becomes of the guest when its pod is ended; suspend needs a persistent disk',
  },
  'ssh-key': {
    kind: 'list',
    placeholder: 'FILE,...',
    summary: "Files of public SSH keys for the guest's default user",
  },
  'user-data-secret': {
    kind: 'text',
    placeholder: 'NAME',
    summary: 'Secret whose key userData is the user data of cloud-init',
  },
  toleration: {
    kind: 'list',
    placeholder: 'TAINT,...',
    summary: 'Taints of nodes that the VM tolerates: KEY, KEY:EFFECT, KEY=VALUE or KEY=VALUE:EFFECT',
  },
  affinity: {
    kind: 'text',
    placeholder: 'FILE',
    summary: 'YAML or JSON file with affinity, topologySpreadConstraints or both, as in the spec of a pod',
  },
  readiness: {
    kind: 'text',
    placeholder: 'CHECK',
    summary: 'When the guest is ready: tcp:PORT, http:PORT[/PATH], guest-agent or none',
  },
} as const satisfies OptionSpecs;

/** Not every command has all of them. */
type Kinds = Input<ArgumentSpecs, typeof kindOptions>['options'];
type KindInput = { readonly [K in keyof Kinds]?: Kinds[K] | undefined };

/** The options in the words of `/api/v1`; reads the files of SSH keys. What nobody said is absent, which means: inherited. */
export async function kindSettingsOf(options: KindInput): Promise<SettingsRequest> {
  const { toleration: taints = [], readiness } = options;
  return withoutUndefined({
    architecture: options.arch,
    disk: diskOf(options),
    suspendTo: suspensions[options['suspend-to'] ?? ''],
    onEviction: evictions[options['on-eviction'] ?? ''],
    tolerations: taints.length === 0 ? undefined : taints.map(tolerationOf),
    ...(options.affinity === undefined ? {} : await affinityIn(options.affinity)),
    sshAuthorizedKeys: await keysIn(options['ssh-key'] ?? []),
    userData: userDataOf(options['user-data-secret']),
    readiness: readiness === undefined ? undefined : readinessOf(readiness),
  });
}

const outcomes = { retain: 'Retain', delete: 'Delete' } as const;
const suspensions: Readonly<Record<string, SettingsRequest['suspendTo']>> = {
  memory: 'Memory',
  disk: 'Disk',
};
const evictions: Readonly<Record<string, SettingsRequest['onEviction']>> = {
  shutdown: 'Shutdown',
  suspend: 'Suspend',
};
const storages = { ephemeral: 'Ephemeral', persistent: 'Persistent' } as const;

function diskOf(options: KindInput): SettingsRequest['disk'] {
  const disk = withoutUndefined({
    storage: options.storage === undefined ? undefined : storages[options.storage],
    storageClassName: options['storage-class'],
    whenDeleted: options['when-deleted'] === undefined ? undefined : outcomes[options['when-deleted']],
    size: options['disk-size'],
  });
  return Object.keys(disk).length === 0 ? undefined : disk;
}

function userDataOf(secretName: string | undefined): SettingsRequest['userData'] {
  return secretName === undefined ? undefined : { secretName };
}

const effects = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;

/** As `kubectl taint` writes taints. */
function tolerationOf(text: string): NonNullable<SettingsRequest['tolerations']>[number] {
  const [taint = '', effectText, ...afterEffect] = text.split(':');
  const [key = '', value, ...afterValue] = taint.split('=');
  const isWhole = afterEffect.length === 0 && afterValue.length === 0;
  const effect = effects.find((one) => one === effectText);
  if (key === '' || !isWhole || (effectText !== undefined && effect === undefined))
    throw usageError(
      `--toleration: "${text}" is not KEY[=VALUE][:EFFECT] with an effect of ${effects.join(', ')}`,
    );
  return {
    key,
    ...(value === undefined ? { operator: 'Exists' as const } : { operator: 'Equal' as const, value }),
    ...(effect === undefined ? {} : { effect }),
  };
}

/** Both members have to be as `/api/v1` takes them, which checks them. */
async function affinityIn(
  file: string,
): Promise<Pick<SettingsRequest, 'affinity' | 'topologySpreadConstraints'>> {
  const { parse } = await import('yaml');
  let content: unknown;
  try {
    content = parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw usageError(`--affinity: ${messageOf(error)}`);
  }
  const members = Object.keys(typeof content === 'object' && content !== null ? content : {});
  const isKnown = (name: string) => name === 'affinity' || name === 'topologySpreadConstraints';
  if (Array.isArray(content) || members.length === 0 || !members.every(isKnown))
    throw usageError(
      `--affinity: ${file} has to be an object with affinity, topologySpreadConstraints or both, and nothing else`,
    );
  return content as Pick<SettingsRequest, 'affinity' | 'topologySpreadConstraints'>;
}

async function keysIn(files: readonly string[]): Promise<string[] | undefined> {
  if (files.length === 0) return undefined;
  const texts = await Promise.all(
    files.map((file) =>
      readFile(file, 'utf8').catch((error: unknown) => {
        throw usageError(`--ssh-key: ${messageOf(error)}`);
      }),
    ),
  );
  if (texts.some((text) => text.includes('PRIVATE KEY')))
    throw usageError('--ssh-key: that is a private key; name the file of the public one (.pub)');
  const keys = texts.flatMap((text) => text.split(/\r?\n/)).map((line) => line.trim());
  return keys.filter((line) => line !== '' && !line.startsWith('#'));
}

function readinessOf(text: string): NonNullable<SettingsRequest['readiness']> {
  if (text === 'none') return { none: {} };
  if (text === 'guest-agent') return { guestAgent: {} };
  const [, kind, port = '', path = '/'] = /^(tcp|http):(\d{1,5})(\/\S*)?$/.exec(text) ?? [];
  if (kind === 'http') return { http: { port: Number(port), path } };
  if (kind === 'tcp' && path === '/') return { tcp: { port: Number(port) } };
  throw usageError(`--readiness: "${text}" is not tcp:PORT, http:PORT[/PATH], guest-agent or none`);
}
