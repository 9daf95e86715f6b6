import type { Created } from '../api/object.ts';
import { annotations, finalizer, forbiddenHostPorts, group, type PortRange } from '../api/meta.ts';
import type { Vm, VmSpecInput } from '../api/vm.ts';
import type { PortMapping } from '../api/ports.ts';
import { parseQuantity } from '../api/quantity.ts';
import { dpiHasNoEffect, type Switch } from '../api/vmconfig.ts';
import { invalidField, Svc3Error } from '../errors.ts';
import { vmReason } from './vm.ts';
import type { DeployRequest, SettingsRequest } from './vmschemas.ts';

export type { DeployRequest, SettingsRequest };

function toSwitch(value: boolean | undefined): Switch | undefined {
  if (value === undefined) return undefined;
  return value ? 'Enabled' : 'Disabled';
}

/** GiB as a quantity in Mi; nothing for 0. */
export function memoryQuantity(gib: number | undefined): string | undefined {
  if (gib === undefined || gib === 0) return undefined;
  const mebibytes = Math.round(gib * 1024);
  if (mebibytes < 64 || mebibytes > 16 * 1024 * 1024)
    throw invalidField('memory', 'must be between 0.0625 and 16384 GiB');
  return `${mebibytes}Mi`;
}

const metadataName = /^[A-Za-z0-9_.-]{1,128}$/;

/** `k=v,k=v`, or an object of texts. */
export function guestMetadata(
  given: SettingsRequest['customVMMetadata'],
): { name: string; value: string }[] | undefined {
  if (given === undefined || given === '') return undefined;
  const pairs =
    typeof given === 'string'
      ? given.split(',').map((pair): [string, string] => {
          const at = pair.indexOf('=');
          if (at < 1) throw invalidField('customVMMetadata', `"${pair.slice(0, 64)}" is not name=value`);
          return [pair.slice(0, at).trim(), pair.slice(at + 1)];
        })
      : Object.entries(given);
  const names = new Set<string>();
  return pairs.map(([name, value]) => {
    if (!metadataName.test(name))
      throw invalidField(
        'customVMMetadata',
        `"${name.slice(0, 64)}" is not a name of letters, digits, "_", "." and "-"`,
      );
    if (names.has(name))
      throw invalidField('customVMMetadata', `"${name}" is given twice`, 'FieldValueDuplicate');
    names.add(name);
    return { name, value };
  });
}

function isUsable(port: number, allowed: PortRange): boolean {
  if (port < allowed.first || port > allowed.last) return false;
  return !forbiddenHostPorts.some(({ first, last }) => port >= first && port <= last);
}

export interface ReservedPorts {
  readonly ports: PortMapping[];
  /** The mappings that cannot be had. */
  readonly unusable: { readonly mapping: string; readonly why: string }[];
}

/** Where nobody tells what the installation allows: the operator says it then. */
export const anyHostPort: PortRange = { first: 1, last: 65_535 };

const mappingPattern = /^(?:(\d{1,5}):)?(\d{1,5})(?:\/(tcp|udp))?$/i;

/**
 * Reads `[NODE:]VM[,[NODE:]VM]`; without a port of the node the VM's is open on the IP of its pod.
 *
 * @throws Svc3Error Invalid where it cannot be read
 */
