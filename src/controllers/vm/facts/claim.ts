import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { diskImagesOf } from '../../../api/diskimage.ts';
import { annotations, labels } from '../../../api/meta.ts';
import type { Submitted } from '../../../api/object.ts';
import { controllerOf, isTerminating } from '../../../api/owner.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import type { DataDisk } from '../../../api/datadisk.ts';
import { inherited } from '../../../api/template.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { bootField, dataDiskGoes, dataDisksOf, dataField, goesWithVm } from '../../../api/whendeleted.ts';
import { podNameOf } from '../names.ts';
import type { VmSettings } from '../settings.ts';
import { hasBundle } from './bundle.ts';

/** Size of a Persistent disk where neither VM nor VMConfig say one and the image's could not be read. */
const defaultBytes = 20 * 2 ** 30;

export function isPersistent(effective: EffectiveSettings): boolean {
  return effective.disk?.storage === 'Persistent';
}

/** Whether a VM has a disk that may be on volumes of one node. */
export function hasClaims(effective: EffectiveSettings): boolean {
  return isPersistent(effective) || (effective.disks ?? []).length > 0;
}

/** Why the memory of the guest cannot be written to its disk's claim; undefined where it can. */
export function memoryOnDiskRefusal(effective: EffectiveSettings): string | undefined {
  if (!isPersistent(effective)) return 'the memory of a guest can only be on the claim of a Persistent disk';
  return hasBundle(effective) ? 'the memory of a guest with a GPU cannot be written to a disk' : undefined;
}

/** Memory of the guest for which the claim is to have room beside the disk; undefined where it is never written there. */
function memoryOnDisk({ spec }: Vm, effective: EffectiveSettings): string | undefined {
  const { suspendTo } = { ...inherited(spec, effective), ...spec };
  const { onEviction } = { ...effective, ...spec };
  const isAsked = suspendTo === 'Disk' || onEviction === 'Suspend';
  return isAsked && memoryOnDiskRefusal(effective) === undefined ? effective.memory : undefined;
}

/** The claim that has the disk of a VM, or would have: the one that it names, else one of its own. */
export function claimNameOf({ metadata, spec }: Vm): string {
  return spec.disk?.claimName ?? podNameOf(metadata.name);
}

/** The same of a data disk. No VM's name has a dot, so that no disk's claim is called like another VM's. */
export function dataClaimName({ metadata }: Vm, { name, claimName }: DataDisk): string {
  return claimName ?? `${podNameOf(metadata.name)}.${name}`;
}

/** A claim that a VM has, or is to have. */
export interface DiskClaim {
  /** The field of spec that says it. */
  readonly field: string;
  readonly name: string;
  /** It was there before; else it is made. */
  readonly isNamed: boolean;
  readonly size: string | undefined;
  /** Memory of the guest that it is to have room for beside the disk. */
  readonly memory?: string | undefined;
  readonly storageClassName: string | undefined;
  /** Reference of the image that a new disk on it is made on; undefined for a blank one. */
  readonly image?: string | undefined;
  /** Whether it goes when its VM is deleted. */
  readonly goesWithVm: boolean;
}

/** The claim of the disk that a VM boots from, where that is Persistent. */
export function bootClaim(vm: Vm, effective: EffectiveSettings | undefined): DiskClaim {
  return {
    field: bootField,
    name: claimNameOf(vm),
    isNamed: vm.spec.disk?.claimName !== undefined,
    size: effective?.disk?.size,
    memory: effective === undefined ? undefined : memoryOnDisk(vm, effective),
    storageClassName: effective?.disk?.storageClassName,
    image: effective?.image,
    goesWithVm: goesWithVm(vm),
  };
}

function dataClaim(vm: Vm, disk: DataDisk): DiskClaim {
  return {
    field: dataField(disk),
    name: dataClaimName(vm, disk),
    isNamed: disk.claimName !== undefined,
    size: disk.size,
    storageClassName: disk.storageClassName,
    goesWithVm: dataDiskGoes(vm, disk),
  };
}

/** The claims that the pod of a VM with these settings mounts. */
export function claimsFor(vm: Vm, effective: EffectiveSettings): DiskClaim[] {
  const data = (effective.disks ?? []).map((disk) => dataClaim(vm, disk));
  return isPersistent(effective) ? [bootClaim(vm, effective), ...data] : data;
}

/** The claims of the data disks that the spec of a VM asks for. */
export function dataClaims(vm: Vm): DiskClaim[] {
  return (vm.spec.disks ?? []).map((disk) => dataClaim(vm, disk));
}

/** The claims that may be a VM's: those that its pod has, and those that its spec asks for. */
export function claimsOf(vm: Vm): DiskClaim[] {
  return [bootClaim(vm, vm.status?.effective), ...dataDisksOf(vm).map((disk) => dataClaim(vm, disk))];
}

