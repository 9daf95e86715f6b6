import { defaults, forbiddenHostPorts, type PortRange } from '../../../api/meta.ts';
import { portWarning } from '../../../api/portwarning.ts';
import { onPodsIp, type PortMapping } from '../../../api/ports.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import type { EffectiveSettings, VmSpec } from '../../../api/vm.ts';
import { memoryOnDiskRefusal } from '../facts/claim.ts';
import {
  dpiHasNoEffect,
  type Architecture,
  type Disk,
  type Display,
  type NodePorts,
  type Switch,
  type VmConfigSpec,
} from '../../../api/vmconfig.ts';
import { liveWarnings } from './livewarnings.ts';
import type { SavedGuest } from './savedguest.ts';

/** What the settings of a VM follow from. */
export interface EffectiveInput {
  readonly spec: VmSpec;
  readonly config: VmConfigSpec | undefined;
  /** The image with its digest, as resolved; its architecture where it is known, its name where it is an Image. */
  readonly image: {
    readonly reference: string;
    readonly name?: string | undefined;
    /** Of that Image, where it is another than the VM's. */
    readonly namespace?: string | undefined;
    readonly architecture: Architecture | undefined;
    /** Virtual size of its disk where it is known. */
    readonly bytes?: number | undefined;
    /** The guest whose memory it holds. */
    readonly guest?: SavedGuest | undefined;
  };
  readonly iso: string | undefined;
  /** Chart value `gpuPassthrough.enabled`. */
  readonly gpuPassthroughEnabled: boolean;
  readonly hostPortsAllowed: readonly PortRange[];
  /** Of a VM that has been placed: it keeps the ports of the node that it has, whatever is allowed by now. */
  readonly portsInForce?: EffectiveSettings['ports'];
  /** Of a pod that was made: what was not allowed then, whatever is by now. */
  readonly portsLeftOut?: EffectiveSettings['ports'];
  /** Services that get a port of the node in this installation where neither VM nor VMConfig says so. */
  readonly services: { readonly ssh: boolean; readonly screenshare: boolean };
}

export type Effective =
  | { readonly kind: 'effective'; readonly settings: EffectiveSettings; readonly warnings: readonly string[] }
  | {
      readonly kind: 'refused';
      readonly reason: 'GPUPassthroughDisabled' | 'ArchitectureMismatch' | 'InvalidSpec';
      readonly message: string;
    };

/**
 * The settings a VM really has: deploy overrides config, config overrides the default. Source of each rule: the
 * specification's "GPU passthrough rules".
 */
export function effectiveSettings(input: EffectiveInput): Effective {
  const { spec, config, image } = input;
  const requested = merge(spec, config);
  const architecture = requested.architecture ?? image.architecture ?? 'amd64';
  if (image.architecture !== undefined && image.architecture !== architecture)
    return {
      kind: 'refused',
      reason: 'ArchitectureMismatch',
      message: `image ${image.reference} is for ${image.architecture}, the VM is for ${architecture}`,
    };
  const warnings: string[] = [];
  const gpuPassthrough = effectiveGpu(architecture, requested.gpuPassthrough, warnings);
  if (architecture === 'amd64' && gpuPassthrough === 'Enabled' && !input.gpuPassthroughEnabled)
    return { kind: 'refused', reason: 'GPUPassthroughDisabled', message: gpuDisabledMessage };
  const vncConsole = effectiveConsole(architecture, gpuPassthrough, requested.vncConsole, warnings);
  const nodePorts = effectiveNodePorts(requested.nodePorts, input.services);
  if (architecture === 'amd64' && gpuPassthrough === 'Enabled' && !isReachable(nodePorts))
    warnings.push(
      'gpuPassthrough turns the VNC console off and the VM has no host port for SSH or screen sharing',
    );
  const tooSmall = sizeRefusal(requested.disk, image.bytes);
  if (tooSmall !== undefined) return { kind: 'refused', reason: 'InvalidSpec', message: tooSmall };
  const disk = sizedDisk(requested.disk, image.bytes);
  const { ports, nodePorts: _nodePorts, iso: isoName, ...rest } = requested;
  const { mapped, portsNotAllowed } = usablePorts(ports ?? [], input, warnings);
  const settings: EffectiveSettings = {
    ...rest,
    ...(disk === undefined ? {} : { disk }),
    ...(mapped.length === 0 ? {} : { ports: mapped }),
    ...(portsNotAllowed.length === 0 ? {} : { portsNotAllowed }),
    ...(nodePorts === undefined ? {} : { nodePorts }),
    ...(input.iso === undefined ? {} : { iso: input.iso, ...(isoName === undefined ? {} : { isoName }) }),
    image: image.reference,
    ...(image.name === undefined ? {} : { imageName: image.name }),
    ...(image.namespace === undefined ? {} : { imageNamespace: image.namespace }),
    architecture,
    ...sizeOf(requested, image.guest),
    gpuPassthrough,
    vncConsole,
  };
  if (requested.display?.dpi !== undefined) warnings.push(dpiHasNoEffect);
  const refusal = memoryOnDiskRefusal(settings);
  if (settings.onEviction === 'Suspend' && refusal !== undefined)
    warnings.push(`onEviction: Suspend has no effect: ${refusal}`);
  warnings.push(...liveWarnings(settings));
  return { kind: 'effective', warnings, settings };
}

