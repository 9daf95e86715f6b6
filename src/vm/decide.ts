import type { Node, PersistentVolumeClaim, Pod } from '../api/core.ts';
import { finalizer } from '../api/meta.ts';
import type { Vm } from '../api/vm.ts';
import type { Unbelieved } from './adoption.ts';
import { pullSecretAnnotation } from './names.ts';
import { endMessage, isOwnedBy, isTerminating, pullFailure, unschedulableMessage } from './podstate.ts';
import type { Resolved } from './resolve.ts';
import { hasStarted, startedInPod } from './started.ts';
import { deadlineMessage, startDeadline } from './startdeadline.ts';
import { nodeOf } from '../placement/podfacts.ts';

/** What a pass sees of the cluster: caches only. */
export interface Observed {
  readonly vm: Vm;
  /** The pod of the VM's pod name, whoever made it. */
  readonly pod: Pod | undefined;
  /** The settings of the VM with this pod; undefined without one, and where it is not the VM's. */
  readonly settings: Resolved | Unbelieved | undefined;
  /** The pod's node. */
  readonly node: Node | undefined;
  /** The claim of the VM's pod name, whoever made it. */
  readonly claim: PersistentVolumeClaim | undefined;
  /** resourceVersion of the namespace's pull Secret; undefined where there is none. */
  readonly pullSecretVersion: string | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
}

export type ReplaceReason = 'RejectedByNode' | 'Unschedulable' | 'PullRetry';

/** What a pass does about it. */
export type Plan =
  /** The VM is being deleted: let go of it. Its pod goes with it by its owner reference. */
  | { readonly kind: 'finalize'; readonly finalizers: readonly string[] | undefined }
  /** As far as the caches know, the VM did not boot in time: to be proven, else `otherwise`. */
  | { readonly kind: 'expire'; readonly message: string; readonly otherwise: PodPlan }
  | PodPlan;

/** What a pass does about the pod of a VM. */
export type PodPlan =
  /** There is no pod: resolve, place, create. */
  | { readonly kind: 'deploy' }
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
  /** The pod lives: say what it does. */
  | { readonly kind: 'report'; readonly pod: Pod; readonly settings: Resolved };

/** Deletion first, then the pod; a deadline that is over only where nothing seen says that the guest has run. */
export function decide(observed: Observed): Plan {
  const { vm, now } = observed;
  if (vm.metadata.deletionTimestamp !== undefined) return { kind: 'finalize', finalizers: ourFinalizers(vm) };
  const plan = decidePod(observed);
  const deadline = startDeadline(vm);
  const isOver = deadline !== undefined && now >= deadline;
  if (!isOver || hasStarted({ ...observed, runner: undefined }) === 'yes') return plan;
  return { kind: 'expire', message: deadlineMessage(vm), otherwise: plan };
}

function decidePod(observed: Observed): PodPlan {
  const { vm, pod, settings } = observed;
  if (pod === undefined) return { kind: 'deploy' };
  if (!isOwnedBy(pod, vm)) {
    // The pod of a VM of the same name that was deleted goes away by itself.
    if (isTerminating(pod)) return { kind: 'wait', pod, settings: undefined };
    return {
      kind: 'conflict',
      message: `pod ${pod.metadata.name ?? ''} exists and does not belong to this VM`,
    };
  }
  if (isTerminating(pod)) {
    return { kind: 'wait', pod, settings: settings?.kind === 'resolved' ? settings : undefined };
  }
  const replaced = replacement(observed, pod);
  if (replaced !== undefined) return replaced;
  if (settings?.kind !== 'resolved') return { kind: 'conflict', message: settings?.message ?? '' };
  return { kind: 'report', pod, settings };
}

function replacement({ pullSecretVersion }: Observed, pod: Pod): PodPlan | undefined {
  const node = nodeOf(pod);
  const ended = endMessage(pod);
  if (ended !== undefined) return { kind: 'replace', pod, reason: 'RejectedByNode', node, message: ended };
  const unschedulable = unschedulableMessage(pod);
  // An unpinned pod is kube-scheduler's to wait with; a pinned one could be elsewhere already.
  if (unschedulable !== undefined && node !== undefined) {
    return { kind: 'replace', pod, reason: 'Unschedulable', node, message: unschedulable };
  }
  const failure = pullFailure(pod);
  const known = pod.metadata.annotations?.[pullSecretAnnotation];
  // The kubelet pauses up to five minutes between pulls, and a pod cannot name a Secret it was made without. A pod that
  // pulls again, for a runner that ended or a node that rebooted, keeps the disk of its guest.
  const hasDisk = startedInPod(pod) !== 'no';
  if (failure !== undefined && !hasDisk && pullSecretVersion !== undefined && known !== pullSecretVersion) {
    return { kind: 'replace', pod, reason: 'PullRetry', node, message: failure };
  }
  return undefined;
}

/** The finalizers without ours; undefined where ours is not among them. */
function ourFinalizers(vm: Vm): readonly string[] | undefined {
  const all = vm.metadata.finalizers ?? [];
  return all.includes(finalizer) ? all.filter((one) => one !== finalizer) : undefined;
}
