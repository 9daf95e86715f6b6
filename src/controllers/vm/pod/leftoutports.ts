import type { Pod } from '../../../api/core.ts';
import { isPortWarning, portWarning } from '../../../api/portwarning.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';
import type { HostPort } from '../../../placement/ports.ts';
import { condition, type ConditionDraft } from '../status/statusdraft.ts';

type Mappings = NonNullable<EffectiveSettings['ports']>;

/** The settings for a pod that is made without these ports; the VM keeps them for its next start. */
export function withoutPorts(
  effective: EffectiveSettings,
  leftOut: readonly HostPort[] = [],
): EffectiveSettings {
  if (leftOut.length === 0) return effective;
  const isKept = ({ nodePort, protocol }: Mappings[number]) =>
    !leftOut.some((port) => port.port === nodePort && port.protocol === protocol);
  return { ...effective, ports: (effective.ports ?? []).filter(isKept) };
}

/** The mappings that a pod was made without. */
export function leftOutPorts(pod: Pod, { ports = [] }: EffectiveSettings): Mappings {
  if (ports.length === 0) return [];
  const open = pod.spec.containers.flatMap((container) => container.ports ?? []);
  return ports.filter(
    ({ nodePort, protocol }) =>
      nodePort !== undefined &&
      !open.some(({ hostPort, protocol: of = 'TCP' }) => hostPort === nodePort && of === protocol),
  );
}

/** The settings as far as the ports of the node go that the pod was made with. */
export function withPodsPorts(effective: EffectiveSettings, pod: Pod): EffectiveSettings {
  const leftOut = new Set(leftOutPorts(pod, effective));
  if (leftOut.size === 0) return effective;
  return { ...effective, ports: (effective.ports ?? []).filter((mapping) => !leftOut.has(mapping)) };
}

const untilNextStart = "is taken on every node that fits; the mapping is left out until the VM's next start";

/** The warnings of a VM with this pod, those about an earlier pod replaced. */
export function withLeftOutWarnings(warnings: readonly string[], leftOut: Mappings): string[] {
  return [
    ...warnings.filter((text) => !text.endsWith(untilNextStart)),
    ...leftOut.map(({ nodePort, protocol }) =>
      portWarning(`nodePort ${nodePort}/${protocol} ${untilNextStart}`),
    ),
  ];
}

/** Condition `PortsMapped`, there only while a mapping is left out: taken by others, or not allowed in this installation. */
export function portsCondition(
  warnings: readonly string[],
  leftOut: Mappings,
): { readonly portsMapped?: ConditionDraft } {
  const told = warnings.filter(isPortWarning);
  if (told.length === 0) return {};
  const reason = leftOut.length > 0 ? 'PortTaken' : 'PortNotAllowed';
  return { portsMapped: condition('False', reason, told.join('; ')) };
}
