import type { ArgumentSpecs, Input, OptionSpecs } from './command.ts';
import { Svc3Error } from '../errors.ts';
import type { DeployRequest, SettingsRequest } from '../wire/deploy.ts';
import { usageError } from './usage.ts';

/** Options that `vm deploy`, `vm set` and `vmc create` share. */
export const settingsOptions = {
  image: {
    kind: 'text',
    short: 'i',
    placeholder: 'IMAGE',
    summary: 'Image of the store, or an OCI reference',
    complete: 'images',
  },
  cpu: { kind: 'integer', unit: 'CPUs', short: 'c', placeholder: 'CPU', summary: 'Number of virtual CPUs' },
  memory: {
    kind: 'gib',
    short: 'm',
    placeholder: 'SIZE',
    summary:
      'Memory: a number of GiB, or a size such as 4Gi or 512Mi; 2.5Gi for each cpu where nothing is said',
  },
  gpu: { kind: 'toggle', short: 'g', summary: "GPU passthrough: the VM gets the node's GPU" },
  'disable-vnc': { kind: 'toggle', summary: 'Turn the VNC console off' },
  node: { kind: 'text', placeholder: 'NODE', summary: 'Run on this node only', complete: 'nodes' },
  tag: { kind: 'text', placeholder: 'TAG', summary: 'Prefer nodes with this tag' },
  'tag-required': { kind: 'toggle', summary: 'Take only nodes with the tag' },
  scheduler: {
    kind: 'choice',
    choices: ['default', 'most-allocated'],
    summary: 'Spread over the nodes, or fill one after the other',
  },
  'priority-class-name': {
    kind: 'text',
    placeholder: 'NAME',
    summary: "PriorityClass of the VM's pod",
  },
  iso: { kind: 'text', placeholder: 'ISO', summary: 'Install medium in the CD drive', complete: 'isos' },
  serial: {
    kind: 'text',
    alias: 'system-serial',
    placeholder: 'SERIAL',
    summary: 'Serial number of the machine; also --system-serial',
  },
  subdomain: {
    kind: 'text',
    placeholder: 'NAME',
    summary: 'Headless Service under which the cluster DNS has the VM',
  },
  'ssh-node-port': {
    kind: 'toggle',
    summary: 'Port of the node for SSH; svc3 vm ssh needs none',
  },
  'screenshare-node-port': { kind: 'toggle', summary: 'Port of the node for screen sharing' },
  'disable-net-boost': {
    kind: 'toggle',
    summary: 'Emulate an Intel network card instead of virtio',
  },
  'display-width': { kind: 'integer', unit: 'pixels', placeholder: 'PIXELS', summary: 'Width of the screen' },
  'display-height': {
    kind: 'integer',
    unit: 'pixels',
    placeholder: 'PIXELS',
    summary: 'Height of the screen',
  },
  'display-dpi': {
    kind: 'integer',
    unit: 'dots per inch',
    placeholder: 'DPI',
    summary: 'Taken and stored without effect: screens of QEMU report no dots per inch',
  },
  'legacy-io': {
    kind: 'toggle',
    summary: 'Emulate SATA disks instead of virtio; for the network card there is --disable-net-boost',
  },
} as const satisfies OptionSpecs;

/** Not every command has all of them. */
type SettingsInput = Partial<Input<ArgumentSpecs, typeof settingsOptions>['options']>;

/** The options in the words of `/api/v1`; what nobody said is absent, which means: inherited. */
export function settingsOf(options: SettingsInput): SettingsRequest {
  return withoutUndefined({
    image: options.image,
    cpu: options.cpu,
    memory: options.memory,
    gpuPassthrough: options.gpu,
    vncConsole: not(options['disable-vnc']),
    tag: options.tag,
    tagRequired: options['tag-required'],
    scheduler: options.scheduler,
    priorityClassName: options['priority-class-name'],
    iso: options.iso,
    systemSerial: options.serial,
    subdomain: options.subdomain,
    sshNodePort: options['ssh-node-port'],
    screenshareNodePort: options['screenshare-node-port'],
    netBoost: not(options['disable-net-boost']),
    displayWidth: options['display-width'],
    displayHeight: options['display-height'],
    displayDPI: options['display-dpi'],
    legacyIO: options['legacy-io'],
  });
}