/** What nobody says is as in the memory that the image holds, else the installation's default. */
function sizeOf({ cpu, memory }: Settings, guest: SavedGuest | undefined): SavedGuest {
  const actual = cpu ?? guest?.cpu ?? defaults.cpu;
  const inferred = actual === guest?.cpu ? guest.memory : formatQuantity(actual * defaults.memoryBytesPerCpu);
  return { cpu: actual, memory: memory ?? inferred };
}

/** Rule 7 of the architecture's table; the same words in the API's error and in the condition. */
export const gpuDisabledMessage =
  'gpuPassthrough: GPU passthrough is not enabled in this cluster (chart value gpuPassthrough.enabled)';

/** Rules 1 and 2: always on for ARM; off for x86 unless config or deploy turn it on. */
function effectiveGpu(architecture: Architecture, requested: Switch | undefined, warnings: string[]): Switch {
  if (architecture === 'amd64') return requested ?? 'Disabled';
  if (requested === 'Disabled')
    warnings.push('gpuPassthrough: Disabled has no effect; on arm64 GPU passthrough is always enabled');
  return 'Enabled';
}

/** Rule 4: on x86 the GPU turns the VNC console off. On ARM the console stays possible. */
function effectiveConsole(
  architecture: Architecture,
  gpuPassthrough: Switch,
  requested: Switch | undefined,
  warnings: string[],
): Switch {
  if (architecture !== 'amd64' || gpuPassthrough === 'Disabled') return requested ?? 'Enabled';
  if (requested === 'Enabled')
    warnings.push('vncConsole: Enabled has no effect; on amd64 gpuPassthrough turns the VNC console off');
  return 'Disabled';
}

/** Undefined where both services get their port, as in the settings of VMs from before there was a choice. */
function effectiveNodePorts(
  requested: NodePorts = {},
  services: EffectiveInput['services'],
): Required<NodePorts> | undefined {
  const ssh = requested.ssh ?? (services.ssh ? 'Enabled' : 'Disabled');
  const screenshare = requested.screenshare ?? (services.screenshare ? 'Enabled' : 'Disabled');
  return ssh === 'Enabled' && screenshare === 'Enabled' ? undefined : { ssh, screenshare };
}

function isReachable(nodePorts: Required<NodePorts> | undefined): boolean {
  return nodePorts?.ssh !== 'Disabled' || nodePorts.screenshare !== 'Disabled';
}

