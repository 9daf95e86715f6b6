import type { Condition } from '../api/object.ts';
import { applyOrderMs, conditionTypes } from '../api/reasons.ts';
import { findCondition, removeCondition, setCondition } from './conditions.ts';

const { ready, stalled, reconciling } = conditionTypes;

/** What is read of an object of any kind. */
interface Observed {
  readonly metadata: { readonly generation?: number };
  readonly status?: { readonly conditions?: readonly Condition[] | undefined };
}

/** What happens next with an object: svc3 works on it, nothing happens until somebody acts, or nothing is left to do. */
export type Progress = 'reconciling' | 'stalled' | 'idle';

/** Whether an object is ready, and why. */
export interface Readiness {
  readonly isReady: boolean;
  readonly reason: string;
  readonly message: string;
}

/** The status with conditions Ready, Stalled and Reconciling as kstatus reads them. Conditions that did not change keep their time. */
export function readyStatus(
  { metadata, status }: Observed,
  { isReady, reason, message }: Readiness,
  progress: Progress,
  now: Date,
): { readonly observedGeneration: number; readonly conditions: Condition[] } {
  const observedGeneration = metadata.generation ?? 0;
  const told = { reason, message, observedGeneration } as const;
  const set = { type: ready, status: isReady ? 'True' : 'False', ...told } as const;
  let conditions = setCondition(status?.conditions, set, now);
  conditions =
    progress === 'stalled'
      ? setCondition(conditions, { type: stalled, status: 'True', ...told }, now)
      : removeCondition(conditions, stalled);
  conditions =
    progress === 'reconciling'
      ? setCondition(conditions, { type: reconciling, status: 'True', ...told, reason: 'Progressing' }, now)
      : removeCondition(conditions, reconciling);
  return { observedGeneration, conditions };
}

/**
 * Milliseconds that are left of the minute in which a missing object may still be created without being reported as Stalled: objects are
 * applied in any order, and are replaced by deleting them first. The minute begins when Ready turns False. Undefined when it is over.
 */
export function applyOrderLeftMs(
  conditions: readonly Condition[] | undefined,
  now: Date,
): number | undefined {
  const before = findCondition(conditions, ready);
  const since = before?.status === 'False' ? Date.parse(before.lastTransitionTime) : now.getTime();
  const leftMs = since + applyOrderMs - now.getTime();
  return leftMs > 0 ? leftMs : undefined;
}
