import { conditionTypes } from '../../../api/reasons.ts';
import type { VmStatus } from '../../../api/vm.ts';
import type { DecidedCondition } from '../../../controller/conditions.ts';
import type { Condition } from '../../../api/object.ts';

export type ConditionDraft = Pick<DecidedCondition, 'status' | 'reason' | 'message'>;

/** A condition for each question that can be answered; the others are absent. */
export interface ConditionDrafts {
  readonly ready: ConditionDraft;
  readonly scheduled?: ConditionDraft;
  readonly prepared?: ConditionDraft;
  readonly booted?: ConditionDraft;
  readonly warmStart?: ConditionDraft;
  readonly restartRequired?: ConditionDraft;
  readonly stalled?: ConditionDraft;
  readonly portsMapped?: ConditionDraft;
}

/** Status as a pass decides it: everything but times and generations. */
export interface StatusDraft {
  readonly fields: Omit<VmStatus, 'conditions' | 'observedGeneration'>;
  readonly conditions: ConditionDrafts;
  /** svc3 is working on it or waits for something it will notice (kstatus). */
  readonly reconciling: boolean;
}

export function condition(status: ConditionDraft['status'], reason: string, message = ''): ConditionDraft {
  return { status, reason, message };
}

export const conditionOrder = [
  'ready',
  'scheduled',
  'prepared',
  'booted',
  'warmStart',
  'restartRequired',
  'stalled',
  'portsMapped',
] as const;

/** What conditions were written from; undefined where Ready is not among them. */
export function conditionsIn(conditions: readonly Condition[] = []): ConditionDrafts | undefined {
  const drafts: { -readonly [key in keyof ConditionDrafts]?: ConditionDraft } = {};
  for (const key of conditionOrder) {
    const found = conditions.find(({ type }) => type === conditionTypes[key]);
    if (found !== undefined) drafts[key] = condition(found.status, found.reason, found.message);
  }
  return drafts.ready === undefined ? undefined : { ...drafts, ready: drafts.ready };
}

/** The status as it was written last, in all but whether it is Ready. */
export function draftAsBefore(status: VmStatus | undefined, ready: ConditionDraft): StatusDraft {
  const { conditions, observedGeneration: _generation, ...fields }: VmStatus = status ?? {};
  const { stalled: _stalled, ...others }: Partial<ConditionDrafts> = conditionsIn(conditions) ?? {};
  return { fields, conditions: { ...others, ready }, reconciling: true };
}
