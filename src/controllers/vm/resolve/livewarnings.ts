import { isOfEphemeralDisk, withoutClaim } from '../../../api/ephemeraldisk.ts';
import { inherited } from '../../../api/template.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { memoryOnDiskRefusal } from '../facts/claim.ts';

const ofSuspension = 'suspendTo: Disk keeps the VM from being suspended: ';

type Said = Partial<Pick<EffectiveSettings, 'disk' | 'suspendTo'>>;

/** What is said that applies at once, and that a VM with these settings cannot have. */
export function liveWarnings(effective: EffectiveSettings, { disk, suspendTo }: Said = effective): string[] {
  const refusal = suspendTo === 'Disk' ? memoryOnDiskRefusal(effective) : undefined;
  return [...withoutClaim(disk), ...(refusal === undefined ? [] : [`${ofSuspension}${refusal}`])];
}

/**
 * The warnings of a VM that has been placed, with those about settings that apply at once as these are now: they may have been said since, or be said no
 * more. Pure.
 */
export function withLiveWarnings(
  { spec }: Vm,
  effective: EffectiveSettings,
  warnings: readonly string[],
): string[] {
  const others = warnings.filter((text) => !isOfEphemeralDisk(text) && !text.startsWith(ofSuspension));
  const said = { ...inherited(spec, effective), ...spec };
  const disk = { ...inherited(spec, effective)?.disk, ...spec.disk };
  return [...others, ...liveWarnings(effective, { ...said, disk })];
}
