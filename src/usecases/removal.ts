import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { disposeOfNewDisk, keepNewDisks } from '../controllers/vm/life/disposal.ts';
import { isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';

export interface Removal {
  /** With the rights of whoever deployed the VM. */
  readonly caller: KubeClient;
  /** Writes the start deadline where that is left to the operator. */
  readonly writer: KubeClient;
}

/**
 * Removes a VM whose deployer is told that it will never run, exactly as it was seen to be so. Where it has changed since,
 * or its deployer may not delete, its start deadline is brought forward: the operator deletes it once it has made sure
 * that its guest has never run. One that has run stays.
 */
export async function removeNeverRun(vm: Vm, { caller, writer }: Removal): Promise<void> {
  if (vm.status?.powerState !== undefined) return;
  const { name, namespace, uid } = vm.metadata;
  const key = { name, namespace };
  try {
    const { resourceVersion } = (await disposeOfNewDisk(caller, vm)).metadata;
    await caller.delete(vms, key, { uid, resourceVersion });
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return;
    // One that stays, since it has run by now, keeps its disks when it is deleted one day: the operator asks anew before it deletes it.
    await keepNewDisks(writer, vm, () => writer.get(vms, name, namespace)).catch(() => undefined);
    if (!isSvc3Error(error, 'Conflict', 'Forbidden', 'Unauthorized')) throw error;
    const body = { metadata: { uid }, spec: { startDeadlineSeconds: 1 } };
    await writer.patch(vms, key, { type: 'merge', body }).catch(unlessGone);
  }
}

/** A Conflict is another VM's UID. */
function unlessGone(error: unknown): void {
  if (!isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
}
