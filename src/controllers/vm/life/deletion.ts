import type { Image } from '../../../api/image.ts';
import { pods, vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { bootField, goesAsNeverRun, goesWithVm, mayKeepDisk } from '../../../api/whendeleted.ts';
import { removeFinalizer } from '../../../controller/finalizer.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { msUntil } from '../../../controller/servedtime.ts';
import { resourcePath } from '../../../kube/path.ts';
import type { EventRecorder, KubeClient } from '../../../kube/types.ts';
import { unsavedImages } from '../../image/saves.ts';
import { type Plan, savingMessage } from '../decide.ts';
import type { VmExpectations } from '../expectations.ts';
import { podNamesOf } from '../names.ts';
import type { DiskClaim } from '../facts/claim.ts';
import { mayHaveBeenSuspended } from '../facts/hibernation.ts';
import { isPodOf } from '../facts/ownpod.ts';
import { leaveClaims } from '../pod/diskclaim.ts';
import { typed } from '../typed.ts';
import type { LiveList } from '../../../controller/livelists.ts';

export interface DeletionParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly expectations: VmExpectations;
  /** Images of a namespace as kube-apiserver has them now. */
  readonly liveImages: LiveList<Image>;
  /** Wall clock, for deadlines. */
  now(): Date;
}

type EndPlan = Extract<Plan, { kind: 'end' }>;
/** What a VM that is being deleted still waits for. */
export type HoldPlan = Extract<Plan, { kind: 'hold' }>;

/** What is seen of a VM that is being deleted and has no guest. */
export interface Leaving {
  readonly hasFinalizer: boolean;
  /** The cache shows its own pod: that of a lost node. */
  readonly hasPod: boolean;
  /** Images that the disk is still to be saved for. */
  readonly unsaved: readonly string[];
  /** Until when they may wait for it, in milliseconds since 1970; undefined: they are not to get it. */
  readonly endsAt: number | undefined;
}

/**
 * Lets go of a VM that is being deleted and has no guest, as far as the cache knows; its claim is deleted or left before that.
 * The pod of a lost node follows by its owner reference, and so would a pod that the cache does not show yet, made a
 * moment ago by the previous leader: its guest has to end, and its disk may be wanted. A claim that is still to be saved stays whatever is said of
 * it: nothing is saved without a pod, and nobody else has what is on it.
 *
 * @returns whether the VM is gone, for all that concerns us
 */
export async function letGo(parts: DeletionParts, vm: Vm, seen: Leaving): Promise<boolean> {
  const { client, recorder, expectations } = parts;
  if (!seen.hasFinalizer) return true;
  if (!seen.hasPod && (await hasPodNow(client, vm))) return false;
  const unsaved = await unsavedOf(parts, vm, seen);
  const isKept = isAtStake(vm, seen) && unsaved.length > 0 && (await leftMs(parts, vm, seen.endsAt)) > 0;
  const kept = await leaveClaims(client, vm, isKept);
  // Once that has come through: a claim that may not be deleted is tried again and again.
  tellAbandoned(recorder, vm, unsaved);
  for (const claim of kept) tellKept(recorder, vm, claim);
  await removeFinalizer(client, vms, vm, { expected: expectations.vms, key: vm.metadata.uid });
  return true;
}

/** Whether a disk would be deleted that somebody may still wait for. One on which nothing has ever run holds nothing. */
function isAtStake(vm: Vm, { endsAt }: Leaving): boolean {
  return endsAt !== undefined && mayKeepDisk(vm) && goesWithVm(vm) && !goesAsNeverRun(vm);
}

/** The cache may not know yet who asked for the disk, and kube-apiserver does. */
async function unsavedOf(
  { liveImages }: Pick<DeletionParts, 'liveImages'>,
  vm: Vm,
  seen: Leaving,
): Promise<readonly string[]> {
  if (seen.unsaved.length > 0 || !isAtStake(vm, seen)) return seen.unsaved;
  return unsavedImages(vm, await liveImages(vm.metadata.namespace));
}

/** How much longer those who want the disk of a VM that is being deleted may wait: our clock alone ends no save that is under way. */
function leftMs(
  { client, now }: Pick<DeletionParts, 'client' | 'now'>,
  { metadata: { name, namespace } }: Vm,
  endsAt = 0,
): Promise<number> {
  return msUntil(client, resourcePath(vms, { name, namespace }), { endsAt, now: now().getTime() });
}

function tellKept(recorder: EventRecorder, vm: Vm, { name, field, image }: DiskClaim): void {
  const which = field === bootField ? 'the disk of the VM' : field;
  const onImage = image === undefined ? '' : ` and image ${image}`;
  const message = `claim ${name} keeps ${which}${asLeft(vm)}; a new VM with ${field}.claimName ${name}${onImage} goes on with it`;
  recorder.event(typed(vm), { type: 'Normal', reason: 'DiskKept', message });
}

/** In which state a disk stays, where it is not as after a shutdown. Where there was a pod, its guest was shut down before that ended. */
function asLeft({ status }: Vm): string {
  if (status?.suspendedTo === 'Disk')
    return ' as after a power cut, since the VM was suspended on its disk and its memory is of no other VM';
  return status?.runner === undefined && mayHaveBeenSuspended(status)
    ? ', which may be as after a power cut: its guest may have been suspended when its pod ended, and that memory is of no other VM'
    : '';
}

function tellAbandoned(recorder: EventRecorder, vm: Vm, images: readonly string[]): void {
  if (images.length === 0) return;
  const message = `the VM is deleted although its disk was not saved for ${images.join(', ')}`;
  recorder.event(typed(vm), { type: 'Warning', reason: 'SaveAbandoned', message });
}

async function hasPodNow(client: KubeClient, vm: Vm): Promise<boolean> {
  const { namespace } = vm.metadata;
  const now = podNamesOf(vm).map((name) => ignoring(['NotFound'], client.get(pods, name, namespace)));
  return (await Promise.all(now)).some((pod) => pod !== undefined && isPodOf(pod, vm));
}

/**
 * What the end of a guest still waits for: the cache may not know yet who asked for the disk before its VM was deleted, and kube-apiserver
 * does; and our clock may be ahead of the one that counts.
 */
export async function stillWanted(
  parts: Pick<DeletionParts, 'client' | 'expectations' | 'liveImages' | 'now'>,
  vm: Vm,
  { pod, settings, endsAt }: EndPlan,
): Promise<HoldPlan | undefined> {
  const { expectations, liveImages } = parts;
  if (endsAt === undefined || expectations.isDeleted(pod)) return undefined;
  const unsaved = unsavedImages(vm, await liveImages(pod.metadata.namespace), pod);
  if (unsaved.length === 0) return undefined;
  const left = await leftMs(parts, vm, endsAt);
  if (left <= 0) return undefined;
  return { kind: 'hold', pod, settings, message: savingMessage(unsaved, endsAt), leftMs: left };
}

/** Ends the guest of a VM that is being deleted, and whose disk nobody waits for (`stillWanted`). */
export async function endGuest(
  { client, expectations }: Pick<DeletionParts, 'client' | 'expectations'>,
  { pod }: EndPlan,
): Promise<void> {
  if (expectations.isDeleted(pod)) return;
  const { name, namespace, uid } = pod.metadata;
  await ignoring(['NotFound', 'Conflict'], client.delete(pods, { name, namespace }, { uid }));
  expectations.deletedPod(pod);
}
