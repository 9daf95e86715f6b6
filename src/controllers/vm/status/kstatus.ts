import { waitsForPerson } from '../../../api/reasons.ts';
import type { ConditionDraft, StatusDraft } from './statusdraft.ts';

/**
 * The same status as tools that follow kstatus have to find it: what waits for somebody is Stalled, and then svc3 is not Reconciling. What
 * may still come by itself, as a VMConfig that is applied after its VM, has its time first.
 *
 * @param ageMs - milliseconds since the VM was created
 */
export function withKstatus(draft: StatusDraft, ageMs: number): StatusDraft {
  const { stalled, scheduled, prepared, ready } = draft.conditions;
  if (stalled !== undefined) return { ...draft, reconciling: false };
  const cause = [scheduled, prepared, ready].find((one) => isWaiting(one, ageMs));
  if (cause === undefined) return draft;
  const told = { ...cause, status: 'True' as const };
  return { ...draft, conditions: { ...draft.conditions, stalled: told }, reconciling: false };
}

function isWaiting(one: ConditionDraft | undefined, ageMs: number): boolean {
  if (one === undefined || one.status === 'True') return false;
  const graceMs = waitsForPerson.get(one.reason);
  return graceMs !== undefined && ageMs >= graceMs;
}
