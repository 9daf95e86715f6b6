import { forbiddenHostPorts, tagLabelPrefix, type PortRange } from '../api/meta.ts';
import { formatQuantity } from '../api/quantity.ts';
import type { VmSpecInput } from '../api/vm.ts';
import type { PortMapping, VmConfigSpec } from '../api/vmconfig.ts';
import { invalidField } from '../errors.ts';

/** What VM configurations and deploys have in common, in the words of `/api/v1` (contract: "VMs"). */
export interface SettingsRequest {
  readonly image?: string;
  readonly cpu?: number;
  /** GiB; 0 means: from cpu. */
  readonly memory?: number;
  readonly gpuPassthrough?: boolean;
  readonly vncConsole?: boolean;
  readonly tag?: string;
  readonly tagRequired?: boolean;
  readonly scheduler?: string;
  readonly iso?: string;
  readonly systemSerial?: string;
  readonly netBoost?: boolean;
  readonly legacyIO?: boolean;
  readonly displayWidth?: number;
  readonly displayHeight?: number;
  readonly displayDPI?: number;
  readonly customVMMetadata?: Readonly<Record<string, string>>;
}

export interface DeployRequest extends SettingsRequest {
  readonly name?: string;
  readonly shouldGenerateName?: boolean;
  readonly vmConfig?: string;
  readonly node?: string;
  readonly reservedPorts?: string;
  /** Minutes. */
  readonly timeout?: number;
}

export interface VmConfigRequest extends SettingsRequest {
  readonly name: string;
  readonly nodeName?: string;
}

/** Prefix of names that nobody chose; kube-apiserver adds five characters. */
const namelessPrefix = 'vm-';

/** Name or generateName of the VM that a deploy makes. */
export function namingOf(request: DeployRequest): { name: string } | { generateName: string } {
  if (request.name === undefined || request.name === '') return { generateName: namelessPrefix };
  if (request.shouldGenerateName !== true) return { name: request.name };
  return { generateName: request.name.endsWith('-') ? request.name : `${request.name}-` };
}

function settingsSpec(request: SettingsRequest): VmConfigSpec {
  const display = defined({
    width: request.displayWidth,
    height: request.displayHeight,
    dpi: request.displayDPI,
  });
  return defined({
    image: request.image,
    cpu: request.cpu,
    memory:
      request.memory === undefined || request.memory === 0
        ? undefined
        : gibQuantity('memory', request.memory),
    gpuPassthrough: switchOf(request.gpuPassthrough),
    vncConsole: switchOf(request.vncConsole),
    tag: request.tag === '' ? undefined : request.tag,
    tagRequired: request.tagRequired,
    scheduler: schedulerOf(request.scheduler),
    iso: request.iso === '' ? undefined : request.iso,
    systemSerial: request.systemSerial === '' ? undefined : request.systemSerial,
    netBoost: request.netBoost,
    legacyIO: request.legacyIO,
    display: Object.keys(display).length === 0 ? undefined : display,
    metadata:
      request.customVMMetadata === undefined
        ? undefined
        : Object.entries(request.customVMMetadata).map(([name, value]) => ({ name, value })),
  });
}

/** The spec of a deployed VM, and what of its port mappings cannot be used (contract: `portWarnings`). */
export function vmSpecOf(
  request: DeployRequest,
  allowed: PortRange | undefined,
): { spec: VmSpecInput; portWarnings: string[] } {
  const { ports, warnings } = portsOf(request.reservedPorts ?? '', allowed);
  const spec: VmSpecInput = defined({
    ...settingsSpec(request),
    config: request.vmConfig,
    nodeName: request.node === '' ? undefined : request.node,
    ports: ports.length === 0 ? undefined : ports,
    startDeadlineSeconds: request.timeout === undefined ? undefined : Math.round(request.timeout * 60),
  });
  return { spec, portWarnings: warnings };
}

export function vmConfigSpecOf(request: VmConfigRequest): VmConfigSpec {
  return defined({
    ...settingsSpec(request),
    nodeName: request.nodeName === '' ? undefined : request.nodeName,
  });
}

function switchOf(value: boolean | undefined): 'Enabled' | 'Disabled' | undefined {
  if (value === undefined) return undefined;
  return value ? 'Enabled' : 'Disabled';
}

function schedulerOf(word: string | undefined): 'Spread' | 'Pack' | undefined {
  if (word === undefined || word === '') return undefined;
  if (word === 'default') return 'Spread';
  if (word === 'most-allocated') return 'Pack';
  throw invalidField(
    'scheduler',
    `"${word.slice(0, 64)}" is neither default nor most-allocated`,
    'FieldValueNotSupported',
  );
}

/** GiB with a fraction as a whole number of bytes, rounded to MiB. */
export function gibQuantity(field: string, gib: number): string {
  const mebibytes = Math.round(gib * 1024);
  if (!Number.isSafeInteger(mebibytes) || mebibytes <= 0)
    throw invalidField(field, `${gib} is not a size in GiB`);
  return formatQuantity(mebibytes * 1024 ** 2);
}

/** `NODE:VM[/tcp|/udp]`, separated by commas. Without `allowed` only the ports that nobody may use are refused. */
export function portsOf(
  text: string,
  allowed: PortRange | undefined,
): { ports: PortMapping[]; warnings: string[] } {
  const ports: PortMapping[] = [];
  const warnings: string[] = [];
  for (const part of text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')) {
    const mapping = mappingOf(part);
    const problem = typeof mapping === 'string' ? mapping : unusable(mapping, ports, allowed);
    if (problem !== undefined) warnings.push(`Port mapping "${part.slice(0, 64)}" is not used: ${problem}.`);
    else if (typeof mapping !== 'string') ports.push(mapping);
  }
  return { ports, warnings };
}

function mappingOf(text: string): PortMapping | string {
  const match = /^(\d{1,5}):(\d{1,5})(?:\/(tcp|udp))?$/i.exec(text);
  const [nodePort, guestPort] = [Number(match?.[1]), Number(match?.[2])];
  const valid = [nodePort, guestPort].every((port) => port >= 1 && port <= 65535);
  if (match === null || !valid) return 'it is not NODE:VM with ports from 1 to 65535';
  return { nodePort, guestPort, protocol: match[3]?.toLowerCase() === 'udp' ? 'UDP' : 'TCP' };
}

function unusable(
  mapping: PortMapping,
  before: readonly PortMapping[],
  allowed: PortRange | undefined,
): string | undefined {
  const { nodePort, protocol } = mapping;
  if (forbiddenHostPorts.some(({ first, last }) => nodePort >= first && nodePort <= last))
    return `port ${nodePort} is reserved`;
  if (allowed !== undefined && (nodePort < allowed.first || nodePort > allowed.last)) {
    return `port ${nodePort} is not between ${allowed.first} and ${allowed.last}`;
  }
  if (before.some((each) => each.nodePort === nodePort && each.protocol === protocol))
    return `port ${nodePort} is given twice`;
  return undefined;
}

/** The tag as a node label can carry it (contract: "1–63 of alnum `-_.`"). */
export function checkedTag(tag: string): string {
  if (/^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/.test(tag)) return tag;
  throw invalidField(
    'tag',
    'must be 1 to 63 letters, digits, "-", "_" or ".", and start and end with a letter or digit',
  );
}

/** Merge patch of a node's labels that sets or removes a tag. */
export function tagPatch(tag: string, set: boolean): { metadata: { labels: Record<string, string | null> } } {
  return { metadata: { labels: { [`${tagLabelPrefix}${checkedTag(tag)}`]: set ? 'true' : null } } };
}

function defined<T extends object>(members: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
