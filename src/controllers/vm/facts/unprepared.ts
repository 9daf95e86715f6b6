import type { Pod } from '../../../api/core.ts';
import { conditionTypes } from '../../../api/reasons.ts';
import type { Vm } from '../../../api/vm.ts';
import { findCondition } from '../../../controller/conditions.ts';
import { type Unprepared, unpreparedMs } from '../../startwaits.ts';
import { startedInPod } from './started.ts';
import { mountsClaim } from './unbound.ts';

/** Most pods are prepared before, in milliseconds: until then there is no more to say, nor to write. */
const slowMs = 30_000;

/** So often a node is looked for that would take a pod instead of its own, in milliseconds. */
const elsewhereMs = 60_000;

/** What is said of a pod that its node does not prepare. */
export interface SlowPreparation {
  readonly reason: 'PodNotPrepared' | 'PullingImage';
  readonly message: string;
}

/** What is said of a VM whose node takes long to prepare the pod; undefined as long as that is usual. Pure. */
export function slowPreparation(
  { status }: Vm,
  pod: Pod,
  unprepared: Unprepared | undefined,
): SlowPreparation | undefined {
  if (unprepared === undefined) return undefined;
  const said = wordsOf(pod, unprepared);
  const before = findCondition(status?.conditions, conditionTypes.prepared);
  // A process that has just begun counts anew.
  const isSaid = before?.reason === said.reason && before.message === said.message;
  return isSaid || unprepared.forMs >= slowMs ? said : undefined;
}

function wordsOf({ metadata, spec }: Pod, { isCertain }: Unprepared): SlowPreparation {
  const unprepared = `has not prepared volumes and network of pod ${metadata.name} yet; the Events of the pod`;
  return isCertain
    ? { reason: 'PodNotPrepared', message: `node ${spec.nodeName} ${unprepared} say more` }
    : {
        reason: 'PullingImage',
        message: `node ${spec.nodeName} pulls the image, or ${unprepared} say which`,
      };
}

/** Milliseconds until `slowPreparation` says something of the pod; undefined where it does already. */
export function untilSlowMs({ forMs }: Unprepared): number | undefined {
  return forMs < slowMs ? slowMs - forMs : undefined;
}

/** How a pod that its node does not prepare is waited for. */
export interface Preparation {
  /** After how many milliseconds it is to be looked at again; undefined where events tell everything. */
  readonly leftMs?: number;
  /** Why it is to be on another node, if one takes it; undefined where it stays. */
  readonly elsewhere?: string;
}

/**
 * Only a pod without claims is to be elsewhere, and only where it is certain that no image is being pulled for it. A volume goes with its pod: one that
 * another node still has (the attach-detach controller takes it from a dead one after six minutes) would be waited for there as well, and one that has
 * come would be detached again. Pure.
 */
export function preparation(pod: Pod, unprepared: Unprepared): Preparation {
  const { forMs, isCertain } = unprepared;
  const leftMs = untilSlowMs(unprepared);
  if (leftMs !== undefined) return { leftMs };
  if (!isCertain || mountsClaim(pod) || startedInPod(pod) !== 'no') return {};
  if (forMs < unpreparedMs) return { leftMs: unpreparedMs - forMs };
  const { metadata, spec } = pod;
  const elsewhere = `node ${spec.nodeName} has not prepared volumes and network of pod ${metadata.name} in five minutes, and another node takes the VM`;
  return { leftMs: elsewhereMs, elsewhere };
}
