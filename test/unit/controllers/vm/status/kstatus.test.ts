import { describe, expect, test } from 'vitest';
import type { Vm } from '../../../../../src/api/vm.ts';
import { waitsForPerson } from '../../../../../src/api/reasons.ts';
import type { ReasonRow } from '../../../../../src/api/reasonrows.ts';
import { reasonTable } from '../../../../../src/api/reasontable.ts';
import { pendingDraft } from '../../../../../src/controllers/vm/status/pending.ts';
import { withKstatus } from '../../../../../src/controllers/vm/status/kstatus.ts';
import { statusOf } from '../../../../../src/controllers/vm/status/draftedstatus.ts';
import {
  condition,
  type ConditionDrafts,
  type StatusDraft,
} from '../../../../../src/controllers/vm/status/statusdraft.ts';
import { aVm } from '../builders.ts';

type Kstatus = 'InProgress' | 'Failed' | 'Current';

/** The rules for kinds that kstatus does not know (`checkGenericProperties`), in their order. */
function kstatus({ metadata, status }: Vm): Kstatus {
  const { observedGeneration, conditions = [] } = status ?? {};
  const is = (type: string) => conditions.find((one) => one.type === type)?.status;
  if (observedGeneration !== metadata.generation) return 'InProgress';
  if (is('Reconciling') === 'True') return 'InProgress';
  if (is('Stalled') === 'True') return 'Failed';
  return is('Ready') === 'True' ? 'Current' : 'InProgress';
}

const keys = { Ready: 'ready', Scheduled: 'scheduled', Prepared: 'prepared', Stalled: 'stalled' } as const;

/** A VM that tells this row, so long after its creation. */
function told({ type, status, reason }: ReasonRow, ageMs: number): Vm {
  const one = condition(status === 'any' ? 'False' : status, reason, 'why');
  const conditions: Partial<ConditionDrafts> = { [keys[type as keyof typeof keys]]: one };
  const vm = aVm();
  const draft: StatusDraft =
    type === 'Ready'
      ? { fields: {}, conditions: { ready: one }, reconciling: status !== 'True' }
      : pendingDraft(vm, conditions);
  const now = new Date(Date.parse(vm.metadata.creationTimestamp ?? '') + ageMs);
  return { ...vm, status: statusOf(vm, draft, now) };
}

const rows = reasonTable.filter(
  ({ kind, type, status }) =>
    kind === 'VM' && type in keys && (type === 'Ready' || type === 'Stalled' || status !== 'True'),
);

function expected({ type, status, reason }: ReasonRow): Kstatus {
  if (type === 'Stalled' || (status !== 'True' && waitsForPerson.has(reason))) return 'Failed';
  return status === 'True' ? 'Current' : 'InProgress';
}

describe('kstatus of a VM', () => {
  test.each(rows.map((row) => [row.type, row.status, row.reason, expected(row), row] as const))(
    'with %s %s, reason %s, is %s',
    (_type, _status, reason, found, row) => {
      const vm = told(row, 120_000);
      expect(kstatus(vm)).toBe(found);
      const types =
        vm.status?.conditions?.filter(({ status }) => status === 'True').map(({ type }) => type) ?? [];
      expect(types.includes('Stalled') && types.includes('Reconciling')).toBe(false);
      // What the column REASON of kubectl shows.
      expect(vm.status?.conditions?.find(({ type }) => type === 'Ready')?.reason).toBe(reason);
    },
  );

  test.each(['GuestStopped', 'ImagePullDenied', 'PodConflict', 'ArchitectureMismatch'])(
    '%s waits for somebody from the first second on',
    (reason) => {
      const row = rows.find((one) => one.reason === reason && one.type !== 'Stalled');
      expect(kstatus(told(row as ReasonRow, 0))).toBe('Failed');
    },
  );

  test.each(['ConfigNotFound', 'ImageNotFound', 'ImageTerminating'])(
    '%s may end by itself, and waits for somebody where the VM is older than a minute',
    (reason) => {
      const row = rows.find((one) => one.reason === reason && one.type === 'Scheduled');
      expect(kstatus(told(row as ReasonRow, 1_000))).toBe('InProgress');
      expect(kstatus(told(row as ReasonRow, 60_000))).toBe('Failed');
    },
  );
});

test('what is fulfilled waits for nobody, whatever its reason', () => {
  const [reason = ''] = waitsForPerson.keys();
  const draft = (status: 'True' | 'False'): StatusDraft => ({
    fields: {},
    conditions: { ready: condition(status, reason, 'why') },
    reconciling: true,
  });
  expect(withKstatus(draft('True'), 1e9)).toEqual(draft('True'));
  expect(withKstatus(draft('False'), 1e9)).toEqual({
    ...draft('False'),
    conditions: { ready: condition('False', reason, 'why'), stalled: condition('True', reason, 'why') },
    reconciling: false,
  });
});
