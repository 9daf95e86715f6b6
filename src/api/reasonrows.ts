import type { ConditionType } from './reasons.ts';

export interface ReasonRow {
  readonly kind: 'VM' | 'VMConfig' | 'VMPool' | 'RegistryCredential' | 'Image, ISO';
  readonly type: ConditionType;
  readonly status: 'True' | 'False' | 'Unknown' | 'any';
  readonly reason: string;
  /** What it means, one sentence. */
  readonly meaning: string;
  /** What the user does about it; `Nothing.` where svc3 goes on by itself. */
  readonly action: string;
}

export const nothing = 'Nothing.';
export const waits = 'Nothing; it goes on by itself.';

/** Rows of one condition and status. */
export function rows(
  kind: ReasonRow['kind'],
  type: ConditionType,
  status: ReasonRow['status'],
  list: Record<string, [meaning: string, action: string]>,
): ReasonRow[] {
  return Object.entries(list).map(([reason, [meaning, action]]) => ({
    kind,
    type,
    status,
    reason,
    meaning,
    action,
  }));
}
