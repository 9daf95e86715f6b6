import type { Node, PersistentVolumeClaim, Pod } from '../../api/core.ts';
import { annotations } from '../../api/meta.ts';
import { isTerminating } from '../../api/owner.ts';
import type { Vm } from '../../api/vm.ts';
import { needsAnotherPod } from '../../api/vmchanges.ts';
import type { Contradicted } from './resolve/adoption.ts';
import { isPlacementField } from './resolve/changes.ts';
import { requestsMedium } from './resolve/livesettings.ts';
import { hasFinalizer } from '../../api/finalizer.ts';
import { isPersistent } from './facts/claim.ts';
import { isAsleep, keepsSettings } from './facts/hibernation.ts';
import { lacksKvmGroup } from './facts/kvm.ts';
import { isPodOf } from './facts/ownpod.ts';
import { endMessage, hasMedium } from './facts/podstate.ts';
import { outdatedPull, type PullTerms } from './facts/pullterms.ts';
import type { Resolved } from './resolve/resolve.ts';
import { isClaimed, isOfPool, isStandby, isUnclaimed } from './facts/standby.ts';
import { hasStarted, startedInPod } from './facts/started.ts';
import { deadlineMessage, startDeadline } from './facts/startdeadline.ts';
import { turnedAway } from './facts/unbound.ts';
import { type Preparation, preparation } from './facts/unprepared.ts';
import { nodeOf, pinnedNode } from '../../placement/podfacts.ts';
import type { Unprepared } from '../startwaits.ts';

/** What a pass sees of the cluster: caches only. */
export interface Observed extends PullTerms {
  readonly vm: Vm;
  /** The pod of the VM's pod name, whoever made it. */
  readonly pod: Pod | undefined;
  /** Another pod that is the VM's: an order to make it was carried out after nobody waited for its answer any more. */
  readonly surplus: Pod | undefined;
  /** The settings of the VM with this pod; undefined without one, and where it is not the VM's. */
  readonly settings: Resolved | Contradicted | undefined;
  /** The pod's node. */
  readonly node: Node | undefined;
  /** The claim that has the VM's disk, or would, whoever made it. */
  readonly claim: PersistentVolumeClaim | undefined;
  /** Whether the node of the pod does not answer: nobody there ends the pod. */
  readonly isNodeLost: boolean;
  /** How long the node has not prepared the pod; undefined where it has, or the pod is on none. */
  readonly unprepared: Unprepared | undefined;
  /** Images that the disk is still being saved for; only looked at where the VM is being deleted. */
  readonly unsaved: readonly string[];
  /** Whether a revert that is asked for waits for images of the disk, as far as the cache knows of them. */
  readonly isSavedFirst: boolean;
  /** How long a deletion or a revert waits for Images, in milliseconds. */
  readonly saveWaitMs: number;
  /** Milliseconds since 1970. */
  readonly now: number;
}

export type ReplaceReason =
  | 'RejectedByNode'
  | 'Unschedulable'
  | 'PodNotPrepared'
  | 'PullRetry'
  | 'Changed'
  | 'Restarting'
  | 'Unreached';

/** What a pass does about it. */
export type Plan =
  /**
   * The VM is being deleted and has no guest any more: let go of it. What is left of it goes by its owner reference. `endsAt`: how long whoever wants its
   * disk saved may wait, in milliseconds since 1970; undefined: they are not to get it.
   */
  | { readonly kind: 'finalize'; readonly isHeld: boolean; readonly endsAt: number | undefined }
  /** The VM is being deleted and its disk is still being saved. `leftMs`: how much longer it is waited for. */
  | {
      readonly kind: 'hold';
      readonly pod: Pod;
      readonly settings: Resolved | undefined;
      readonly message: string;
      readonly leftMs: number;
    }
  /**
   * The VM is being deleted: its guest may end, for all that the caches and our clock say. `endsAt`: until when to wait for Images that kube-apiserver
   * knows; undefined: for none.
   */
  | {
      readonly kind: 'end';
      readonly pod: Pod;
      readonly settings: Resolved | undefined;
      readonly endsAt: number | undefined;
    }
  /** The VM is being deleted and its guest is shutting down: the pod's end wakes it. */
  | { readonly kind: 'ending'; readonly pod: Pod; readonly settings: Resolved | undefined }
  /** As far as the caches know, the VM did not boot in time: to be proven, else `otherwise`. */
  | { readonly kind: 'expire'; readonly message: string; readonly otherwise: PodPlan }
  | PodPlan;

