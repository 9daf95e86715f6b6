import { hasFinalizer } from '../../../api/finalizer.ts';
import type { ObjectMeta } from '../../../api/object.ts';
import { vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { claimNameOf, goesWithVm } from '../pod/claim.ts';

/** Whether a VM has a disk that may stay when it goes; before it is placed its VMConfig may say so. */
function mayKeepDisk({ spec, status }: Vm): boolean {
  const { storage } = { ...status?.effective?.disk, ...spec.disk };
  if (storage !== undefined) return storage === 'Persistent';
  return spec.config !== undefined && status?.effective === undefined;
}

/** The claim that stays when a VM that has been placed is deleted. */
export function keptClaim(vm: Vm): string | undefined {
  const isKept = vm.status?.effective !== undefined && mayKeepDisk(vm) && !goesWithVm(vm);
  return isKept ? claimNameOf(vm) : undefined;
}

/**
 * Has the disk of a VM go with it, right before the VM is deleted.
 *
 * @returns the VM as it is then
 * @throws Svc3Error Conflict where another VM has the name now; NotFound.
 */
export function disposeOfDisk(client: KubeClient, vm: Vm): Promise<Vm> {
  return dispose(client, vm, { uid: vm.metadata.uid });
}

/**
 * The same for a VM whose guest has never run, exactly as it was seen: its disk holds nothing, unless it named one that was there.
 *
 * @throws Svc3Error Conflict where the VM has changed since; NotFound.
 */
export async function disposeOfNewDisk(client: KubeClient, vm: Vm): Promise<Vm> {
  // Without the finalizer nothing has been made for it.
  if (vm.spec.disk?.claimName !== undefined || !hasFinalizer(vm)) return vm;
  const { uid, resourceVersion } = vm.metadata;
  return dispose(client, vm, { uid, resourceVersion });
}

async function dispose(client: KubeClient, vm: Vm, metadata: Partial<ObjectMeta>): Promise<Vm> {
  if (!mayKeepDisk(vm) || goesWithVm(vm)) return vm;
  const { name, namespace } = vm.metadata;
  const body = { metadata, spec: { disk: { whenDeleted: 'Delete' } } };
  return client.patch(vms, { name, namespace }, { type: 'merge', body });
}
