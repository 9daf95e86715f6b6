import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { keepsSettings } from '../facts/hibernation.ts';
import type { VmSettings } from '../settings.ts';
import { anotherMedium, changedInNextPod, changedOverMemory, changedSettings } from './changes.ts';
import { withLiveSettings } from './livesettings.ts';
import type { Resolved } from './resolve.ts';

/**
 * The settings that the next pod of a VM has which was placed before: those that were frozen then, with what has changed of its spec since. Pure.
 *
 * @param pinnedIso - what the medium of `nextMedium` means; undefined where that is not known
 */
export function nextSettings(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
  pinnedIso?: string,
): Resolved {
  const placed = withLiveSettings(vm, frozen);
  const warningsBefore = vm.status?.warnings ?? [];
  const kept = keepsSettings(vm) ? changedOverMemory(vm, placed, settings) : undefined;
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
export function nextMedium(vm: Vm, frozen: EffectiveSettings): string | undefined {
  return keepsSettings(vm) ? undefined : anotherMedium(vm, withLiveSettings(vm, frozen));
}
