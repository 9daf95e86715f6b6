import type { Pod } from '../api/core.ts';
import { finalizer } from '../api/meta.ts';
import { isOwnedBy, isTerminating } from '../api/owner.ts';
import type { Vm } from '../api/vm.ts';
import { pullSecretAnnotation } from './names.ts';
import { endMessage, pullFailure, unschedulableMessage } from './podstate.ts';
import { deadlineMessage, startDeadline } from './startdeadline.ts';
import { nodeOf } from '../placement/podfacts.ts';

/** What a pass sees of the cluster: caches only. */
export interface Observed {
  readonly vm: Vm;
  /** The pod of the VM's pod name, whoever made it. */
  readonly pod: Pod | undefined;
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
  /** The VM did not boot in time. */
  | { readonly kind: 'expire'; readonly message: string }
  /** There is no pod: resolve, place, create. */
  | { readonly kind: 'deploy' }
  /** Somebody else's pod is in the way. */
  | { readonly kind: 'conflict'; readonly message: string }
  /** The pod is on its way out; its node is free when it is gone. */
  | { readonly kind: 'wait'; readonly pod: Pod }
  /** The pod will never run where it is: delete this very pod, then deploy anew. */
  | {
      readonly kind: 'replace';
      readonly pod: Pod;
      readonly reason: ReplaceReason;
      readonly node: string | undefined;
      readonly message: string;
    }
  /** The pod lives: say what it does. */
  | { readonly kind: 'report'; readonly pod: Pod };

/** Deletion first, then the deadline, then the pod. */
export function decide(observed: Observed): Plan {
  const { vm, pod, now } = observed;
  if (vm.metadata.deletionTimestamp !== undefined) return { kind: 'finalize', finalizers: ourFinalizers(vm) };
  const deadline = startDeadline(vm);
  if (deadline !== undefined && now >= deadline) return { kind: 'expire', message: deadlineMessage(vm) };
  if (pod === undefined) return { kind: 'deploy' };
  if (!isOwnedBy(pod, vm)) {
    // The pod of a VM of the same name that was deleted goes away by itself.
    if (isTerminating(pod)) return { kind: 'wait', pod };
    return {
      kind: 'conflict',
      message: `pod ${pod.metadata.name ?? ''} exists and does not belong to this VM`,
    };
  }
  if (isTerminating(pod)) return { kind: 'wait', pod };
  return replacement(observed, pod) ?? { kind: 'report', pod };
}

function replacement({ pullSecretVersion }: Observed, pod: Pod): Plan | undefined {
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
  // The kubelet pauses up to five minutes between pulls, and a pod cannot name a Secret it was made without.
  if (failure !== undefined && pullSecretVersion !== undefined && known !== pullSecretVersion) {
    return { kind: 'replace', pod, reason: 'PullRetry', node, message: failure };
  }
  return undefined;
}

/** The finalizers without ours; undefined where ours is not among them. */
function ourFinalizers(vm: Vm): readonly string[] | undefined {
  const all = vm.metadata.finalizers ?? [];
  return all.includes(finalizer) ? all.filter((one) => one !== finalizer) : undefined;
}
