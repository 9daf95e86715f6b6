import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { PlacementRequest } from '../../../placement/place.ts';
import type { MemoryRequest } from '../../../placement/warmstart.ts';
import type { PortService } from '../../../placement/ports.ts';
import { emulationBytes, ephemeralStorageBytes, podCpuMilli, podMemoryBytes } from './overhead.ts';
import { hasBundle } from '../facts/bundle.ts';
import { labelMetadata } from './podlabels.ts';
import { reservedPortsOf } from './podports.ts';
import type { VmSettings } from '../settings.ts';

/**
 * What a VM with these settings asks of a node: the numbers its pod will request.
 *
 * @param memory - that the guest may go on from
 */
export function placementRequest(
  vm: Vm,
  effective: EffectiveSettings,
  settings: Pick<VmSettings, 'cpuOvercommit' | 'accelerator'>,
  memory?: MemoryRequest,
): PlacementRequest {
  return {
    namespace: vm.metadata.namespace,
    labels: labelMetadata(vm).labels,
    affinity: effective.affinity,
    topologySpreadConstraints: effective.topologySpreadConstraints ?? [],
    architecture: effective.architecture,
    cpuMilli: podCpuMilli(effective.cpu, settings.cpuOvercommit),
    memoryBytes: podMemoryBytes(effective),
    emulationBytes,
    ephemeralStorageBytes,
    gpu: hasBundle(effective),
    accelerator: settings.accelerator,
    nodeName: effective.nodeName,
    tag: effective.tag,
    tagRequired: effective.tagRequired ?? false,
    packed: effective.scheduler === 'Pack',
    tolerations: effective.tolerations ?? [],
    services: servicesOf(effective),
    reservedPorts: reservedPortsOf(effective),
    ...(memory === undefined ? {} : { memory }),
  };
}

/** Those that get a port of the node, where the installation has a range for them. */
function servicesOf({ nodePorts, vncConsole }: EffectiveSettings): PortService[] {
  const named = (['ssh', 'screenshare'] as const).filter((service) => nodePorts?.[service] !== 'Disabled');
  return [...named, ...(vncConsole === 'Enabled' ? (['vnc'] as const) : [])];
}
