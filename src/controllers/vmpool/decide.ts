import type { Node, Pod } from '../../api/core.ts';
import { annotations } from '../../api/meta.ts';
import { isTerminating } from '../../api/owner.ts';
import type { VmPool } from '../../api/vmpool.ts';
import { endMessage, isPodReady, pullFailure, unschedulableMessage } from '../vm/facts/podstate.ts';
import { isOfTemplate, templateDigest } from '../vm/facts/standby.ts';
import { outdatedPull, type PullTerms } from '../vm/facts/pullterms.ts';
import { isUntaken } from '../vm/facts/unbound.ts';
import { isKeptOff, isReserved, isUsable } from '../vm/pool/standbys.ts';

/** A pod of the pool that is no VM's. */
export interface StandbyView {
  readonly pod: Pod;
  /** Undefined: not known, or not bound yet. */
  readonly node: Node | undefined;
  /** A VM has chosen it. */
  readonly isTaken: boolean;
}

export interface ObservedPool extends PullTerms {
  readonly pool: VmPool;
  readonly standbys: readonly StandbyView[];
  /** VMs of the pool, also those that know nothing of it. */
  readonly claimed: number;
  /** Those among them that take none of the guests that wait: they have a pod, or have chosen one. */
  readonly withPod: number;
  /** Digests of what its guests are to be made from, as far as that was found out last; undefined: nobody knows that of any. */
  readonly revisions: readonly string[] | undefined;
  /** Whether it is known now what the next guest is made from, or is being asked of a registry. */
  readonly resolution: 'resolved' | 'asking' | 'unresolved';
  /** A pod that was the pool's is on its way out, on a node that answers. */
  readonly isLeaving: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** How long a guest may take until it waits, in milliseconds. */
  readonly startMs: number;
}

export interface PoolPlan {
  readonly delete: readonly { readonly pod: Pod; readonly why: string; readonly isFailure: boolean }[];
  readonly create: number;
  /** Guests that VMs can get. */
  readonly idle: number;
  readonly preparing: number;
  /** Pods that stay: these, and those that wait where no VM is to begin until others take their place. */
  readonly kept: number;
  /** The kubelet's words where it cannot pull the image of one of those. */
  readonly unpulled: string | undefined;
  /** Fewer than are to wait, since there may be no more. */
  readonly isFull: boolean;
  /** Outdated guests of which one may make way where there turns out to be no room for one more, the one that is worth least first. */
  readonly spares: readonly Pod[];
  /** Until the first guest that boots has taken too long, in milliseconds. */
  readonly lookAgainMs: number | undefined;
}

type Judged = StandbyView & {
  readonly isIdle: boolean;
  readonly isCurrent: boolean;
  /** A taint of its node keeps VMs away from it, perhaps only for a moment. */
  readonly isKeptOff: boolean;
};

