import type { Image } from '../../api/image.ts';
import type { Vm } from '../../api/vm.ts';
import { commitRefusal } from '../../api/committarget.ts';
import { findCondition } from '../../controller/conditions.ts';
import { isDone, isRefused } from './decide.ts';
import {
  hasGoneWithPod,
  meantVm,
  podWithDisk,
  requestOf,
  takenFrom,
  vmNameOf,
  wantsMemory,
} from './names.ts';

/**
 * Names of the Images that a VM's disk is still being saved for, sorted: a VM that is being deleted waits for them.
 *
 * @param pod - the VM's own, where it is known: an Ephemeral disk that was in another one is gone, also where nothing starts in this one
 */
export function unsavedImages(
  vm: Vm,
  images: readonly Image[],
  pod?: { readonly metadata: { readonly uid: string } },
): string[] {
  return images
    .filter((image) => waitsFor(image, vm, pod?.metadata.uid))
    .map(({ metadata }) => metadata.name)
    .sort();
}

/**
 * Images that the VM's disk is still promised to, as it is now: its revert waits for them. Those for which there is no store are among them, since they
 * would get the disk of after the revert once there is one.
 */
export function promisedImages(vm: Vm, images: readonly Image[]): Image[] {
  return images.filter((image) => isPromised(image, vm));
}

/** Those of them that the revert waits for: something may still come of them. */
export function awaitedImages(vm: Vm, images: readonly Image[]): Image[] {
  return promisedImages(vm, images).filter((image) => !isStoreMissing(image) && !isWithoutGuest(image, vm));
}

/**
 * Whether the memory is wanted of a guest that is off, and is not started before the VM is reverted. What has been copied in the pod goes on into the store
 * without the guest.
 */
function isWithoutGuest(image: Image, { spec, status }: Vm): boolean {
  if (spec.powerState !== 'Stopped' || !wantsMemory(image) || isWorking(image)) return false;
  return status?.powerState !== undefined && status.powerState !== 'Running';
}

/** Whether an Image is being made of the VM's disk right now, by its runner or of the copy in its pod. */
export function isBeingSaved(vm: Vm, images: readonly Image[]): boolean {
  return images.some(
    (image) => image.status?.vmUid === vm.metadata.uid && isWorking(image) && waitsFor(image, vm),
  );
}

function isWorking({ status }: Image): boolean {
  const told = status?.digest === undefined ? 'Ready' : 'Committed';
  return findCondition(status?.conditions, told)?.reason === 'Working';
}

function waitsFor(image: Image, vm: Vm, podUid?: string): boolean {
  return isPromised(image, vm, podUid) && (image.status?.digest !== undefined || !isStoreMissing(image));
}

/** Whether the disk that the VM has now is meant, and nothing has come of that yet. */
function isPromised(image: Image, vm: Vm, podUid?: string): boolean {
  const { metadata, status } = image;
  const request = requestOf(image);
  if (vmNameOf(image) !== vm.metadata.name || request === undefined) return false;
  if (metadata.deletionTimestamp !== undefined || isDone(image, request) || isRefused(image, request))
    return false;
  const taken = takenFrom(image);
  if (taken !== undefined)
    return taken.vmUid === vm.metadata.uid && !hasGoneWithPod(taken, podWithDisk(vm, podUid));
  if ((meantVm(image) ?? vm.metadata.uid) !== vm.metadata.uid) return false;
  if (status?.digest !== undefined) return commitRefusal(vm, metadata.name) === undefined;
  return !isTooLate(image, vm);
}

/** Where there is no store, nothing would come of it. */
function isStoreMissing({ status }: Image): boolean {
  return status?.conditions?.some(({ reason }) => reason === 'StoreMissing') === true;
}

/** The Image controller refuses it for the same reason; in the same second it is waited for. */
function isTooLate({ metadata }: Image, vm: Vm): boolean {
  const { deletionTimestamp } = vm.metadata;
  return deletionTimestamp !== undefined && (metadata.creationTimestamp ?? '') > deletionTimestamp;
}
