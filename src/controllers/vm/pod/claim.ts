import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { annotations, labels } from '../../../api/meta.ts';
import type { Submitted } from '../../../api/object.ts';
import { controllerOf, isTerminating } from '../../../api/owner.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { podNameOf } from '../names.ts';
import type { VmSettings } from '../settings.ts';

/** Size of a Persistent disk where neither VM nor VMConfig say one and the image's could not be read. */
const defaultBytes = 20 * 2 ** 30;

export function isPersistent(effective: EffectiveSettings): boolean {
  return effective.disk?.storage === 'Persistent';
}

/** The claim that has the disk of a VM, or would have: the one that it names, else one of its own. */
export function claimNameOf({ metadata, spec }: Vm): string {
  return spec.disk?.claimName ?? podNameOf(metadata.name);
}

/** Index of VMs by the claim that they name or would make: `<namespace>/<claim>`. */
export const claimIndex = {
  claim: (vm: Vm) => [`${vm.metadata.namespace}/${claimNameOf(vm)}`],
};

/** Whether the disk is to go with its VM. Its VMConfig's word counts where it was frozen; unknown is Retain. */
export function goesWithVm({ spec, status }: Vm): boolean {
  return { ...status?.effective?.disk, ...spec.disk }.whenDeleted === 'Delete';
}

/** What a claim has more than its disk at least: tables of the file system and of a small disk, state of the runner. */
const leastExtraBytes = 64 * 2 ** 20;

/** Size of the claim for a disk of this size: a tenth more, in whole Mi. */
function claimBytes(size: string | undefined): number {
  const bytes = size === undefined ? defaultBytes : parseQuantity(size, 'disk.size');
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
export function holderOfOwn(claim: PersistentVolumeClaim, vm: Vm): ClaimHolder {
  const { name } = claim.metadata;
  if (isTerminating(claim))
    return { kind: 'going', message: `claim ${name} is being deleted; a new disk is made when it is gone` };
  if (isDiskOf(claim, vm)) return { kind: 'own' };
  const wasNamesakes =
    vmUidOf(claim) !== undefined && claim.metadata.labels?.[labels.vm] === vm.metadata.name;
  const message = wasNamesakes
    ? `claim ${name} has the disk of a VM of this name that was deleted; deploy the VM with disk.claimName ${name} to go on with that disk, or delete the claim`
    : `claim ${name} exists and does not belong to this VM; delete it, or give the VM another name`;
  return { kind: 'foreign', message };
}

/** Whose a claim is that a VM names. */
export function holderOfNamed(claim: PersistentVolumeClaim, vm: Vm): ClaimHolder | FreeClaim {
  const { name, labels: has = {} } = claim.metadata;
  const foreign = (message: string) => ({ kind: 'foreign', message: `disk.claimName: ${message}` }) as const;
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

/** The storage to ask for where the requested disk no longer fits the VM's claim; undefined where it does. */
export function grownStorage(vm: Vm, claim: PersistentVolumeClaim | undefined): string | undefined {
  if (claim === undefined || !isDiskOf(claim, vm)) return undefined;
  const size = vm.spec.disk?.size;
  const has = claim.spec?.resources?.requests?.['storage'];
  if (size === undefined || has === undefined) return undefined;
  const wanted = claimBytes(size);
  return wanted > parseQuantity(has, 'storage') ? formatQuantity(wanted) : undefined;
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
 * The claim that holds the overlay. Nobody owns it: what is deleted with its VM is decided when that happens. It is larger than the disk:
 * qcow2 has its own tables, and a file system its own share.
 */
export function buildClaim(
  vm: Vm,
  effective: EffectiveSettings,
  settings: VmSettings,
): Submitted<PersistentVolumeClaim> {
  const storageClassName = effective.disk?.storageClassName ?? settings.storageClassName;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: podNameOf(vm.metadata.name), namespace: vm.metadata.namespace, ...marksOf(vm) },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: formatQuantity(claimBytes(effective.disk?.size)) } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}
