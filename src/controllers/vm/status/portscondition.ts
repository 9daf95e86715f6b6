import { isPortWarning, portWarning } from '../../../api/portwarning.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';
import { condition, type ConditionDraft } from './statusdraft.ts';

type Mappings = NonNullable<EffectiveSettings['ports']>;

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
