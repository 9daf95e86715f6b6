import type { Pod } from '../../../api/core.ts';
import { parseQuantity } from '../../../api/quantity.ts';
import { readyReasons, stalledInPart } from '../../../api/reasons.ts';
import type { RunnerState } from '../../../api/runner.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { isAsleep } from '../facts/hibernation.ts';
import { hasMedium, isPodReady } from '../facts/podstate.ts';
import { withPodsPorts } from '../pod/leftoutports.ts';
import { requestsMedium, withLivePorts } from '../resolve/livesettings.ts';
import { arePortsPending, arePortsReported } from './openports.ts';

/**
 * Nothing to find out: reported as requested, or that somebody has to act, and the pod is ready just when the guest is to
 * run.
 */
function hasNothingToAsk(vm: Vm, podReady: boolean): boolean {
  const conditions = vm.status?.conditions;
  const ready = conditions?.find(({ type }) => type === 'Ready');
  const isStalled = conditions?.some(
    ({ type, status, reason: why }) => type === 'Stalled' && status === 'True' && !stalledInPart.has(why),
  );
  const reason = ready?.reason ?? '';
  // Its pod ends once the runner says that it has written the memory.
  if (isAsleep(vm)) return false;
  const isDone = isStalled === true || readyReasons.has(reason) || reason === 'GuestStopped';
  if (!isDone || ready?.observedGeneration !== vm.metadata.generation) return false;
  return podReady === (vm.status?.powerState === 'Running');
}

/** The same, with what applies at once: ports, a medium that is taken out, a disk that grows. */
export function isAsRequested(vm: Vm, pod: Pod, placed: EffectiveSettings | undefined): boolean {
  if (!hasNothingToAsk(vm, isPodReady(pod))) return false;
  if (placed !== undefined && !arePortsReported(vm, placed)) return false;
  if (!requestsMedium(vm) && hasMedium(pod)) return false;
  const bytes = requestedBytes(vm);
  const { diskSize } = vm.status ?? {};
  if (bytes === undefined) return true;
  // One that it was made with.
  if (diskSize === undefined) return vm.metadata.generation === 1;
  return bytes <= parseQuantity(diskSize, 'diskSize');
}

/** The settings in force, with the ports that are asked for now; undefined before they have been reported. */
export function placedSettings(vm: Vm, pod: Pod): EffectiveSettings | undefined {
  const effective = vm.status?.effective;
  return effective === undefined ? undefined : withPodsPorts(withLivePorts(vm, effective), pod);
}

/** Of the disk that the VM boots from. */
export function requestedBytes(vm: Vm): number | undefined {
  return vm.spec.disk?.size === undefined ? undefined : parseQuantity(vm.spec.disk.size, 'disk.size');
}

/** Whether there is a medium in the drive that is to be taken out. */
export function isToBeEmptied(state: RunnerState | undefined, vm: Vm): boolean {
  return state?.iso === true && !requestsMedium(vm);
}

/** Whether the medium or ports are to change, which waits for nothing. */
export function hasChangesAtOnce(state: RunnerState, vm: Vm, placed: EffectiveSettings | undefined): boolean {
  return isToBeEmptied(state, vm) || (placed !== undefined && arePortsPending(state, placed));
}