/** What a pass does about the pod of a VM. */
export type PodPlan =
  /** There is no pod: resolve, place, create. */
  | { readonly kind: 'deploy' }
  /** There is no pod, and none is needed: the guest's memory is on its claim. */
  | { readonly kind: 'asleep' }
  /** The same, and nothing has started in the pod: delete this very one. */
  | { readonly kind: 'release'; readonly pod: Pod }
  /** Somebody else's pod is in the way. */
  | { readonly kind: 'conflict'; readonly message: string }
  /** The pod is on its way out; its node is free when it is gone. */
  | { readonly kind: 'wait'; readonly pod: Pod; readonly settings: Resolved | undefined }
  /** The pod will never run where it is: delete this very pod, then deploy anew. */
  | {
      readonly kind: 'replace';
      readonly pod: Pod;
      readonly reason: ReplaceReason;
      readonly node: string | undefined;
      readonly message: string;
    }
  /** The waiting guest of this pod is to become the VM's. */
  | { readonly kind: 'take'; readonly pod: Pod }
  /** The pod is the VM's; its runner has not been told yet. */
  | { readonly kind: 'claim'; readonly pod: Pod; readonly settings: Resolved }
  /**
   * The pod lives: say what it does. `lookAgainMs`: after so many milliseconds it is to be elsewhere, or something else is to be said of it. `elsewhere`: why
   * it is to be on another node, where one takes it.
   */
  | {
      readonly kind: 'report';
      readonly pod: Pod;
      readonly settings: Resolved;
      readonly lookAgainMs?: number | undefined;
      readonly elsewhere?: string | undefined;
    };

/** Deletion first, then the pod; a deadline that is over only where nothing seen says that the guest has run. */
export function decide(observed: Observed): Plan {
  const { vm, now } = observed;
  if (vm.metadata.deletionTimestamp !== undefined) return deletion(observed, vm.metadata.deletionTimestamp);
  const plan = decidePod(observed);
  const deadline = startDeadline(vm);
  const isOver = deadline !== undefined && now >= deadline;
  if (!isOver || hasStarted({ ...observed, runner: undefined }) === 'yes') return plan;
  return { kind: 'expire', message: deadlineMessage(vm), otherwise: plan };
}

function decidePod(observed: Observed): PodPlan {
  const { vm, pod, settings } = observed;
  if (pod === undefined) return isAsleep(vm) ? { kind: 'asleep' } : { kind: 'deploy' };
  if (!isPodOf(pod, vm)) {
    // Another VM was first, or the pool has given it up: there are others.
    if (isStandby(pod))
      return isOfPool(pod) && !isTerminating(pod) ? { kind: 'take', pod } : { kind: 'deploy' };
    // A guest that waits has a pod of another name.
    if (isUnclaimed(vm)) return { kind: 'deploy' };
    // The pod of a VM of the same name that was deleted goes away by itself.
    if (isTerminating(pod)) return { kind: 'wait', pod, settings: undefined };
    return {
      kind: 'conflict',
      message: `pod ${pod.metadata.name} exists and does not belong to this VM`,
    };
  }
  if (isTerminating(pod))
    return { kind: 'wait', pod, settings: settings?.kind === 'resolved' ? settings : undefined };
  // Where something has started, its runner says what became of the memory.
  if (isAsleep(vm) && !observed.isNodeLost && startedInPod(pod) === 'no') return { kind: 'release', pod };
  const replaced = replacement(pod, observed.now) ?? pullRetry(observed, pod) ?? groupChange(observed, pod);
  if (replaced !== undefined) return replaced;
  if (settings?.kind !== 'resolved') return { kind: 'conflict', message: settings?.message ?? '' };
  const outdated = observed.isNodeLost ? [] : changedBeforeStart(observed, pod, settings);
  if (outdated.length > 0) {
    const message = `nothing has started in pod ${pod.metadata.name}: the VM gets another one, with another ${outdated.map((field) => `spec.${field}`).join(', ')}`;
    return { kind: 'replace', pod, reason: 'Changed', node: undefined, message };
  }
  if (!isClaimed(vm, pod)) return { kind: 'claim', pod, settings };
  const { leftMs, elsewhere } = awaitedPreparation(observed, pod);
  const lookAgainMs = turnedAway(pod, observed.now)?.leftMs ?? leftMs;
  return { kind: 'report', pod, settings, lookAgainMs, elsewhere };
}

/** On a node that does not answer nobody knows what it has prepared. */
function awaitedPreparation({ unprepared, isNodeLost }: Observed, pod: Pod): Preparation {
  return unprepared === undefined || isNodeLost ? {} : preparation(pod, unprepared);
}

