import { isDeepStrictEqual } from 'node:util';
import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { diskImagesOf } from '../../../api/diskimage.ts';
import { annotations } from '../../../api/meta.ts';
import { persistentVolumeClaims, pods, vms } from '../../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { bootField, goesAsNeverRun } from '../../../api/whendeleted.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { isRefusal } from '../../../controller/refusal.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { podNameOf } from '../names.ts';
import type { VmSettings } from '../settings.ts';
import {
  buildClaim,
  type ClaimHolder,
  claimsFor,
  claimsOf,
  dataRefusal,
  type DiskClaim,
  grownStorage,
  holderOfNamed,
  holderOfOwn,
  isDiskOf,
  marksOf,
  imagesOfFirstPod,
  imagesToNote,
} from '../facts/claim.ts';
import { isPodOf } from '../facts/ownpod.ts';
import { endMessage } from '../facts/podstate.ts';

/**
 * Sees to it that a VM has the claims of its disks: those that it names, and for the others ones that are made for it. What is there is read
 * from kube-apiserver: the cache may be behind, and holds only claims with our label.
 *
 * @returns `own` where the VM has them all, or needs none; else why not the first
 * @throws Svc3Error Conflict where a claim changed meanwhile
 */
export async function obtainClaims(
  client: KubeClient,
  vm: Vm,
  effective: EffectiveSettings,
  settings: Pick<VmSettings, 'storageClassName'>,
): Promise<ClaimHolder> {
  const disks = claimsFor(vm, effective);
  const twice = disks.find(({ name }, i) => disks.findIndex((other) => other.name === name) < i);
  if (twice !== undefined) {
    const message = `${twice.field}.claimName: claim ${twice.name} is another disk of this VM`;
    return { kind: 'foreign', message };
  }
  for (const disk of disks) {
    const holder = disk.isNamed
      ? await takeNamed(client, vm, disk)
      : await makeOwn(client, vm, disk, settings);
    if (holder.kind !== 'own') return holder;
  }
  return { kind: 'own' };
}

/** What is there is looked at before one is made: a quota that is used up, as by this very claim, refuses any that is sent, whether it is there or not. */
async function makeOwn(
  client: KubeClient,
  vm: Vm,
  disk: DiskClaim,
  settings: Pick<VmSettings, 'storageClassName'>,
): Promise<ClaimHolder> {
  const there = (await currentClaim(client, vm, disk)) ?? (await madeNow(client, vm, disk, settings));
  const holder = holderOfOwn(there, vm, disk.field);
  const isFirst = holder.kind === 'own' && disk.field === bootField && vm.status?.effective === undefined;
  if (isFirst) await noteFirstImage(client, there, disk);
  // The one that a VM boots from grows at once, when its size changes.
  const isToGrow = holder.kind === 'own' && disk.field !== bootField;
  const storage = isToGrow ? grownStorage(vm, there, disk) : undefined;
  if (storage !== undefined) await grow(client, there, disk, storage);
  return holder;
}

/**
 * Has the claim say on which image the disk is made by the first pod that the VM's status tells of. What was noted with the claim was meant for one that never
 * came to be, as where a quota refused it. Who refuses that holds up no VM.
 *
 * @throws Svc3Error Conflict where the claim changed meanwhile: it may have a volume by now
 */
async function noteFirstImage(
  client: KubeClient,
  claim: PersistentVolumeClaim,
  { image }: DiskClaim,
): Promise<void> {
  const images = image === undefined ? [] : imagesOfFirstPod(claim, image);
  if (images.length === 0 || isDeepStrictEqual(images, diskImagesOf(claim))) return;
  const { name, namespace, uid, resourceVersion } = claim.metadata;
  const noted = { [annotations.diskImage]: images.join() };
  const body = { metadata: { uid, resourceVersion, annotations: noted } };
  try {
    await client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
  } catch (error) {
    if (!isRefusal(error)) throw error;
  }
}

/** The claim that is made now, or was by somebody else in the same moment. */
async function madeNow(
  client: KubeClient,
  vm: Vm,
  disk: DiskClaim,
  settings: Pick<VmSettings, 'storageClassName'>,
): Promise<PersistentVolumeClaim> {
  try {
    const made = await client.create(persistentVolumeClaims, buildClaim(vm, disk, settings));
    await deleteIfGone(client, vm, made);
    return made;
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  }
  const there = await currentClaim(client, vm, disk);
  if (there === undefined) throw new Svc3Error('Conflict', `claim ${disk.name} went away between two looks`);
  return there;
}

/**
 * A deletion that kube-apiserver had begun before the finalizer was there takes the VM away at once, and nobody deletes what is made for it after that.
 *
 * @param made - just now, so that it holds nothing
 * @throws Conflict where the VM is gone: the claim is gone as well then
 */
async function deleteIfGone(
  client: KubeClient,
  vm: Vm,
  { metadata: made }: PersistentVolumeClaim,
): Promise<void> {
  const { name, namespace, uid } = vm.metadata;
  const now = await ignoring(['NotFound'], client.get(vms, name, namespace));
  if (now?.metadata.uid === uid) return;
  const key = { name: made.name, namespace };
  await ignoring(['NotFound'], client.delete(persistentVolumeClaims, key, { uid: made.uid }));
  throw new Svc3Error('Conflict', `VM ${namespace}/${name} went away while its claim was made`);
}

