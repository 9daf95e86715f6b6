import { isOfEphemeralDisk, withoutClaim } from '../../../api/ephemeraldisk.ts';
import { inherited } from '../../../api/template.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { memoryOnDiskRefusal } from '../facts/claim.ts';

const ofSuspension = 'suspendTo: Disk keeps the VM from being suspended: ';

const ofLabels = 'metadata.labels: ';

/** That the pod of a VM does not get its labels. */
export function labelWarning(podName: string, refusal: string): string {
  return `${ofLabels}pod ${podName} does not get them: ${refusal}`;
}

/** The warnings of a VM but for that about the labels of its pod: what is to be said of these is found out at each look at the pod. */
export function withoutLabelWarning(warnings: readonly string[]): string[] {
  return warnings.filter((text) => !text.startsWith(ofLabels));
}

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
  const others = withoutLabelWarning(warnings).filter(
    (text) => !isOfEphemeralDisk(text) && !text.startsWith(ofSuspension),
  );
  const said = { ...inherited(spec, effective), ...spec };
  const disk = { ...inherited(spec, effective)?.disk, ...spec.disk };
  return [...others, ...liveWarnings(effective, { ...said, disk })];
}
