import type { Pod } from '../../../api/core.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import { notScheduled, unschedulableMessage } from './podstate.ts';

/** For so long kube-scheduler may make room for a pod on its node, in milliseconds: what it ends there has its grace period, and may never end. */
const roomMs = 300_000;

/** For so long it may try to get volumes for a pod on its node, in milliseconds: a conflict or a provisioner that starts passes by itself. */
const volumeMs = 30_000;

/** kube-scheduler's words where it could not get a volume for the pod. */
export function volumeMessage(pod: Pod): string | undefined {
  const message = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')?.message;
  return message !== undefined && /\b(persistentvolumeclaims?|pvc|volumebinding)\b/i.test(message)
    ? message
    : undefined;
}

/** Why a pod is on no node yet, as kube-scheduler says, or whoever gates it. */
export function unboundMessage(pod: Pod): string | undefined {
  const { reason, message } = notScheduled(pod) ?? {};
  return message ?? reason;
}

/** Whether kube-scheduler has chosen a node for a pod that it has not bound: it ends pods of lower priority there, or waits for a volume. */
export function isNominated({ status }: Pod): boolean {
  return status?.nominatedNodeName !== undefined && status.nominatedNodeName !== '';
}

/** Whether no node takes the pod, nor is one being freed for it: it waits until something changes. */
export function isUntaken(pod: Pod): boolean {
  return unschedulableMessage(pod) !== undefined && !isNominated(pod);
}

/** What keeps a pod from the node that it is for. */
export interface TurnedAway {
  /** kube-scheduler's words. */
  readonly message: string;
  /** How long that is still waited for, in milliseconds. */
  readonly leftMs: number;
}

/**
 * Why a pinned pod is to be elsewhere, now or if nothing changes; undefined where it may be bound at any moment. An unpinned one is kube-scheduler's to
 * wait with. Pure.
 */
export function turnedAway(pod: Pod, now: number): TurnedAway | undefined {
  const condition = notScheduled(pod);
  const graceMs = nodeOf(pod) === undefined ? undefined : graceMsOf(pod, condition?.reason);
  if (condition === undefined || graceMs === undefined) return undefined;
  // kube-scheduler moves the time only where it binds the pod.
  const since = Date.parse(condition.lastTransitionTime ?? pod.metadata.creationTimestamp ?? '') || 0;
  const leftMs = graceMs === 0 ? 0 : Math.max(0, since + graceMs - now);
  return { message: condition.message ?? 'Unschedulable', leftMs };
}

function graceMsOf(pod: Pod, reason: string | undefined): number | undefined {
  if (reason === 'Unschedulable') return isNominated(pod) ? roomMs : 0;
  return reason === 'SchedulerError' && mountsClaim(pod) && volumeMessage(pod) !== undefined
    ? volumeMs
    : undefined;
}

/** Whether the pod has volumes of claims: they are where it is. */
export function mountsClaim({ spec }: Pod): boolean {
  return spec.volumes?.some(({ persistentVolumeClaim }) => persistentVolumeClaim !== undefined) === true;
}