/**
 * A data disk grows when its VM gets another pod. Of a VM that has one the claim has been asked for more before (`ClaimGrowth`). A class that lets no
 * claim grow says so, and the VM is not started with less.
 */
async function grow(
  client: KubeClient,
  { metadata }: PersistentVolumeClaim,
  disk: DiskClaim,
  storage: string,
): Promise<void> {
  const { name, namespace, uid, resourceVersion } = metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage } } } };
  try {
    await client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new Svc3Error(error.reason, dataRefusal(disk, messageOf(error)));
  }
}

async function takeNamed(client: KubeClient, vm: Vm, disk: DiskClaim): Promise<ClaimHolder> {
  const claim = await currentClaim(client, vm, disk);
  if (claim === undefined)
    return { kind: 'missing', message: `${disk.field}.claimName: claim ${disk.name} does not exist` };
  const holder = holderOfNamed(claim, vm, disk.field);
  if (holder.kind !== 'free') return holder;
  const user = holder.last === undefined ? undefined : await userOf(client, claim, holder.last);
  if (user !== undefined)
    return { kind: 'foreign', message: `${disk.field}.claimName: claim ${disk.name} is the disk of ${user}` };
  const { name, namespace, uid, resourceVersion } = claim.metadata;
  // With resourceVersion: of two VMs that name it one gets it. The image that its disk was made on stays noted, whatever the VM has: it runs only on that one.
  const body = { metadata: { uid, resourceVersion, ...marksOf(vm) } };
  await client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
  return { kind: 'own' };
}

/**
 * Who still has the claim: that VM, unless it has given it up, or where it was deleted its pod, which on a node that does not answer may
 * run on for long.
 */
async function userOf(
  client: KubeClient,
  { metadata }: PersistentVolumeClaim,
  last: { readonly name: string; readonly uid: string },
): Promise<string | undefined> {
  const { namespace } = metadata;
  const { name, uid } = last;
  const vm = await ignoring(['NotFound'], client.get(vms, name, namespace));
  if (vm?.metadata.uid === uid)
    return claimsOf(vm).some((disk) => disk.name === metadata.name) ? `VM ${name}` : undefined;
  const pod = await ignoring(['NotFound'], client.get(pods, podNameOf(name), namespace));
  const isItsPod = pod !== undefined && isPodOf(pod, { metadata: last }) && endMessage(pod) === undefined;
  return isItsPod
    ? `VM ${name}, which was deleted and whose pod ${pod.metadata.name} has not ended`
    : undefined;
}

function currentClaim(
  client: KubeClient,
  { metadata: { namespace } }: Vm,
  { name }: Pick<DiskClaim, 'name'>,
): Promise<PersistentVolumeClaim | undefined> {
  return ignoring(['NotFound'], client.get(persistentVolumeClaims, name, namespace));
}

/**
 * What becomes of the disks of a VM that goes: deleted where that is wanted, else left to nobody.
 *
 * @param keepsBoot - the one that it boots from stays whatever is said of it
 * @returns the claims that stay, with the image that their disks were made on, as far as that is known
 * @throws Svc3Error of a claim that may not be deleted, with what can be done (`isRefusal`)
 */
export async function leaveClaims(client: KubeClient, vm: Vm, keepsBoot = false): Promise<DiskClaim[]> {
  const goes = ({ field, goesWithVm }: DiskClaim) => goesWithVm && !(keepsBoot && field === bootField);
  const left = await Promise.all(claimsOf(vm).map((disk) => leaveClaim(client, vm, disk, goes(disk))));
  return left.filter((disk) => disk !== undefined);
}

/**
 * Has the claim say on which image its disk was made, where it does not. Who refuses that holds up no deletion.
 *
 * @returns what it is known to be, in words; undefined where it is not
 */
async function noteImages(
  client: KubeClient,
  vm: Vm,
  claim: PersistentVolumeClaim,
): Promise<string | undefined> {
  const images = imagesToNote(vm, claim);
  if (images.length > diskImagesOf(claim).length) await writeImages(client, claim, images);
  return images.length === 0 ? undefined : images.join(' or ');
}

async function writeImages(
  client: KubeClient,
  { metadata: { name, namespace, uid } }: PersistentVolumeClaim,
  images: readonly string[],
): Promise<void> {
  const body = { metadata: { uid, annotations: { [annotations.diskImage]: images.join() } } };
  try {
    await client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
  } catch (error) {
    if (!isRefusal(error) && !isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
  }
}

async function leaveClaim(
  client: KubeClient,
  vm: Vm,
  disk: DiskClaim,
  goes: boolean,
): Promise<DiskClaim | undefined> {
  const claim = await currentClaim(client, vm, disk);
  if (claim === undefined || !isDiskOf(claim, vm)) return undefined;
  if (!goes) return disk.field === bootField ? { ...disk, image: await noteImages(client, vm, claim) } : disk;
  const { name, namespace, uid } = claim.metadata;
  try {
    await client.delete(persistentVolumeClaims, { name, namespace }, { uid });
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Conflict')) return undefined;
    if (!isRefusal(error)) throw error;
    const wayOut = goesAsNeverRun(vm)
      ? `take annotation ${annotations.neverRan} off the VM`
      : `set ${disk.field}.whenDeleted to Retain`;
    const message = `claim ${name} may not be deleted: ${messageOf(error)}; allow it, or ${wayOut}`;
    throw new Svc3Error(error.reason, message, { cause: error });
  }
  return undefined;
}