/**
 * Fields of spec that the pod can never get, where it has no guest that the change would have to wait for: of a node that does not answer
 * nobody knows that.
 */
function changedBeforeStart(
  { vm, isSavedFirst }: Pick<Observed, 'vm' | 'isSavedFirst'>,
  pod: Pod,
  { effective, waiting = [] }: Resolved,
): readonly string[] {
  // It waits for no start of a guest: where a runner runs, that empties the drive.
  const isToBeEmptied = hasMedium(pod) && !requestsMedium(vm);
  if ((waiting.length === 0 && !isToBeEmptied) || startedInPod(pod) !== 'no') return [];
  // Only a pod that is on a node is resized there.
  const isReplaced = { isPersistent: isPersistent(effective) || pod.spec.nodeName === undefined };
  const considered = keepsSettings(vm, isSavedFirst) ? waiting.filter(isPlacementField) : waiting;
  const outdated = considered.filter((field) => needsAnotherPod(field, isReplaced));
  return isToBeEmptied ? [...outdated, 'iso'] : outdated;
}

function replacement(pod: Pod, now: number): PodPlan | undefined {
  const node = nodeOf(pod);
  const ended = endMessage(pod);
  if (ended !== undefined) return { kind: 'replace', pod, reason: 'RejectedByNode', node, message: ended };
  const away = turnedAway(pod, now);
  if (away?.leftMs === 0)
    return { kind: 'replace', pod, reason: 'Unschedulable', node, message: away.message };
  return undefined;
}

/** On a node that does not answer nobody knows whether the pod has a guest. */
function pullRetry(observed: Observed, pod: Pod): PodPlan | undefined {
  const message = observed.isNodeLost ? undefined : outdatedPull(pod, observed);
  return message === undefined
    ? undefined
    : { kind: 'replace', pod, reason: 'PullRetry', node: nodeOf(pod), message };
}

/**
 * An unpinned pod has the groups that `/dev/kvm` has on the nodes of its time: on one that came later it may have another. One that is pinned has been
 * made with the group of its node.
 */
function groupChange({ node, isNodeLost }: Observed, pod: Pod): PodPlan | undefined {
  const isPinned = pinnedNode(pod) !== undefined;
  if (isPinned || isNodeLost || startedInPod(pod) !== 'no' || !lacksKvmGroup(pod, node)) return undefined;
  const message = `pod ${pod.metadata.name} is not in the group of /dev/kvm on node ${pod.spec.nodeName}: the VM gets another one`;
  return { kind: 'replace', pod, reason: 'Changed', node: undefined, message };
}

/** First the disk is saved for those who asked before, then the guest ends, then the VM is gone. */
function deletion(
  { vm, pod, settings: known, isNodeLost, unsaved, saveWaitMs, now }: Observed,
  since: string,
): Plan {
  const isHeld = hasFinalizer(vm);
  const isUnwanted = vm.metadata.annotations?.[annotations.deleteWithoutSaving] === 'true';
  const endsAt = isUnwanted ? undefined : Date.parse(since) + saveWaitMs;
  const finalize = { kind: 'finalize', isHeld, endsAt } as const;
  if (!isHeld || pod === undefined || !isPodOf(pod, vm)) return finalize;
  const settings = known?.kind === 'resolved' ? known : undefined;
  // On a lost node nobody ends it: the VM goes, and its pod stays in the way of the next one of its name.
  if (isTerminating(pod)) return isNodeLost ? finalize : { kind: 'ending', pod, settings };
  if (endsAt === undefined || endMessage(pod) !== undefined)
    return { kind: 'end', pod, settings, endsAt: undefined };
  return unsaved.length > 0 && now < endsAt
    ? { kind: 'hold', pod, settings, message: savingMessage(unsaved, endsAt), leftMs: endsAt - now }
    : { kind: 'end', pod, settings, endsAt };
}

/** Says what a deletion waits for, and how long at most. */
export function savingMessage(images: readonly string[], endsAt: number): string {
  return `the VM is being deleted; it waits ${untilSaved(images, endsAt)}`;
}

/** Says until when somebody waits for Images, at most until that time, in milliseconds since 1970. */
export function untilSaved(images: readonly string[], endsAt: number): string {
  const shown = images.slice(0, 10).join(', ');
  const more = images.length > 10 ? ` and ${images.length - 10} more` : '';
  const what = images.length === 1 ? `image ${shown} is` : `images ${shown}${more} are`;
  const until = `${new Date(endsAt).toISOString().slice(0, 19)}Z`;
  return `until ${what} saved, at most until ${until}`;
}