/** Index of VMs by the claims that they name or would make: `<namespace>/<claim>`. */
export const claimIndex = {
  claim: (vm: Vm) => claimsOf(vm).map(({ name }) => `${vm.metadata.namespace}/${name}`),
};

/** What a claim has more than its disk at least: tables of the file system and of a small disk, state of the runner. */
const leastExtraBytes = 64 * 2 ** 20;

/** Size of the claim for a disk of this size, and for that memory: a tenth more, in whole Mi. */
function claimBytes({ size, memory }: Pick<DiskClaim, 'size' | 'memory'>): number {
  const diskBytes = size === undefined ? defaultBytes : parseQuantity(size, 'disk.size');
  const bytes = diskBytes + (memory === undefined ? 0 : parseQuantity(memory, 'memory'));
  return Math.ceil(Math.max(bytes * 1.1, bytes + leastExtraBytes) / 2 ** 20) * 2 ** 20;
}

/** UID of the VM whose disk a claim has, or had before it was deleted. */
function vmUidOf({ metadata }: PersistentVolumeClaim): string | undefined {
  return metadata.annotations?.[annotations.vmUid];
}

/** Whether a claim is the disk of this very VM; one of the same name before it was another. */
export function isDiskOf(claim: PersistentVolumeClaim, { metadata }: Vm): boolean {
  return vmUidOf(claim) === metadata.uid;
}

/** Whether a claim is the disk of another VM of the same name: one that was deleted, or this one before it was restored from a backup. */
export function isNamesakesDisk(claim: PersistentVolumeClaim, vm: Vm): boolean {
  const uid = vmUidOf(claim);
  return uid !== undefined && !isDiskOf(claim, vm) && claim.metadata.labels?.[labels.vm] === vm.metadata.name;
}

/** Whose a claim is that a VM is to have. */
export type ClaimHolder =
  | { readonly kind: 'own' }
  /** It goes away by itself; a disk is made for the VM when it is gone. */
  | { readonly kind: 'going'; readonly message: string }
  /** Somebody else's: never mounted, never deleted. */
  | { readonly kind: 'foreign'; readonly message: string }
  /** That claim is still to be made. */
  | { readonly kind: 'missing'; readonly message: string };

/** A claim that may become the VM's, unless the VM that had it last is still there. */
export interface FreeClaim {
  readonly kind: 'free';
  /** Undefined: it was no VM's yet. */
  readonly last: { readonly name: string; readonly uid: string } | undefined;
}

/** Whose a claim of the name is that a VM would make for itself. A disk never boots again by its name alone. */
export function holderOfOwn(claim: PersistentVolumeClaim, vm: Vm, field = bootField): ClaimHolder {
  const { name } = claim.metadata;
  if (isTerminating(claim))
    return { kind: 'going', message: `claim ${name} is being deleted; a new disk is made when it is gone` };
  if (isDiskOf(claim, vm)) return { kind: 'own' };
  const message = isNamesakesDisk(claim, vm)
    ? `claim ${name} has the disk of a VM of this name that was deleted; deploy the VM with ${field}.claimName ${name} to go on with that disk, or delete the claim`
    : `claim ${name} exists and does not belong to this VM; delete it, or give the VM another name`;
  return { kind: 'foreign', message };
}

/** Whose a claim is that a VM names. */
export function holderOfNamed(
  claim: PersistentVolumeClaim,
  vm: Vm,
  field = bootField,
): ClaimHolder | FreeClaim {
  const { name, labels: has = {} } = claim.metadata;
  const foreign = (message: string) =>
    ({ kind: 'foreign', message: `${field}.claimName: ${message}` }) as const;
  if (isTerminating(claim)) return foreign(`claim ${name} is being deleted`);
  if (isDiskOf(claim, vm)) return { kind: 'own' };
  if (has[labels.disk] !== 'true')
    return foreign(`claim ${name} has no label ${labels.disk}=true, which says that it may be a VM's disk`);
  const controller = controllerOf(claim);
  if (controller !== undefined)
    return foreign(`claim ${name} belongs to ${controller.kind} ${controller.name}`);
  if (claim.spec?.volumeMode === 'Block')
    return foreign(`claim ${name} has volumeMode Block; a VM's disk is a file`);
  const uid = vmUidOf(claim);
  if (uid === undefined) return { kind: 'free', last: undefined };
  const lastName = has[labels.vm];
  if (lastName === undefined)
    return foreign(`claim ${name} has annotation ${annotations.vmUid} and no label ${labels.vm} beside it`);
  return { kind: 'free', last: { name: lastName, uid } };
}

/**
 * What the claim of the disk that a VM boots from is to hold: the size that the VM asks for, and the guest's memory where that may be
 * written there. How large a claim is that somebody else made, and the VM names, is not ours to say for memory.
 */
