import { conditionTypes } from '../../../api/reasons.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { isTrue } from '../../../controller/conditions.ts';
import { memoryOnDiskRefusal } from './claim.ts';

/** A claim takes at least so much of a guest's memory in a second. */
const bytesPerSecond = 100 * 2 ** 20;

/** For what does not grow with the memory. */
const leastSeconds = 10;

/** Where the memory of the guest is to be while the VM is suspended; the VM's own word, else that of its VMConfig. */
export function suspendsTo({ spec, status }: Vm): 'Memory' | 'Disk' {
  return spec.suspendTo ?? status?.effective?.suspendTo ?? 'Memory';
}

/**
 * Seconds that the end of the pod is held up for to write the guest's memory, before the guest's own time to shut down; undefined where it
 * is shut down at once.
 */
export function suspendSeconds(effective: EffectiveSettings, memoryBytes: number): number | undefined {
  if (effective.onEviction !== 'Suspend' || memoryOnDiskRefusal(effective) !== undefined) return undefined;
  return leastSeconds + Math.ceil(memoryBytes / bytesPerSecond);
}

/** The guest's memory is on its claim and is to stay there: the VM needs no pod. What a revert asks for takes one. */
export function isAsleep({ spec, status }: Vm): boolean {
  if (spec.powerState !== 'Suspended' || status?.powerState !== 'Suspended') return false;
  const isReverted = spec.revertRequest === undefined || spec.revertRequest === status.revertRequest;
  return status.suspendedTo === 'Disk' && isReverted;
}

/** Whether a pod that is made for the VM may find a memory of its guest on the claim. */
export function mayGoOn({ status }: Vm, effective: EffectiveSettings): boolean {
  return status?.suspendedTo === 'Disk' || effective.onEviction === 'Suspend';
}

/**
 * Whether the guest may go on from a memory that lies on its claim: its hardware has to be what it was then, so the next pod has the settings
 * that were in force, and changes go on waiting for the guest's next start. A pod that is ended for that start takes no memory along.
 */
export function keepsSettings({ status }: Vm): boolean {
  if (status?.suspendedTo === 'Disk') return true;
  return (
    status?.effective?.onEviction === 'Suspend' && isTrue(status.conditions, conditionTypes.restartRequired)
  );
}
