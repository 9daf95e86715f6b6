import { describe, expect, test } from 'vitest';
import type { ContainerStatus, Node, PodStatus } from '../../../../../src/api/core.ts';
import {
  crashMessage,
  createFailure,
  endMessage,
  internalIp,
  isLost,
  isPodReady,
  isRunnerUp,
  pullFailure,
  unschedulableMessage,
} from '../../../../../src/controllers/vm/facts/podstate.ts';
import { aPod, runningStatus } from '../builders.ts';

const runner = { name: 'runner', ready: false, restartCount: 0, image: '', imageID: '' } as const;

function withRunner(more: Partial<ContainerStatus>, name = 'runner') {
  return aPod({ status: { containerStatuses: [{ ...runner, name, ...more }] } });
}

const waiting = (reason: string, message?: string) =>
  withRunner({ state: { waiting: message === undefined ? { reason } : { reason, message } } });

test('a pod is ready by its condition only', () => {
  expect(isPodReady(aPod())).toBe(false);
  expect(isPodReady(aPod({ status: runningStatus(false) }))).toBe(false);
  expect(isPodReady(aPod({ status: runningStatus(true) }))).toBe(true);
});

describe('what kube-scheduler says', () => {
  const condition = (status: string, reason: string, message?: string): PodStatus => ({
    conditions: [{ type: 'PodScheduled', status, reason, ...(message === undefined ? {} : { message }) }],
  });

  test('is told while the pod is not bound', () => {
    const status = condition('False', 'Unschedulable', '0/3 nodes are available');
    expect(unschedulableMessage(aPod({ status }))).toBe('0/3 nodes are available');
    expect(unschedulableMessage(aPod({ status: condition('False', 'Unschedulable') }))).toBe('Unschedulable');
    expect(unschedulableMessage(aPod({ status, nodeName: 'n1' }))).toBeUndefined();
  });

  test.each([
    ['False', 'SchedulingGated'],
    ['True', 'Unschedulable'],
  ])('is nothing to tell with %s, %s', (status, reason) => {
    expect(unschedulableMessage(aPod({ status: condition(status, reason, 'no') }))).toBeUndefined();
  });
});

test.each<[PodStatus, string | undefined]>([
  [{ phase: 'Running', reason: 'Evicted' }, undefined],
  [
    { phase: 'Failed', reason: 'Evicted', message: 'the node was low on memory' },
    'Evicted: the node was low on memory',
  ],
  [{ phase: 'Failed', reason: 'NodeShutdown', message: '' }, 'NodeShutdown'],
  [{ phase: 'Succeeded' }, 'the pod has ended (Succeeded)'],
])('the end of a pod with status %j is %j', (status, said) => {
  expect(endMessage(aPod({ status }))).toBe(said);
});

test('a runner is up when its container runs and the pod has an address', () => {
  expect(isRunnerUp(aPod({ status: runningStatus(false) }))).toBe(true);
  const { podIP: _, ...without } = runningStatus(true);
  expect(isRunnerUp(aPod({ status: without }))).toBe(false);
  expect(isRunnerUp(waiting('ContainerCreating'))).toBe(false);
});

describe('a container that is not created', () => {
  test('cannot have its image', () => {
    expect(pullFailure(waiting('ErrImagePull', 'unauthorized'))).toBe('unauthorized');
    expect(pullFailure(waiting('ImagePullBackOff'))).toBe('ImagePullBackOff');
    expect(pullFailure(waiting('ErrImageVolumePull', 'not found'))).toBe('not found');
  });

  test('is refused for another reason', () => {
    expect(createFailure(waiting('CreateContainerConfigError', 'secret "a" not found'))).toBe(
      'CreateContainerConfigError: secret "a" not found',
    );
    expect(createFailure(waiting('RunContainerError'))).toBe('RunContainerError');
  });

  test('is one or the other, and neither while it is being created or restarted', () => {
    expect(createFailure(waiting('ErrImagePull'))).toBeUndefined();
    expect(pullFailure(waiting('CreateContainerError'))).toBeUndefined();
    for (const reason of ['ContainerCreating', 'PodInitializing', 'CrashLoopBackOff']) {
      expect(pullFailure(waiting(reason, 'x'))).toBeUndefined();
      expect(createFailure(waiting(reason, 'x'))).toBeUndefined();
    }
  });

  test("counts only when it is the runner's", () => {
    const sidecar = withRunner({ state: { waiting: { reason: 'ErrImagePull' } } }, 'sidecar');
    expect(pullFailure(sidecar)).toBeUndefined();
  });
});

describe('a runner that has ended', () => {
  const ended = { exitCode: 3, finishedAt: '2026-11-01T10:00:00Z' };

  test('has its last line told', () => {
    const state = { terminated: { ...ended, message: 'first\nthe disk is broken\n' } };
    expect(crashMessage(withRunner({ state }))).toBe('the runner ended: exit code 3: the disk is broken');
    expect(crashMessage(withRunner({ state: { terminated: ended } }))).toBe('the runner ended: exit code 3');
  });

  test('at the limit of its memory says so', () => {
    const state = { terminated: { ...ended, exitCode: 137, reason: 'OOMKilled' } };
    expect(crashMessage(withRunner({ state }))).toBe(
      'the runner ended: the memory limit of the pod was reached',
    );
  });

  test('is told while the kubelet waits, and no more once it runs again', () => {
    const lastState = { terminated: ended };
    const waits = { waiting: { reason: 'CrashLoopBackOff' } };
    expect(crashMessage(withRunner({ state: waits, lastState }))).toContain('exit code 3');
    expect(crashMessage(withRunner({ state: { running: {} }, lastState }))).toBeUndefined();
    expect(crashMessage(aPod())).toBeUndefined();
  });
});

describe('a node', () => {
  const node = (status: Node['status']): Node => ({ metadata: { name: 'n1' }, spec: {}, status }) as Node;

  test.each(['True', 'False'])('that says Ready=%s is not lost', (status) => {
    expect(isLost(node({ conditions: [{ type: 'Ready', status }] }))).toBe(false);
  });

  test('of which nobody knows anything any more is', () => {
    expect(isLost(node({ conditions: [{ type: 'Ready', status: 'Unknown' }] }))).toBe(true);
    expect(isLost(node({ conditions: [{ type: 'MemoryPressure', status: 'Unknown' }] }))).toBe(false);
    expect(isLost(undefined)).toBe(false);
  });

  test('has one address inside of the cluster', () => {
    const addresses = [
      { type: 'Hostname', address: 'n1' },
      { type: 'ExternalIP', address: '203.0.113.7' },
      { type: 'InternalIP', address: '10.0.0.7' },
    ];
    expect(internalIp(node({ addresses }))).toBe('10.0.0.7');
    expect(internalIp(undefined)).toBeUndefined();
  });
});
