import type { ArgumentSpecs, Input, OptionSpecs } from './command.ts';
import { Svc3Error } from '../errors.ts';
import type { SettingsRequest } from '../wire/deploy.ts';

/** Options that `vm deploy` and `vmc create` share. */
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
  'disable-vnc': { kind: 'flag', summary: 'Turn the VNC console off' },
  node: { kind: 'text', placeholder: 'NODE', summary: 'Run on this node only', complete: 'nodes' },
  tag: { kind: 'text', placeholder: 'TAG', summary: 'Prefer nodes with this tag' },
  'tag-required': { kind: 'flag', summary: 'Take only nodes with the tag' },
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
  'disable-net-boost': { kind: 'flag', summary: 'Emulate an Intel network card instead of virtio' },
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
    kind: 'flag',
    summary: 'Emulate SATA disks instead of virtio; for the network card there is --disable-net-boost',
  },
} as const satisfies OptionSpecs;

type SettingsInput = Input<ArgumentSpecs, typeof settingsOptions>['options'];

/** The options in the words of `/api/v1`; what nobody said is absent, which means: inherited. */
export function settingsOf(options: SettingsInput): SettingsRequest {
  return withoutUndefined({
    image: options.image,
    cpu: options.cpu,
    memory: options.memory,
    gpuPassthrough: options.gpu,
    vncConsole: options['disable-vnc'] ? false : undefined,
    tag: options.tag,
    tagRequired: options['tag-required'] ? true : undefined,
    scheduler: options.scheduler,
    priorityClassName: options['priority-class-name'],
    iso: options.iso,
    systemSerial: options.serial,
    subdomain: options.subdomain,
    sshNodePort: options['ssh-node-port'],
    screenshareNodePort: options['screenshare-node-port'],
    netBoost: options['disable-net-boost'] ? false : undefined,
    displayWidth: options['display-width'],
    displayHeight: options['display-height'],
    displayDPI: options['display-dpi'],
    legacyIO: options['legacy-io'] ? true : undefined,
  });
}

/** Options by the fields of requests that refusals name. */
const flags: Readonly<Record<string, string>> = {
  image: '--image',
  cpu: '--cpu',
  memory: '--memory',
  gpuPassthrough: '--gpu',
  node: '--node',
  nodeName: '--node',
  tag: '--tag',
  priorityClassName: '--priority-class-name',
  iso: '--iso',
  systemSerial: '--serial',
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
