import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { keepsSettings } from '../facts/hibernation.ts';
import type { VmSettings } from '../settings.ts';
import { anotherMedium, changedInNextPod, changedOverMemory, changedSettings } from './changes.ts';
import { withLiveSettings } from './livesettings.ts';
import type { Resolved } from './resolve.ts';

/** What the next pod of a VM depends on beside the VM. */
export interface NextStart {
  /** What the medium of `nextMedium` means; undefined where that is not known. */
  readonly pinnedIso?: string | undefined;
  /** Whether a revert that is asked for waits for images of the disk. */
  readonly isSavedFirst?: boolean;
}

/**
 * The settings that the next pod of a VM has which was placed before: those that were frozen then, with what has changed of its spec since. Pure.
 */
export function nextSettings(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
  { pinnedIso, isSavedFirst = false }: NextStart = {},
): Resolved {
  const placed = withLiveSettings(vm, frozen);
  const warningsBefore = vm.status?.warnings ?? [];
  const kept = keepsSettings(vm, isSavedFirst) ? changedOverMemory(vm, placed, settings) : undefined;
  if (kept !== undefined) {
    const { elsewhere } = kept;
    // They go on waiting, which the status has to say.
    const { fields: waiting = [] } = changedSettings(vm, elsewhere, settings) ?? {};
    return { kind: 'resolved', effective: elsewhere, warnings: warningsBefore, waiting };
  }
  const changed = changedInNextPod(vm, placed, settings, pinnedIso);
  const { effective = placed, warnings = warningsBefore, refusal } = changed ?? {};
  return { kind: 'resolved', effective, warnings, ...(refusal === undefined ? {} : { refusal }) };
}

/** The medium that the next pod has where that is another than the last one's, by its name. */
export function nextMedium(
  vm: Vm,
  frozen: EffectiveSettings,
  { isSavedFirst = false }: Pick<NextStart, 'isSavedFirst'> = {},
): string | undefined {
  return keepsSettings(vm, isSavedFirst) ? undefined : anotherMedium(vm, withLiveSettings(vm, frozen));
}
