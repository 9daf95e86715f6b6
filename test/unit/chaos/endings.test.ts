import { describe, expect, test } from 'vitest';
import { unaskedDeletions } from '../../chaos/judges/deletions.ts';
import { unexplainedEndings } from '../../chaos/judges/endings.ts';
import type { History } from '../../chaos/record/history.ts';
import {
  aFault,
  aGuest,
  aHistory,
  anOperation,
  deletionTimestamp,
  eventSight,
  podSight,
  s,
  vmSight,
} from './builders.ts';
import { runningStatus } from '../controllers/vm/builders.ts';

/** A guest that ended at 100 s. */
const ended = aGuest({ until: 100 });
const running = vmSight(0, {}, 'ADDED');
const ready = podSight(60, { status: runningStatus(true) });

interface Row {
  sentence: string;
  history: Partial<History>;
}

const explained: Row[] = [
  { sentence: 'a guest that still runs', history: { guests: [aGuest({})] } },
  {
    sentence: 'a VM that is being deleted',
    history: { guests: [ended], sights: [running, vmSight(98, { metadata: { deletionTimestamp } })] },
  },
  {
    sentence: 'a VM that is to be stopped',
    history: { guests: [ended], sights: [running, vmSight(60, { spec: { powerState: 'Stopped' } })] },
  },
  {
    sentence: 'a VM that is to be reverted',
    history: { guests: [ended], sights: [running, vmSight(90, { spec: { revertRequest: 'again' } })] },
  },
  {
    sentence: 'a stop that was asked for, though no watch has shown it',
    history: { guests: [ended], sights: [running], operations: [anOperation({ at: 90 })] },
  },
  {
    sentence: 'a stop whose answer nobody got',
    history: {
      guests: [ended],
      sights: [running],
      operations: [anOperation({ at: 90, outcome: 'unknown' })],
    },
  },
  {
    sentence: 'a QEMU that was killed',
    history: { guests: [ended], sights: [running], faults: [aFault('kill QEMU', 99, { pids: [100] })] },
  },
  {
    sentence: 'a runner that was killed',
    history: {
      guests: [ended],
      sights: [running],
      faults: [aFault('kill runner', 99, { podUid: 'pod-uid' })],
    },
  },
  {
    sentence: 'a node that was turned off',
    history: { guests: [ended], sights: [running], faults: [aFault('reboot node', 95, { node: 'n1' }, 120)] },
  },
  {
    sentence: 'an eviction',
    history: {
      guests: [ended],
      sights: [
        running,
        podSight(97, { status: { conditions: [{ type: 'DisruptionTarget', status: 'True' }] } }),
      ],
    },
  },
];

const unexplained: Row[] = [
  { sentence: 'nothing at all', history: {} },
  {
    sentence: 'a stop that was refused',
    history: { operations: [anOperation({ at: 90, outcome: 'refused' })] },
  },
  { sentence: 'a stop after the end', history: { operations: [anOperation({ at: 101 })] } },
  { sentence: "a stop of another's VM", history: { operations: [anOperation({ at: 90, vmUid: 'other' })] } },
  {
    sentence: 'a stop that has ended the guest before',
    history: {
      guests: [aGuest({ pid: 99, until: 40 }), aGuest({ since: 50, until: 100 })],
      operations: [anOperation({ at: 30 })],
    },
  },
  { sentence: 'being suspended', history: { operations: [anOperation({ at: 90, verb: 'suspend' })] } },
  {
    sentence: 'a kubelet that was killed',
    history: { faults: [aFault('kill kubelet', 95, { node: 'n1' }, 110)] },
  },
  {
    sentence: 'a containerd that was killed',
    history: { faults: [aFault('kill containerd', 95, { node: 'n1' }, 110)] },
  },
  { sentence: 'a pause of its own', history: { faults: [aFault('pause QEMU', 95, { pids: [100] }, 110)] } },
  { sentence: 'a cut of its node', history: { faults: [aFault('cut node', 60, { node: 'n1' }, 110)] } },
  {
    sentence: 'the reboot of another node',
    history: { faults: [aFault('reboot node', 95, { node: 'n2' }, 110)] },
  },
  {
    sentence: 'a QEMU of the same number that was killed long before',
    history: { faults: [aFault('kill QEMU', 20, { pids: [100] })] },
  },
  {
    sentence: 'an operator that was killed',
    history: { faults: [aFault('kill operator', 99, { podUid: 'op' })] },
  },
  { sentence: 'the start of the VM', history: { operations: [anOperation({ at: 90, verb: 'start' })] } },
];

describe('a guest that ends', () => {
  test.each(explained)('is explained by $sentence', ({ history }) => {
    const sights = [ready, ...(history.sights ?? [])];
    expect(unexplainedEndings(aHistory({ ...history, sights }))).toEqual([]);
  });

  test.each(unexplained)('is not explained by $sentence', ({ history }) => {
    const found = unexplainedEndings(aHistory({ guests: [ended], sights: [running, ready], ...history }));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatchObject({ object: 'team/web', at: s(100) });
    expect(found[0]?.evidence.join('\n')).toContain('QEMU 100 is gone');
  });
});

test('a start that failed is no end of a running guest', () => {
  const notReady = podSight(10, { status: runningStatus(false) });
  const before = podSight(-10, { status: runningStatus(true) });
  expect(unexplainedEndings(aHistory({ guests: [ended], sights: [before, running, notReady] }))).toEqual([]);
});

describe('a VM that is deleted', () => {
  const deleted = vmSight(60, { metadata: { deletionTimestamp } });
  const deadline = eventSight(59, 'StartDeadlineExceeded');
  const found = (history: Partial<History>): number => unaskedDeletions(aHistory(history)).length;

  test('was asked for by its user', () => {
    expect(found({ sights: [deleted], operations: [anOperation({ at: 59, verb: 'delete' })] })).toBe(0);
  });

  test('was asked for by nobody', () => {
    expect(found({ sights: [deleted] })).toBe(1);
    expect(found({ sights: [vmSight(60, {}, 'DELETED')] })).toBe(1);
  });

  test('is found once', () => {
    expect(found({ sights: [deleted, deleted, vmSight(61, {}, 'DELETED')] })).toBe(1);
  });

  test('was refused, or asked for too late, or meant another of this name', () => {
    for (const operation of [
      anOperation({ at: 59, verb: 'delete', outcome: 'refused' }),
      anOperation({ at: 61, verb: 'delete' }),
      anOperation({ at: 59, verb: 'delete', vmUid: 'before' }),
    ])
      expect(found({ sights: [deleted], operations: [operation] })).toBe(1);
  });

  test('may miss its start deadline only if it never ran', () => {
    expect(found({ sights: [deleted, deadline] })).toBe(0);
    expect(found({ sights: [ready, deadline, deleted] })).toBe(1);
  });
});