/** Why a disk cannot be as small as requested: the image's file system would be cut off. */
function sizeRefusal(disk: Disk | undefined, imageBytes: number | undefined): string | undefined {
  if (disk?.size === undefined || imageBytes === undefined) return undefined;
  if (parseQuantity(disk.size, 'disk.size') >= imageBytes) return undefined;
  return `disk.size: ${disk.size} is less than the disk of the image has (${formatQuantity(imageBytes)})`;
}

/** A Persistent disk needs a claim of some size: the image's where nobody asks for more. */
function sizedDisk(disk: Disk | undefined, imageBytes: number | undefined): Disk | undefined {
  if (disk?.storage !== 'Persistent' || disk.size !== undefined || imageBytes === undefined) return disk;
  return { ...disk, size: formatQuantity(imageBytes) };
}

type Settings = Omit<VmConfigSpec, 'image'>;

/** Field by field, the VM's own wins; of `disk`, `display` and `nodePorts` member by member. */
function merge(spec: VmSpec, config: VmConfigSpec | undefined): Settings {
  const {
    config: _config,
    configNamespace: _configNamespace,
    pool: _pool,
    powerState: _powerState,
    revertRequest: _revertRequest,
    startRequest: _startRequest,
    restartRequest: _restartRequest,
    hostname: _hostname,
    image: _image,
    disk,
    display,
    nodePorts,
    ...own
  } = spec;
  const {
    image: _configImage,
    disk: configDisk,
    display: configDisplay,
    nodePorts: configNodePorts,
    ...inherited
  } = config ?? {};
  const mergedDisk: Disk = { ...configDisk, ...disk };
  const mergedNodePorts: NodePorts = { ...configNodePorts, ...nodePorts };
  const mergedDisplay: Display = { ...configDisplay, ...display };
  return {
    ...inherited,
    ...own,
    ...(Object.keys(mergedNodePorts).length === 0 ? {} : { nodePorts: mergedNodePorts }),
    ...(disk === undefined && configDisk === undefined ? {} : { disk: mergedDisk }),
    ...(display === undefined && configDisplay === undefined ? {} : { display: mergedDisplay }),
  };
}

/**
 * A mapping that cannot be is left out with a warning and stops nothing (contract: `reservedPorts`). Only its port of the node is: the guest's is
 * open on the pod's IP.
 */
function usablePorts(
  ports: readonly PortMapping[],
  { hostPortsAllowed: allowed, portsInForce = [], portsLeftOut = [] }: EffectiveInput,
  warnings: string[],
): { readonly mapped: PortMapping[]; readonly portsNotAllowed: PortMapping[] } {
  const mapped: PortMapping[] = [];
  const portsNotAllowed: PortMapping[] = [];
  const isLeftOut = (nodePort: number) => portsLeftOut.some((left) => left.nodePort === nodePort);
  const isAllowedNow = (nodePort: number) =>
    !forbiddenHostPorts.some((range) => isIn(nodePort, range)) &&
    allowed.some((range) => isIn(nodePort, range));
  const isAllowed = (nodePort: number) =>
    portsInForce.some((has) => has.nodePort === nodePort) || (isAllowedNow(nodePort) && !isLeftOut(nodePort));
  for (const mapping of ports) {
    const { nodePort } = mapping;
    if (nodePort === undefined || isAllowed(nodePort)) {
      mapped.push(mapping);
      continue;
    }
    const ranges = isAllowedNow(nodePort)
      ? 'that its pod was made with'
      : allowed.map(({ first, last }) => `${first}-${last}`).join(', ');
    warnings.push(`${notAllowed(nodePort)} ${ranges}; the mapping is left out`);
    portsNotAllowed.push(mapping);
  }
  return { mapped: [...mapped, ...onPodsIp(portsNotAllowed)], portsNotAllowed };
}

/** How the warning begins that says of a port of the node that it is not allowed. */
export function notAllowed(nodePort: number): string {
  return portWarning(`nodePort ${nodePort} is not in the allowed range`);
}

function isIn(port: number, range: PortRange): boolean {
  return port >= range.first && port <= range.last;
}