/** Which pods the pool gives up, and how many it makes. Those that a VM has chosen are none of its business. Pure. */
export function decidePool(observed: ObservedPool): PoolPlan {
  const { pool, standbys, claimed, withPod, revisions, resolution, now, startMs } = observed;
  const template = templateDigest(pool);
  const own = standbys.filter(({ pod, isTaken }) => !isTaken && !isTerminating(pod));
  const doomed: { pod: Pod; why: string; isFailure: boolean }[] = [];
  const kept: Judged[] = [];
  for (const one of own) {
    const unpulled = outdatedPull(one.pod, observed);
    const failure = unpulled === undefined ? failureOf(one, now, startMs) : undefined;
    const stale = isOfTemplate(one.pod, template) ? undefined : 'the template has changed';
    const why = failure ?? unpulled ?? stale ?? nodeProblem(one);
    if (why !== undefined) doomed.push({ pod: one.pod, why, isFailure: failure !== undefined });
    else kept.push(judged(one, revisions));
  }
  const { minIdle, maxSize = Infinity } = pool.spec;
  // VMs are refused nothing: where they came while guests booted, or the bound was lowered, guests make way.
  const most = Math.max(0, Math.min(minIdle, maxSize - withPod));
  const current = kept.filter((one) => one.isCurrent).toSorted(byWorth);
  const outdated = kept.filter((one) => !one.isCurrent).toSorted(byWorth);
  // Where the answer will tell which of them are outdated, none goes for their number before it.
  const isUntold = revisions === undefined && resolution === 'asking';
  const stays = isUntold ? current.length : Math.min(current.length, most);
  for (const { pod } of current.slice(stays)) doomed.push(surplus(pod));
  // One that is outdated, or that no VM gets where it is, waits on until one that is neither can take its place.
  const ready = current.slice(0, stays).filter(({ isIdle }) => isIdle).length;
  const allowed = Math.max(0, most - ready);
  const outdatedStay = outdated.filter(({ isIdle }) => isIdle).slice(0, allowed);
  for (const one of outdated) if (!outdatedStay.includes(one)) doomed.push(outdatedOne(one));
  const missing = Math.max(0, minIdle - stays);
  const room = Math.max(0, maxSize - claimed - stays - outdatedStay.length);
  const spares = stays === ready ? outdatedStay.toReversed() : [];
  // None for one that cannot be made yet.
  const makesRoom = missing > 0 && room === 0 && resolution === 'resolved' ? spares[0] : undefined;
  if (makesRoom !== undefined) doomed.push(outdatedOne(makesRoom));
  const left = [...current.slice(0, stays), ...outdatedStay.filter((one) => one !== makesRoom)];
  const booting = left.filter(({ isIdle }) => !isIdle);
  return {
    delete: doomed,
    create: Math.min(missing, room),
    idle: left.filter((one) => one.isIdle && !one.isKeptOff).length,
    preparing: booting.length,
    kept: left.length,
    unpulled: booting.map(({ pod }) => pullFailure(pod)).find((words) => words !== undefined),
    isFull: missing > room,
    // One at a time: the room of one that goes is free only when it has gone.
    spares: observed.isLeaving ? [] : spares.map(({ pod }) => pod),
    lookAgainMs:
      booting.length === 0
        ? undefined
        : Math.max(1_000, Math.min(...booting.map(({ pod }) => bootsSince(pod))) + startMs - now),
  };
}

function judged(one: StandbyView, revisions: readonly string[] | undefined): Judged {
  const { pod, node } = one;
  const isOff = isKeptOff(pod, node);
  return {
    ...one,
    isIdle: isPodReady(pod),
    isCurrent: !isOff && isCurrent(pod, revisions),
    isKeptOff: isOff,
  };
}

/** Those that wait first, those that VMs can get before others, the oldest before. */
function byWorth(a: Judged, b: Judged): number {
  return (
    Number(b.isIdle) - Number(a.isIdle) ||
    Number(a.isKeptOff) - Number(b.isKeptOff) ||
    createdAt(a.pod) - createdAt(b.pod)
  );
}

const outdatedOne = ({ pod, isKeptOff: isOff }: Judged) => ({
  pod,
  why: isOff ? 'its node has a taint that the pool does not tolerate' : 'it is outdated',
  isFailure: false,
});
const surplus = (pod: Pod) => ({ pod, why: 'fewer are to wait', isFailure: false });

/** While it is not known what a pod would be made from, every pod is as it should be. */
function isCurrent({ metadata }: Pod, revisions: readonly string[] | undefined): boolean {
  return (
    revisions === undefined || revisions.includes(metadata.annotations?.[annotations.poolRevision] ?? '')
  );
}

function createdAt({ metadata: { creationTimestamp } }: Pod): number {
  return creationTimestamp === undefined ? 0 : Date.parse(creationTimestamp);
}

/** One that has waited and starts again, as after the end of its QEMU, has as long as any other. */
function bootsSince(pod: Pod): number {
  const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
  const since = ready?.status === 'False' ? Date.parse(ready.lastTransitionTime ?? '') : NaN;
  return Number.isNaN(since) ? createdAt(pod) : Math.max(createdAt(pod), since);
}

function failureOf({ pod }: StandbyView, now: number, startMs: number): string | undefined {
  // kube-scheduler may be ending others for it; it has as long as any other.
  const ended = endMessage(pod) ?? (isUntaken(pod) ? unschedulableMessage(pod) : undefined);
  if (ended !== undefined) return ended;
  if (isPodReady(pod) || now - bootsSince(pod) < startMs) return undefined;
  return pullFailure(pod) ?? `its guest was not ready after ${startMs / 1000} seconds`;
}

function nodeProblem({ pod, node }: StandbyView): string | undefined {
  const { namespace } = pod.metadata;
  if (pod.spec.nodeName === undefined || isUsable(node, namespace)) return undefined;
  if (node !== undefined && isReserved(node, namespace))
    return `node ${pod.spec.nodeName} is reserved for another namespace`;
  return `node ${pod.spec.nodeName} is cordoned, lost or gone`;
}
