import { longestMessage } from '../../api/condition.ts';
import { conditionTypes, poolWaitsForPerson } from '../../api/reasons.ts';
import type { VmPool } from '../../api/vmpool.ts';
import { findCondition } from '../../controller/conditions.ts';
import { applyOrderLeftMs, type Progress, type Readiness } from '../../controller/kstatus.ts';
import { shortened } from '../../errors.ts';
import type { PoolPlan } from './decide.ts';

/** What a pass has come to. */
export type Outcome = Readiness & {
  readonly isStalled?: boolean;
  readonly againMs?: number | undefined;
  /** What a guest that goes may leave: room on a node, or of a quota. */
  readonly lacks?: 'node' | 'quota' | undefined;
};

/**
 * Of a pass that has no guest to make. A pool at its bound is Ready: it is as its spec says, and tools that follow kstatus wait for nothing more. Where a
 * guest is booting still, or one makes way for another, they do. Pure.
 */
export function outcomeOf({ spec: { minIdle } }: VmPool, plan: PoolPlan): Outcome {
  const { idle, isFull, preparing } = plan;
  if (isFull && preparing === 0 && plan.delete.length === 0)
    return {
      isReady: true,
      reason: 'AtMaxSize',
      message: 'there are as many VMs and guests as maxSize allows',
    };
  if (idle < minIdle)
    return { isReady: false, reason: 'Preparing', message: preparingMessage(plan, preparing, 0) };
  return {
    isReady: true,
    reason: 'Filled',
    message: minIdle === 1 ? 'one guest waits' : 'as many guests wait as are to',
  };
}

/** How many guests boot, and how many are still to be made; where one of them cannot be pulled the kubelet's words. */
export function preparingMessage({ unpulled }: PoolPlan, preparing: number, toCome: number): string {
  const counts = `${preparing} being prepared, ${toCome} to come`;
  return unpulled === undefined ? counts : shortened(`${counts}; ${unpulled}`, longestMessage);
}

/** Reasons for which the next guest is tried after a while. */
const triedAgain: ReadonlySet<string> = new Set(['Unschedulable', 'PodRefused']);

/** Of a pass whose next guest waits for its time, or for what a registry says: why there was none at the last try, as the status says it, else `why`. */
export function heldBack(
  { status }: VmPool,
  why: { readonly reason: string; readonly message: string; readonly againMs?: number },
): Outcome {
  const before = findCondition(status?.conditions, conditionTypes.ready);
  const { reason, message } = before !== undefined && triedAgain.has(before.reason) ? before : why;
  return { isReady: false, reason, message, againMs: why.againMs };
}

/** Milliseconds until what is missing is somebody's to make; undefined where nothing is, or it is already. */
export function awaitedMs({ status }: VmPool, { isReady, reason }: Outcome, now: Date): number | undefined {
  const graceMs = isReady ? undefined : poolWaitsForPerson.get(reason);
  return graceMs === undefined || graceMs === 0 ? undefined : applyOrderLeftMs(status?.conditions, now);
}

/** What happens next, as tools that follow kstatus have to find it. */
export function progressOf(pool: VmPool, outcome: Outcome, now: Date): Progress {
  if (outcome.isReady) return 'idle';
  const isForPerson = poolWaitsForPerson.has(outcome.reason) && awaitedMs(pool, outcome, now) === undefined;
  return outcome.isStalled === true || isForPerson ? 'stalled' : 'reconciling';
}
