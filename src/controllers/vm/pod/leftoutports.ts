import type { Pod } from '../../../api/core.ts';
import { onPodsIp } from '../../../api/ports.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';
import type { HostPort } from '../../../placement/ports.ts';

type Mappings = NonNullable<EffectiveSettings['ports']>;

/** The settings for a pod that is made without these ports of the node; the VM keeps them for its next start. */
export function withoutPorts(
  effective: EffectiveSettings,
  leftOut: readonly HostPort[] = [],
): EffectiveSettings {
  if (leftOut.length === 0) return effective;
  const isLeftOut = ({ nodePort, protocol }: Mappings[number]) =>
    leftOut.some((port) => port.port === nodePort && port.protocol === protocol);
  return withoutNodePorts(effective, isLeftOut);
}

/** A mapping without its port of the node still leads to the guest from the pod's IP. */
function withoutNodePorts(
  effective: EffectiveSettings,
  isLeftOut: (mapping: Mappings[number]) => boolean,
): EffectiveSettings {
  const { ports = [] } = effective;
  const kept = ports.filter((mapping) => !isLeftOut(mapping));
  return { ...effective, ports: [...kept, ...onPodsIp(ports.filter(isLeftOut))] };
}

/** The mappings of whose ports of the node a pod was made without. */
export function leftOutPorts(pod: Pod, { ports = [] }: EffectiveSettings): Mappings {
  if (ports.length === 0) return [];
  const open = pod.spec.containers.flatMap((container) => container.ports ?? []);
  return ports.filter(
    ({ nodePort, protocol }) =>
      nodePort !== undefined &&
      !open.some(({ hostPort, protocol: of = 'TCP' }) => hostPort === nodePort && of === protocol),
  );
}

/** Whether the pod asks for one of these ports of the node. */
export function asksForPorts({ spec }: Pod, ports: readonly HostPort[]): boolean {
  if (ports.length === 0) return false;
  const open = spec.containers.flatMap((container) => container.ports ?? []);
  return open.some(({ hostPort, protocol: of = 'TCP' }) =>
    ports.some(({ port, protocol }) => port === hostPort && protocol === of),
  );
}

/** The settings as far as the ports of the node go that the pod was made with. */
export function withPodsPorts(effective: EffectiveSettings, pod: Pod): EffectiveSettings {
  const leftOut = new Set(leftOutPorts(pod, effective));
  if (leftOut.size === 0) return effective;
  return withoutNodePorts(effective, (mapping) => leftOut.has(mapping));
}
