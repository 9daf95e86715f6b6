import { expect, test } from 'vitest';
import type { VmStatus } from '../../../../../src/api/vm.ts';
import {
  quickStartMs,
  slowStartMs,
  type StatusChange,
  whenDue,
} from '../../../../../src/controllers/vm/status/statuspolicy.ts';
import { aCondition } from '../builders.ts';

const starting: VmStatus = {
  podName: 'svc3-vm-web',
  conditions: [
    aCondition('Ready', { status: 'False', reason: 'Starting' }),
    aCondition('Prepared', { status: 'False', reason: 'PullingImage' }),
  ],
};
const prepared: VmStatus = {
  podName: 'svc3-vm-web',
  conditions: [
    aCondition('Ready', { status: 'False', reason: 'Starting' }),
    aCondition('Prepared', { reason: 'Prepared' }),
  ],
};
const running: VmStatus = { podName: 'svc3-vm-web', conditions: [aCondition('Ready')] };
const refused: VmStatus = {
  conditions: [aCondition('Scheduled', { status: 'False', reason: 'PodRefused' })],
};

const now = { kind: 'now' };
const later = (afterMs?: number) => ({ kind: 'later', afterMs });

test.each<[sentence: string, change: Partial<StatusChange>, due: object]>([
  ['nothing has changed', { before: running, after: structuredClone(running) }, { kind: 'never' }],
  ['the first status of a pod that was just made', { after: starting, startAgeMs: 100 }, later(200)],
  ['the same of a pod that was made by another process', { after: starting }, now],
  ['the same when the time of a quick start is over', { after: starting, startAgeMs: quickStartMs }, now],
  ['the same with warnings', { after: { ...starting, warnings: ['a'] }, startAgeMs: 100 }, now],
  ['a pod that is ready', { after: running, startAgeMs: 100, isPodReady: true }, now],
  ['that no pod can be made', { after: refused, startAgeMs: 100 }, now],
  [
    'how far a start is, while it is not slow',
    { before: starting, after: prepared, podAgeMs: slowStartMs - 1 },
    later(slowStartMs),
  ],
  ['how far a slow start is', { before: starting, after: prepared, podAgeMs: slowStartMs }, now],
  ['that it runs', { before: starting, after: running, podAgeMs: 500 }, now],
  [
    'the size of the disk of a VM that runs',
    { before: running, after: { ...running, diskSize: '1Gi' }, podAgeMs: Infinity },
    later(),
  ],
  [
    'where the runner of a VM that runs is now',
    {
      before: { ...running, runner: { podUid: 'p', address: '10.0.0.1' } },
      after: { ...running, runner: { podUid: 'p', address: '10.0.0.2' } },
    },
    now,
  ],
])('%s', (_sentence, change, due) => {
  const given = {
    before: undefined,
    after: running,
    startAgeMs: Infinity,
    podAgeMs: 1_000,
    isPodReady: false,
  };
  expect(whenDue({ ...given, ...change })).toEqual(due);
});
