import { isDeepStrictEqual } from 'node:util';
import { hasFinalizer } from '../../../api/finalizer.ts';
import type { ObjectMeta } from '../../../api/object.ts';
import { vms } from '../../../api/resources.ts';
import type { Vm, VmSpec } from '../../../api/vm.ts';
import { bootField, goesWithVm, mayKeepDisk } from '../../../api/whendeleted.ts';
import { ifFound, isSvc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { claimsOf, type DiskClaim } from '../facts/claim.ts';

/** The claims that stay when a VM that has been placed is deleted. */
export function keptClaims(vm: Vm): DiskClaim[] {
  if (vm.status?.effective === undefined) return [];
  return claimsOf(vm).filter(
    ({ field, goesWithVm: goes }) => !goes && (field !== bootField || mayKeepDisk(vm)),
  );
}

/** Whether the disk that a VM boots from stays when that is deleted, for all that is known. */
export function diskMayStay(vm: Vm): boolean {
  return mayKeepDisk(vm) && !goesWithVm(vm);
}

/** Tries of a write that gets into those of the operator. */
const mostTries = 5;

/**
 * Undoes `disposeOfDisk` and `disposeOfNewDisk` where the deletion was refused after it, so that a later one leaves the disks. What somebody else has
 * changed of the VM since stays, and so does a VM that is gone, that is being deleted all the same, or whose name another one has.
 *
 * @param before - the VM as it was before
 * @param find - the VM as it is now
 */
export async function keepDisks(client: KubeClient, before: Vm, find: () => Promise<Vm>): Promise<void> {
  const { name, namespace, uid } = before.metadata;
  for (let tries = 1; ; tries += 1) {
    const vm = await ifFound(find());
    if (vm?.metadata.uid !== uid || vm.metadata.deletionTimestamp !== undefined) return;
    const spec = formerDisposal(before, vm);
    if (Object.keys(spec).length === 0) return;
    // Not one whose deletion comes in between: whoever asked for that was told that the disk goes, too.
    const body = { metadata: { uid, resourceVersion: vm.metadata.resourceVersion }, spec };
    try {
      await client.patch(vms, { name, namespace }, { type: 'merge', body });
      return;
    } catch (error) {
      if (!isSvc3Error(error, 'Conflict') || tries >= mostTries) throw error;
    }
  }
}

/** What is to be changed so that no disk goes with the VM which did not before. */
function formerDisposal(before: Vm, now: Vm): object {
  const isBootChanged = goesWithVm(now) && !goesWithVm(before);
  const disks = now.spec.disks?.map((disk) => {
    const former = before.spec.disks?.find(({ name }) => name === disk.name);
    if (former === undefined || disk.whenDeleted !== 'Delete') return disk;
    const { whenDeleted: _whenDeleted, ...rest } = disk;
    return former.whenDeleted === undefined ? rest : { ...rest, whenDeleted: former.whenDeleted };
  });
  return {
    ...(isBootChanged ? { disk: { whenDeleted: before.spec.disk?.whenDeleted ?? null } } : {}),
    ...(isDeepStrictEqual(disks, now.spec.disks) ? {} : { disks }),
  };
}

/**
 * Has the disk that a VM boots from go with it, right before the VM is deleted; data disks go or stay as the VM says.
 *
 * @returns the VM as it is then
 * @throws Svc3Error Conflict where another VM has the name now; NotFound.
 */
export function disposeOfDisk(client: KubeClient, vm: Vm): Promise<Vm> {
  return dispose(client, vm, { uid: vm.metadata.uid }, { boot: true });
}

/**
 * The same for a VM whose guest has never run, exactly as it was seen: its disks hold nothing, unless it named ones that were there.
 *
 * @throws Svc3Error Conflict where the VM has changed since; NotFound.
 */
export async function disposeOfNewDisk(client: KubeClient, vm: Vm): Promise<Vm> {
  // Without the finalizer nothing has been made for it.
  if (!hasFinalizer(vm)) return vm;
  const { uid, resourceVersion } = vm.metadata;
  const data = vm.spec.disks?.map((disk) =>
    disk.size === undefined ? disk : { ...disk, whenDeleted: 'Delete' as const },
  );
  const isNew = vm.spec.disk?.claimName === undefined;
  return dispose(client, vm, { uid, resourceVersion }, { boot: isNew, data });
}

/** @param data - the data disks as they are to be; undefined leaves them */
async function dispose(
  client: KubeClient,
  vm: Vm,
  metadata: Partial<ObjectMeta>,
  { boot, data }: { readonly boot: boolean; readonly data?: VmSpec['disks'] },
): Promise<Vm> {
  const spec = {
    ...(boot && diskMayStay(vm) ? { disk: { whenDeleted: 'Delete' } } : {}),
    ...(isDeepStrictEqual(data, vm.spec.disks) || data === undefined ? {} : { disks: data }),
  };
  if (Object.keys(spec).length === 0) return vm;
  const { name, namespace } = vm.metadata;
  return client.patch(vms, { name, namespace }, { type: 'merge', body: { metadata, spec } });
}