export function bootNeeds(vm: Vm): Pick<DiskClaim, 'size' | 'memory'> {
  const { size, memory, isNamed } = bootClaim(vm, vm.status?.effective);
  const asked = vm.spec.disk?.size;
  return memory === undefined || isNamed ? { size: asked } : { size: asked ?? size, memory };
}

/** What a VM's claim is to hold and its volume has no room for. */
export interface ClaimLack {
  /** What it is to have. */
  readonly storage: string;
  /** That has been asked for of the claim already: its volume is to follow. */
  readonly isAsked: boolean;
}

/**
 * By what the volume has, which may be more than was asked for, as where it was restored; where that is not known yet, as before it is bound, by what
 * was asked for. Undefined where there is room, and of a claim that is not the VM's.
 */
export function claimLack(
  vm: Vm,
  claim: PersistentVolumeClaim | undefined,
  needs: Pick<DiskClaim, 'size' | 'memory'>,
): ClaimLack | undefined {
  if (claim === undefined || !isDiskOf(claim, vm)) return undefined;
  const asked = claim.spec?.resources?.requests?.['storage'];
  if (needs.size === undefined || asked === undefined) return undefined;
  const wanted = claimBytes(needs);
  const has = claim.status?.capacity?.['storage'] ?? asked;
  if (wanted <= parseQuantity(has, 'storage')) return undefined;
  return { storage: formatQuantity(wanted), isAsked: wanted <= parseQuantity(asked, 'storage') };
}

/** The storage to ask for where what a VM's claim is to hold no longer fits it; undefined where it does, or has been asked for. */
export function grownStorage(
  vm: Vm,
  claim: PersistentVolumeClaim | undefined,
  needs: Pick<DiskClaim, 'size' | 'memory'>,
): string | undefined {
  const lack = claimLack(vm, claim, needs);
  return lack?.isAsked === false ? lack.storage : undefined;
}

/** Why the claim of a data disk is not let grow, with what can be done: its size cannot go back in place. */
export function dataRefusal({ field }: Pick<DiskClaim, 'field'>, message: string): string {
  return `${message}; for the size of before take ${field} out of spec.disks and add it with that size: its claim stays`;
}

/**
 * What is to be noted on the claim that was made for a VM before it has a pod of which its status tells: its VMConfig, or the version of its image, may have
 * become another since. No pod has ever had a volume that is not there yet; any other may hold a disk that was made on what is noted.
 *
 * @param image - of the pod that is made now
 */
export function imagesOfFirstPod(claim: PersistentVolumeClaim, image: string): readonly string[] {
  const noted = diskImagesOf(claim);
  if (noted.includes(image)) return noted;
  return claim.spec?.volumeName === undefined ? [image] : [image, ...noted];
}

/**
 * What is to be noted on the claim of a VM that goes, of the images that its disk may have been made on. A disk that was made for the VM was made on its image,
 * which is not noted yet on a claim of an earlier build, or where another image was noted before it had a pod. One that it took over was made on another one
 * where it was noted so, or where the VM has failed on it, unless it was reverted since.
 */
export function imagesToNote(vm: Vm, claim: PersistentVolumeClaim): readonly string[] {
  const noted = diskImagesOf(claim);
  const { effective, powerState } = vm.status ?? {};
  if (effective === undefined || noted.includes(effective.image)) return noted;
  const mayHaveRun = powerState !== undefined && powerState !== 'Failed';
  const isOwn = vm.spec.disk?.claimName === undefined;
  return isOwn || mayHaveRun ? [effective.image, ...noted] : noted;
}

/** What makes a claim the disk of a VM. */
export function marksOf({ metadata }: Vm): {
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
} {
  return {
    labels: {
      [labels.vm]: metadata.name,
      [labels.disk]: 'true',
      [labels.partOf]: 'svc3',
      [labels.managedBy]: 'svc3',
    },
    annotations: { [annotations.vmUid]: metadata.uid },
  };
}

/**
 * The claim that holds a disk. Nobody owns it: what is deleted with its VM is decided when that happens. It is larger than the disk:
 * qcow2 has its own tables, and a file system its own share.
 */
export function buildClaim(
  vm: Vm,
  disk: Pick<DiskClaim, 'name' | 'size' | 'memory' | 'storageClassName' | 'image'>,
  settings: Pick<VmSettings, 'storageClassName'>,
): Submitted<PersistentVolumeClaim> {
  const storageClassName = disk.storageClassName ?? settings.storageClassName;
  const marks = marksOf(vm);
  const madeOn = disk.image === undefined ? {} : { [annotations.diskImage]: disk.image };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: disk.name,
      namespace: vm.metadata.namespace,
      labels: marks.labels,
      annotations: { ...marks.annotations, ...madeOn },
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: formatQuantity(claimBytes(disk)) } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}
