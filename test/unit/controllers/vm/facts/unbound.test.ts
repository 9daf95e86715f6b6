import { describe, expect, test } from 'vitest';
import type { PodStatus } from '../../../../../src/api/core.ts';
import {
  isNominated,
  isUntaken,
  turnedAway,
  unboundMessage,
  volumeMessage,
} from '../../../../../src/controllers/vm/facts/unbound.ts';
import { aPod } from '../builders.ts';

const since = '2026-11-01T10:00:00Z';
const at = (seconds: number) => Date.parse(since) + seconds * 1000;

type Condition = NonNullable<PodStatus['conditions']>[number];
const refused = (given: Partial<Condition> = {}): PodStatus => ({
  conditions: [
    {
      type: 'PodScheduled',
      status: 'False',
      reason: 'Unschedulable',
      lastTransitionTime: since,
      ...given,
    },
  ],
});

describe('why a pod is on no node', () => {
  test('is what kube-scheduler says, or at least its reason', () => {
    expect(unboundMessage(aPod({ status: refused({ message: 'no room' }) }))).toBe('no room');
    expect(unboundMessage(aPod({ status: refused() }))).toBe('Unschedulable');
    expect(unboundMessage(aPod())).toBeUndefined();
    expect(unboundMessage(aPod({ nodeName: 'n1', status: refused() }))).toBeUndefined();
  });

  test.each([
    ['0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.', true],
    ['running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded', true],
    ['selectedNode annotation reset for PVC "a"', true],
    ['persistentvolumeclaim "svc3-vm-web" not found', true],
    ['0/1 nodes are available: 1 Insufficient cpu.', false],
  ])('"%s" is about a volume: %s', (message, isVolume) => {
    expect(volumeMessage(aPod({ status: refused({ message }) }))).toBe(isVolume ? message : undefined);
  });
});

test.each([
  [undefined, false],
  ['', false],
  ['n1', true],
])('a pod whose nominated node is %j is waited for there: %s', (nominatedNodeName, is) => {
  const status = nominatedNodeName === undefined ? {} : { nominatedNodeName };
  expect(isNominated(aPod({ status }))).toBe(is);
});

test.each([
  ['that no node fits', true, aPod({ status: refused() })],
  ['for which room is made', false, aPod({ status: { ...refused(), nominatedNodeName: 'n1' } })],
  ['that is gated', false, aPod({ status: refused({ reason: 'SchedulingGated' }) })],
  ['that is bound', false, aPod({ nodeName: 'n1', status: refused() })],
])('a pod %s is taken by no node: %s', (_what, is, pod) => {
  expect(isUntaken(pod)).toBe(is);
});

describe('a pinned pod is turned away', () => {
  test('at once where its node does not fit', () => {
    expect(turnedAway(aPod({ status: refused() }), at(0))).toEqual({ message: 'Unschedulable', leftMs: 0 });
  });

  test('after five minutes where room is made for it', () => {
    const pod = aPod({ status: { ...refused(), nominatedNodeName: 'n1' } });
    expect(turnedAway(pod, at(1))?.leftMs).toBe(299_000);
    expect(turnedAway(pod, at(301))?.leftMs).toBe(0);
  });

  test('also where nobody knows since when', () => {
    const { lastTransitionTime: _since, ...condition } = refused().conditions![0]!;
    const status = { conditions: [condition], nominatedNodeName: 'n1' };
    expect(turnedAway(aPod({ status }), at(0))?.leftMs).toBe(0);
    const born = aPod({ status, metadata: { creationTimestamp: since } });
    expect(turnedAway(born, at(1))?.leftMs).toBe(299_000);
  });

  test('never where it is bound, or left to kube-scheduler', () => {
    expect(turnedAway(aPod({ nodeName: 'n1', status: refused() }), at(0))).toBeUndefined();
    const { affinity: _affinity, ...spec } = aPod().spec;
    expect(turnedAway({ ...aPod({ status: refused() }), spec }, at(0))).toBeUndefined();
  });
});