export function reservedPorts(text: string | undefined, allowed: PortRange): ReservedPorts {
  const ports: PortMapping[] = [];
  const unusable: ReservedPorts['unusable'] = [];
  const taken = new Set<string>();
  const mappings = (text ?? '')
    .split(',')
    .map((mapping) => mapping.trim())
    .filter((mapping) => mapping !== '');
  if (mappings.length > 32) throw invalidField('reservedPorts', 'must not have more than 32 mappings');
  for (const mapping of mappings) {
    const match = mappingPattern.exec(mapping);
    if (match === null)
      throw invalidField('reservedPorts', `"${mapping.slice(0, 64)}" is not [NODE_PORT:]VM_PORT[/tcp|/udp]`);
    const nodePort = match[1] === undefined ? undefined : Number(match[1]);
    const guestPort = Number(match[2]);
    const protocol = match[3]?.toLowerCase() === 'udp' ? 'UDP' : 'TCP';
    if (guestPort < 1 || guestPort > 65_535) unusable.push({ mapping, why: `${guestPort} is not a port` });
    else if (nodePort !== undefined && !isUsable(nodePort, allowed))
      unusable.push({ mapping, why: `usable node ports are ${allowed.first}-${allowed.last}` });
    else if (nodePort !== undefined && taken.has(`node ${nodePort}/${protocol}`))
      unusable.push({ mapping, why: `node port ${nodePort} is given twice` });
    else if (taken.has(`guest ${guestPort}/${protocol}`))
      unusable.push({ mapping, why: `port ${guestPort} of the VM is given twice` });
    else {
      taken.add(`node ${nodePort}/${protocol}`).add(`guest ${guestPort}/${protocol}`);
      ports.push({ ...(nodePort === undefined ? {} : { nodePort }), guestPort, protocol });
    }
  }
  return { ports, unusable };
}

const schedulers = { default: 'Spread', 'most-allocated': 'Pack', '': undefined } as const;

