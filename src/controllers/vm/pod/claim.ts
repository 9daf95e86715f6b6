import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { apiVersion, labels } from '../../../api/meta.ts';
import { controllerOf, isOwnedBy, isTerminating } from '../../../api/owner.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { podNameOf } from '../names.ts';
import type { VmSettings } from '../settings.ts';
import type { Submitted } from '../../../api/object.ts';

/** Size of a Persistent disk where neither VM nor VMConfig say one and the image's could not be read. */
const defaultBytes = 20 * 2 ** 30;

export function isPersistent(effective: EffectiveSettings): boolean {
  return effective.disk?.storage === 'Persistent';
}

/** What a claim has more than its disk at least: tables of the file system and of a small disk, state of the runner. */
const leastExtraBytes = 64 * 2 ** 20;

/** Size of the claim for a disk of this size: a tenth more, in whole Mi. */
function claimBytes(size: string | undefined): number {
  const bytes = size === undefined ? defaultBytes : parseQuantity(size, 'disk.size');
  return Math.ceil(Math.max(bytes * 1.1, bytes + leastExtraBytes) / 2 ** 20) * 2 ** 20;
}

/** Whose a claim under the name of a VM's claim is. */
export type ClaimHolder =
  | { readonly kind: 'own' }
  /** It goes away by itself; a disk is made for the VM when it is gone. */
  | { readonly kind: 'going'; readonly message: string }
  /** Somebody else's: never mounted, never deleted. */
  | { readonly kind: 'foreign'; readonly message: string };

/**
 * Only a claim that was made for this very VM is its disk: what lies under the name otherwise is somebody's data, and the
 * disk of a VM of the same name that was deleted is not to boot again.
 */
export function holderOf(claim: PersistentVolumeClaim, vm: Vm): ClaimHolder {
  const { name } = claim.metadata;
  if (isTerminating(claim))
    return { kind: 'going', message: `claim ${name} is being deleted; a new disk is made when it is gone` };
  if (isOwnedBy(claim, vm)) return { kind: 'own' };
  const controller = controllerOf(claim);
  // The garbage collector takes it: this VM has the name now, so that one is gone.
  if (
    controller?.kind === 'VM' &&
    controller.apiVersion === apiVersion &&
    controller.name === vm.metadata.name
  ) {
    const message = `claim ${name} of a VM of this name that was deleted is still there; a new disk is made when it is gone`;
    return { kind: 'going', message };
  }
  const message = `claim ${name} exists and does not belong to this VM; delete it, or give the VM another name`;
  return { kind: 'foreign', message };
}

/** The storage to ask for where the requested disk no longer fits the VM's claim; undefined where it does. */
export function grownStorage(vm: Vm, claim: PersistentVolumeClaim | undefined): string | undefined {
  if (claim === undefined || !isOwnedBy(claim, vm)) return undefined;
  const size = vm.spec.disk?.size;
  const has = claim.spec?.resources?.requests?.['storage'];
  if (size === undefined || has === undefined) return undefined;
  const wanted = claimBytes(size);
  return wanted > parseQuantity(has, 'storage') ? formatQuantity(wanted) : undefined;
}

/**
 * The claim that holds the overlay. It is owned by the VM, so it goes with it. It is larger than the disk: qcow2 has its
 * own tables, and a file system its own share.
 */
export function buildClaim(
  vm: Vm,
  effective: EffectiveSettings,
  settings: VmSettings,
): Submitted<PersistentVolumeClaim> {
  const name = vm.metadata.name;
  const storageClassName = effective.disk?.storageClassName ?? settings.storageClassName;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: podNameOf(name),
      namespace: vm.metadata.namespace,
      labels: { [labels.vm]: name, [labels.partOf]: 'svc3', [labels.managedBy]: 'svc3' },
      ownerReferences: [{ apiVersion, kind: 'VM', name, uid: vm.metadata.uid, controller: true }],
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: formatQuantity(claimBytes(effective.disk?.size)) } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}
