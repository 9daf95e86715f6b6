import type { Node } from '../../../api/core.ts';
import { readNodeCpu } from '../../../api/hardware.ts';
import { maxFlagsLength } from '../../../api/hostcpu.ts';
import { annotations } from '../../../api/meta.ts';
import { conditionTypes } from '../../../api/reasons.ts';
import { inherited } from '../../../api/template.ts';
import type { EffectiveSettings, MemoryHost, ObservedPowerState, Vm, VmStatus } from '../../../api/vm.ts';
import { findCondition, isTrue } from '../../../controller/conditions.ts';
import { memoryOnDiskRefusal } from './claim.ts';
import { isDue } from './requests.ts';

/** A claim takes at least so much of a guest's memory in a second. */
const bytesPerSecond = 100 * 2 ** 20;

/** For what does not grow with the memory. */
const leastSeconds = 10;

/** Where the memory of the guest is to be while the VM is suspended; the VM's own word, else that of its VMConfig. */
export function suspendsTo({ spec, status }: Vm): 'Memory' | 'Disk' {
  return spec.suspendTo ?? inherited(spec, status?.effective)?.suspendTo ?? 'Memory';
}

/**
 * Seconds that the end of the pod is held up for to write the guest's memory, before the guest's own time to shut down; undefined where it
 * is shut down at once.
 */
export function suspendSeconds(effective: EffectiveSettings, memoryBytes: number): number | undefined {
  if (effective.onEviction !== 'Suspend' || memoryOnDiskRefusal(effective) !== undefined) return undefined;
  return leastSeconds + Math.ceil(memoryBytes / bytesPerSecond);
}

/** Whether the guest may have left its memory on its claim when its pod ended, and is to go on from it. */
export function mayBeOnClaim(vm: Vm, effective: EffectiveSettings): boolean {
  if (memoryOnDiskRefusal(effective) !== undefined || vm.spec.powerState === 'Stopped') return false;
  return mayGoOn(vm, effective);
}

/** What the guest runs on, where its memory may be written to its claim. A node of which nothing is known changes nothing. */
export function memoryHostOf(
  vm: Vm,
  effective: EffectiveSettings,
  {
    accelerator,
    node,
  }: { readonly accelerator: MemoryHost['accelerator'] | undefined; readonly node: Node | undefined },
): MemoryHost | undefined {
  const before = vm.status?.memoryHost;
  const isWanted = suspendsTo(vm) === 'Disk' || effective.onEviction === 'Suspend';
  if (!isWanted || memoryOnDiskRefusal(effective) !== undefined) return undefined;
  // Until it goes on, its memory is of the node before.
  if (vm.status?.suspendedTo === 'Disk' || accelerator === undefined) return before;
  if (accelerator === 'tcg') return { accelerator };
  const cpu = readNodeCpu(node?.metadata.annotations?.[annotations.hardware]);
  if (cpu === undefined) return before;
  const cpuFlags = cpu.flags.join(' ');
  return { accelerator, cpuModel: cpu.model, ...(cpuFlags.length > maxFlagsLength ? {} : { cpuFlags }) };
}

/** The guest is paused in its pod: no readiness of the pod changes when it is lost. */
export function isSuspendedInMemory(status: VmStatus | undefined): boolean {
  return status?.powerState === 'Suspended' && status.suspendedTo !== 'Disk';
}

/** Whether the guest's memory may be on its way to its claim, as was asked for: the status says once it is there. */
export function isBeingSuspendedToDisk(vm: Vm): boolean {
  return vm.spec.powerState === 'Suspended' && suspendsTo(vm) === 'Disk' && vm.status?.suspendedTo !== 'Disk';
}

/**
 * The power state of a VM without a pod in which its guest may have started. That it has ever booted is what the start deadline goes by. A guest is
 * suspended on its disk until there is a pod that may have used its memory: by then it can be left there again.
 */
export function stateWithoutGuest({ powerState, suspendedTo, runner }: VmStatus = {}):
  | ObservedPowerState
  | undefined {
  if (powerState === undefined) return undefined;
  const isUntouched = powerState === 'Suspended' && suspendedTo === 'Disk' && runner === undefined;
  return isUntouched ? 'Suspended' : 'Stopped';
}

/** The guest's memory is on its claim and is to stay there: the VM needs no pod. What a revert asks for takes one. */
export function isAsleep(vm: Vm): boolean {
  const { spec, status } = vm;
  if (spec.powerState !== 'Suspended' || status?.powerState !== 'Suspended') return false;
  return status.suspendedTo === 'Disk' && !isDue(vm, 'revertRequest');
}

/** Whether a pod that is made for the VM may find a memory of its guest on the claim. */
export function mayGoOn({ status }: Vm, effective: EffectiveSettings): boolean {
  return status?.suspendedTo === 'Disk' || effective.onEviction === 'Suspend';
}

/**
 * Whether the guest may go on from a memory that lies on its claim: its hardware has to be what it was then, so the next pod has the settings
 * that were in force but for where it may be, and changes go on waiting for the guest's next start. A revert discards the memory, unless the guest goes on
 * before it so that its disk can be saved.
 *
 * @param isSavedFirst - whether a revert that is asked for waits for images of the disk; of no matter where none is asked for
 */
export function keepsSettings(vm: Vm, isSavedFirst: boolean): boolean {
  if (isDue(vm, 'revertRequest') && !isSavedFirst) return false;
  return vm.status?.suspendedTo === 'Disk' || (mayHaveBeenSuspended(vm.status) && !isToBoot(vm));
}

/** Whether the guest may have left a memory when its pod ended. One that has never run has left none, and one that was off neither. */
export function mayHaveBeenSuspended(status: VmStatus | undefined): boolean {
  const { effective, powerState, memoryHost } = status ?? {};
  if (effective?.onEviction !== 'Suspend' || memoryOnDiskRefusal(effective) !== undefined) return false;
  if (powerState === undefined) return false;
  return memoryHost !== undefined || isChangedWhileUp(status);
}

/** Of some guests nobody knows what they run on: that changes wait for their next start tells that they were up. */
function isChangedWhileUp({ conditions }: VmStatus = {}): boolean {
  const ready = findCondition(conditions, conditionTypes.ready)?.reason;
  const isOff = ready === 'Stopped' || ready === 'GuestStopped';
  return !isOff && isTrue(conditions, conditionTypes.restartRequired);
}

/**
 * Whether a restart is asked for of a VM without a pod that finds no place as what it was: it boots then, with its changes. Wherever it can go on,
 * it does before it is restarted, which shuts its guest down.
 */
function isToBoot(vm: Vm): boolean {
  const { runner, conditions } = vm.status ?? {};
  const scheduled = findCondition(conditions, conditionTypes.scheduled)?.status;
  return isDue(vm, 'restartRequest') && runner === undefined && scheduled === 'False';
}