/** Drops members without a value. */
function defined<T extends object>(members: T): T {
  const kept: Partial<T> = {};
  for (const name of Object.keys(members) as (keyof T)[]) {
    const value = members[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept as T;
}

/** The fields of VM.spec and VMConfig.spec that the request sets. */
export function settingsOf(request: SettingsRequest): Partial<VmSpecInput> {
  const display = defined({
    width: request.displayWidth,
    height: request.displayHeight,
    dpi: request.displayDPI,
  });
  const nodePorts = defined({
    ssh: toSwitch(request.sshNodePort),
    screenshare: toSwitch(request.screenshareNodePort),
  });
  return defined({
    image: request.image,
    cpu: request.cpu,
    memory: memoryQuantity(request.memory),
    gpuPassthrough: toSwitch(request.gpuPassthrough),
    vncConsole: toSwitch(request.vncConsole),
    tag: request.tag === '' ? undefined : request.tag,
    tagRequired: request.tagRequired,
    scheduler: request.scheduler === undefined ? undefined : schedulers[request.scheduler],
    priorityClassName: request.priorityClassName,
    // Empty: none, whatever the configuration names.
    iso: request.iso,
    systemSerial: request.systemSerial === '' ? undefined : request.systemSerial,
    metadata: guestMetadata(request.customVMMetadata),
    subdomain: request.subdomain,
    nodePorts: Object.keys(nodePorts).length === 0 ? undefined : nodePorts,
    netBoost: request.netBoost,
    legacyIO: request.legacyIO,
    display: Object.keys(display).length === 0 ? undefined : display,
    architecture: request.architecture,
    disk: request.disk,
    suspendTo: request.suspendTo,
    onEviction: request.onEviction,
    readiness: request.readiness,
    tolerations: request.tolerations,
    affinity: request.affinity,
    topologySpreadConstraints: request.topologySpreadConstraints,
    userData: request.userData,
    sshAuthorizedKeys: request.sshAuthorizedKeys === undefined ? undefined : [...request.sshAuthorizedKeys],
  });
}

/** Warnings of what the request asks for and no VM of this platform has (contract: "VMs"), in the words of `status.warnings`. */
export function withoutEffect({ displayDPI }: Pick<SettingsRequest, 'displayDPI'>): readonly string[] {
  return displayDPI === undefined ? [] : [dpiHasNoEffect];
}

const diskStorages = { ephemeral: 'Ephemeral', persistent: 'Persistent' } as const;

/** `diskStorage` and `diskSize` are other names of members of `disk`. @throws Svc3Error where both are said and differ */
function diskOf({ disk, diskStorage, diskSize }: DeployRequest): VmSpecInput['disk'] {
  const named = defined({
    storage: diskStorage === undefined ? undefined : diskStorages[diskStorage],
    size: typeof diskSize === 'number' ? `${Math.round(diskSize * 1024)}Mi` : diskSize,
  });
  if (Object.keys(named).length === 0) return disk;
  const { storage = disk?.storage, size = disk?.size } = named;
  if (disk?.storage !== undefined && disk.storage !== storage)
    throw invalidField('diskStorage', 'says something else than disk.storage');
  if (disk?.size !== undefined && size !== undefined && !isSameSize(disk.size, size))
    throw invalidField('diskSize', 'says something else than disk.size');
  return { ...disk, ...named };
}

const isSameSize = (size: string, named: string): boolean =>
  parseQuantity(size, 'disk.size') === parseQuantity(named, 'diskSize');

/**
 * The fields of VM.spec that a request says, but for those of which the request is not all: `vmConfigNamespace`, `reservedPorts` and
 * `timeout`.
 */
export function vmSpecOf(request: DeployRequest): Partial<VmSpecInput> {
  return defined({
    ...settingsOf(request),
    disk: diskOf(request),
    config: request.vmConfig,
    pool: request.pool,
    nodeName: request.node === '' ? undefined : request.node,
    hostname: request.hostname,
    disks: request.disks,
  });
}

export interface DeployOptions {
  readonly namespace: string;
  /** Where the VMConfig was found. */
  readonly configNamespace?: string | undefined;
  readonly owner?: string;
  readonly hostPortsAllowed: PortRange;
  /** Leaves the start deadline unset unless the request names a timeout. */
  readonly withoutDeadline?: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The VM that a deploy creates; no name: `vm-` + 5 characters, `shouldGenerateName`: the name is a prefix. */
export function vmOf(
  request: DeployRequest,
  options: DeployOptions,
): {
  vm: Created<Vm>;
  portWarnings: string[];
} {
  const { ports, unusable } = reservedPorts(request.reservedPorts, options.hostPortsAllowed);
  // No error (contract: `reservedPorts`).
  const portWarnings = unusable.map(({ mapping, why }) => `Port mapping ${mapping} was left out: ${why}.`);
  const generates = request.name === undefined || request.name === '' || request.shouldGenerateName === true;
  const prefix = request.name === undefined || request.name === '' ? 'vm' : request.name;
  const minutes = request.timeout ?? (options.withoutDeadline === true ? undefined : 10);
  const notes = {
    ...options.annotations,
    ...(options.owner === undefined ? {} : { [annotations.owner]: options.owner }),
  };
  const { configNamespace = request.vmConfigNamespace } = options;
  const spec: VmSpecInput = {
    ...vmSpecOf(request),
    ...(configNamespace === undefined || configNamespace === options.namespace ? {} : { configNamespace }),
    ...(ports.length === 0 ? {} : { ports }),
    ...(minutes === undefined ? {} : { startDeadlineSeconds: minutes * 60 }),
  };
  const vm = {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: {
      ...(generates ? { generateName: `${prefix}-` } : { name: prefix }),
      namespace: options.namespace,
      // The operator puts it on VMs that come without: one write less.
      finalizers: [finalizer],
      ...(Object.keys(notes).length === 0 ? {} : { annotations: notes }),
    },
    spec: spec as Vm['spec'],
  };
  return { vm, portWarnings };
}

const atTimeout = {
  removed: 'and was removed',
  left: 'and is removed by the operator unless it has started meanwhile',
} as const;

/** The answer to who waited for a VM until its start deadline. */
export function didNotRun(vm: Vm, outcome: keyof typeof atTimeout): Svc3Error {
  const why = vmReason(vm);
  const { name } = vm.metadata;
  return new Svc3Error(
    'Timeout',
    `VM ${name} did not run within its timeout ${atTimeout[outcome]}${why === undefined ? '' : `: ${why}`}`,
    {
      details: { group, kind: 'vms', name },
    },
  );
}
