import { hasFinalizer } from '../../../api/finalizer.ts';
import { annotations } from '../../../api/meta.ts';
import { vms } from '../../../api/resources.ts';
import { hasTemplate } from '../../../api/template.ts';
import type { Vm } from '../../../api/vm.ts';
import { bootField, dataDiskGoes, dataDisksOf, goesWithVm, mayKeepDisk } from '../../../api/whendeleted.ts';
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

type VmFinder = () => Promise<Vm>;

/**
 * Undoes `disposeOfDisk` where the deletion was refused after it, so that a later one leaves the disk. What somebody else has changed of the VM since
 * stays, and so does a VM that is gone, that is being deleted all the same, or whose name another one has.
 *
 * @param before - the VM as it was before
 * @param find - the VM as it is now
 */
export function keepDisks(client: KubeClient, before: Vm, find: VmFinder): Promise<void> {
  return undo(client, before, find, (now) => {
    if (!mayKeepDisk(now) || !goesWithVm(now) || goesWithVm(before)) return undefined;
    return { spec: { disk: { whenDeleted: before.spec.disk?.whenDeleted ?? unsaid(now) } } };
  });
}

/** What a VM says of its disk that is to say nothing: one with a template that has been placed has to say something (`api/vmchanges.ts`). */
function unsaid({ spec, status }: Vm): 'Retain' | null {
  return hasTemplate(spec) && status?.effective !== undefined ? 'Retain' : null;
}

/** The same for `disposeOfNewDisk`, also where nobody knows whether that was written. Where this fails, disks on which the VM has run stay nevertheless. */
export function keepNewDisks(client: KubeClient, before: Vm, find: VmFinder): Promise<void> {
  return undo(client, before, find, ({ metadata }) => {
    if (metadata.annotations?.[annotations.neverRan] === undefined) return undefined;
    return { metadata: { annotations: { [annotations.neverRan]: null } } };
  });
}

/** @param former - what is to be written so that the VM says what it said before; undefined: it says that */
async function undo(
  client: KubeClient,
  before: Vm,
  find: VmFinder,
  former: (now: Vm) => { readonly metadata?: object; readonly spec?: object } | undefined,
): Promise<void> {
  const { name, namespace, uid } = before.metadata;
  for (let tries = 1; ; tries += 1) {
    const vm = await ifFound(find());
    if (vm?.metadata.uid !== uid || vm.metadata.deletionTimestamp !== undefined) return;
    const written = former(vm);
    if (written === undefined) return;
    // Not one whose deletion comes in between: whoever asked for that was told that the disk goes, too.
    const metadata = { uid, resourceVersion: vm.metadata.resourceVersion, ...written.metadata };
    try {
      await client.patch(vms, { name, namespace }, { type: 'merge', body: { ...written, metadata } });
      return;
    } catch (error) {
      if (!isSvc3Error(error, 'Conflict') || tries >= mostTries) throw error;
    }
  }
}

/**
 * Has the disk that a VM boots from go with it, right before the VM is deleted; data disks go or stay as the VM says.
 *
 * @returns the VM as it is then
 * @throws Svc3Error Conflict where another VM has the name now; NotFound.
 */
export async function disposeOfDisk(client: KubeClient, vm: Vm): Promise<Vm> {
  if (!diskMayStay(vm)) return vm;
  const { name, namespace, uid } = vm.metadata;
  const body = { metadata: { uid }, spec: { disk: { whenDeleted: 'Delete' } } };
  try {
    return await client.patch(vms, { name, namespace }, { type: 'merge', body });
  } catch (error) {
    // It was placed since it was looked at, and has no disk that could stay.
    if (isOfNoClaim(error)) return vm;
    throw error;
  }
}

/** Whether kube-apiserver refuses to be told what becomes of a disk that is Ephemeral (`api/vmchanges.ts`). */
function isOfNoClaim(error: unknown): boolean {
  if (!isSvc3Error(error, 'Invalid')) return false;
  return error.details.causes?.some(({ field }) => field === 'spec.disk.whenDeleted') === true;
}

/**
 * Has all disks that were made for a VM go with it whose guest has never run, exactly as it was seen: they hold nothing. It is not stored: where the
 * deletion fails and the guest runs after all, a later one leaves them.
 *
 * @returns the VM as it is then
 * @throws Svc3Error Conflict where the VM has changed since; NotFound.
 */
export async function disposeOfNewDisk(client: KubeClient, vm: Vm): Promise<Vm> {
  // Without the finalizer nothing has been made for it.
  if (!hasFinalizer(vm) || !newDiskMayStay(vm)) return vm;
  const { name, namespace, uid, resourceVersion } = vm.metadata;
  const body = { metadata: { uid, resourceVersion, annotations: { [annotations.neverRan]: 'true' } } };
  return client.patch(vms, { name, namespace }, { type: 'merge', body });
}

function newDiskMayStay(vm: Vm): boolean {
  if (vm.spec.disk?.claimName === undefined && diskMayStay(vm)) return true;
  return dataDisksOf(vm).some((disk) => disk.claimName === undefined && !dataDiskGoes(vm, disk));
}
