import type { VmStatus } from '../../../api/vm.ts';
import { findCondition } from '../../../controller/conditions.ts';
import { isSameStatus } from '../../../controller/status.ts';
import { differsOnlyInProgress } from './draftedstatus.ts';

/** A start that takes no longer than this is told in one write of status, when the VM runs; in milliseconds. */
export const quickStartMs = 300;

/** A start that takes longer than this shows how far it is, in milliseconds. */
export const slowStartMs = 10_000;

export interface StatusChange {
  readonly before: VmStatus | undefined;
  readonly after: VmStatus;
  /** Milliseconds since this process made the pod; Infinity where it did not, or where there is none. */
  readonly startAgeMs: number;
  /** Milliseconds since the pod was made, by whomever; Infinity without one. */
  readonly podAgeMs: number;
  readonly isPodReady: boolean;
}

/** `afterMs`: when to look again; undefined where it goes along with the next change. */
export type Due =
  | { readonly kind: 'now' }
  | { readonly kind: 'never' }
  | { readonly kind: 'later'; readonly afterMs: number | undefined };

/** When a status is written (docs/adr/0024-when-a-vms-status-is-written.md). Pure. */
export function whenDue(change: StatusChange): Due {
  const { before, after, podAgeMs } = change;
  if (isSameStatus(before, after)) return { kind: 'never' };
  if (isQuickStart(change)) return { kind: 'later', afterMs: quickStartMs - change.startAgeMs };
  if (!differsOnlyInProgress(before, after)) return { kind: 'now' };
  if (findCondition(after.conditions, 'Ready')?.status === 'True')
    return { kind: 'later', afterMs: undefined };
  return podAgeMs < slowStartMs ? { kind: 'later', afterMs: slowStartMs } : { kind: 'now' };
}

/** All that a first status says can be read from the pod later, but for warnings. */
function isQuickStart({ before, after, startAgeMs, isPodReady }: StatusChange): boolean {
  const isFirst = before?.podName === undefined && after.podName !== undefined;
  return isFirst && !isPodReady && startAgeMs < quickStartMs && after.warnings === undefined;
}
