import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { persistentVolumeClaims, vms } from '../../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { isSvc3Error, Svc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { VmSettings } from '../settings.ts';
import {
  buildClaim,
  claimNameOf,
  type ClaimHolder,
  goesWithVm,
  holderOfNamed,
  holderOfOwn,
  isDiskOf,
  isPersistent,
  marksOf,
} from './claim.ts';

/**
 * Sees to it that a VM has the claim of its Persistent disk: the one that it names, else one that is made for it. What is there is read
 * from kube-apiserver: the cache may be behind, and holds only claims with our label.
 *
 * @returns `own` where the VM has it, or needs none
 * @throws Svc3Error Conflict where the claim changed meanwhile
 */
export async function obtainClaim(
  client: KubeClient,
  vm: Vm,
  effective: EffectiveSettings,
  settings: VmSettings,
): Promise<ClaimHolder> {
  if (!isPersistent(effective)) return { kind: 'own' };
  if (vm.spec.disk?.claimName !== undefined) return takeNamed(client, vm);
  try {
    return holderOfOwn(await client.create(persistentVolumeClaims, buildClaim(vm, effective, settings)), vm);
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  }
  const there = await currentClaim(client, vm);
  if (there === undefined)
    throw new Svc3Error('Conflict', `claim ${claimNameOf(vm)} went away between two looks`);
  return holderOfOwn(there, vm);
}

async function takeNamed(client: KubeClient, vm: Vm): Promise<ClaimHolder> {
  const claim = await currentClaim(client, vm);
  if (claim === undefined)
    return { kind: 'missing', message: `disk.claimName: claim ${claimNameOf(vm)} does not exist` };
  const holder = holderOfNamed(claim, vm);
  if (holder.kind !== 'free') return holder;
  if (holder.last !== undefined && (await isThere(client, claim, holder.last))) {
    const message = `disk.claimName: claim ${claim.metadata.name} is the disk of VM ${holder.last.name}`;
    return { kind: 'foreign', message };
  }
  const { name, namespace, uid, resourceVersion } = claim.metadata;
  // With resourceVersion: of two VMs that name it one gets it.
  const body = { metadata: { uid, resourceVersion, ...marksOf(vm) } };
  await client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
  return { kind: 'own' };
}

async function isThere(
  client: KubeClient,
  { metadata: { namespace } }: PersistentVolumeClaim,
  { name, uid }: { readonly name: string; readonly uid: string },
): Promise<boolean> {
  const vm = await ignoring(['NotFound'], client.get(vms, name, namespace));
  return vm?.metadata.uid === uid;
}

function currentClaim(client: KubeClient, vm: Vm): Promise<PersistentVolumeClaim | undefined> {
  return ignoring(['NotFound'], client.get(persistentVolumeClaims, claimNameOf(vm), vm.metadata.namespace));
}

/**
 * What becomes of the disk of a VM that goes: deleted where that is wanted, else left to nobody.
 *
 * @returns name of the claim that stays; undefined where there is none
 */
export async function leaveClaim(client: KubeClient, vm: Vm): Promise<string | undefined> {
  const claim = await currentClaim(client, vm);
  if (claim === undefined || !isDiskOf(claim, vm)) return undefined;
  const { name, namespace, uid } = claim.metadata;
  if (!goesWithVm(vm)) return name;
  await ignoring(
    ['NotFound', 'Conflict'],
    client.delete(persistentVolumeClaims, { name, namespace }, { uid }),
  );
  return undefined;
}