function not(value: boolean | undefined): boolean | undefined {
  return value === undefined ? undefined : !value;
}

/** Options of `vm deploy` and `vm set` for what configurations have not. */
export const ownOptions = {
  ports: {
    kind: 'text',
    short: 'p',
    placeholder: '[N:]V,...',
    summary:
      'Ports of the VM to open on the IP of its pod, and with N: on the node as well, e.g. 80,20053:53/udp',
  },
  metadata: { kind: 'list', placeholder: 'K=V,...', summary: 'Values the guest reads through cloud-init' },
} as const satisfies OptionSpecs;

type Own = Input<ArgumentSpecs, typeof ownOptions>['options'];
type OwnInput = { readonly [K in keyof Own]: Own[K] | undefined } & Pick<SettingsInput, 'node'>;

/** They and the node, in the words of `/api/v1`. */
export function ownSettingsOf({ node, ports, metadata = [] }: OwnInput): Partial<DeployRequest> {
  return withoutUndefined({
    node,
    reservedPorts: ports,
    customVMMetadata: metadata.length === 0 ? undefined : metadataOf(metadata),
  });
}

function metadataOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const equals = pair.indexOf('=');
      if (equals < 1) throw usageError(`--metadata: "${pair}" is not NAME=VALUE`);
      return [pair.slice(0, equals), pair.slice(equals + 1)] as const;
    }),
  );
}

/** Options by the fields of requests that refusals name. */
const flags: Readonly<Record<string, string>> = {
  image: '--image',
  cpu: '--cpu',
  memory: '--memory',
  gpuPassthrough: '--gpu',
  node: '--node',
  nodeName: '--node',
  vncConsole: '--disable-vnc',
  tag: '--tag',
  tagRequired: '--tag-required',
  scheduler: '--scheduler',
  priorityClassName: '--priority-class-name',
  iso: '--iso',
  systemSerial: '--serial',
  netBoost: '--disable-net-boost',
  legacyIO: '--legacy-io',
  displayWidth: '--display-width',
  displayHeight: '--display-height',
  displayDPI: '--display-dpi',
  vmConfig: '--config',
  pool: '--pool',
  minIdle: '--min-idle',
  maxSize: '--max-size',
  serveConfig: '--serve-config',
  reservedPorts: '--ports',
  customVMMetadata: '--metadata',
  timeout: '--timeout',
  disk: '--storage',
  'disk.size': '--disk-size',
  'disk.storageClassName': '--storage-class',
  'disk.whenDeleted': '--when-deleted',
  'disk.claimName': '--claim',
  disks: '--data-disk',
  suspendTo: '--suspend-to',
  onEviction: '--on-eviction',
  readiness: '--readiness',
  tolerations: '--toleration',
  affinity: '--affinity',
  topologySpreadConstraints: '--affinity',
  sshAuthorizedKeys: '--ssh-key',
  userData: '--user-data-secret',
};

/** Runs a call, and begins its refusal of one field with the option that said it. */
export async function namingOptions<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof Svc3Error)) throw error;
    const field = /^[A-Za-z]+(\.[A-Za-z]+)*/.exec(error.message)?.[0] ?? '';
    const flag = flags[field];
    if (flag === undefined || !/^[.:[]/.test(error.message.slice(field.length))) throw error;
    const message = `${flag}${error.message.slice(field.length)}`;
    throw new Svc3Error(error.reason, message, { details: error.details, cause: error });
  }
}

/** The same object without the members that are `undefined`. */
export function withoutUndefined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
