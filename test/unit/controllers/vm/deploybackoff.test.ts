import { beforeEach, expect, test } from 'vitest';
import { DeployBackoff } from '../../../../src/controllers/vm/deploybackoff.ts';

let now: number;
let backoff: DeployBackoff;

beforeEach(() => {
  now = 50_000;
  backoff = new DeployBackoff(() => now);
});

test('doubles from a second to a minute, and is forgotten with the VM', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8].map(() => backoff.failed('a'))).toEqual([
    1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
  ]);
  now += 20_000;
  expect([backoff.waitMs('a'), backoff.waitMs('b')]).toEqual([40_000, 0]);
  backoff.forget('a');
  expect([backoff.waitMs('a'), backoff.failed('a')]).toEqual([0, 1_000]);
});

test('a node that turned the pod away is avoided for two minutes, by this VM', () => {
  backoff.failed('a', 'n1');
  now += 60_000;
  backoff.failed('a', 'n2');
  backoff.failed('a');
  expect([...backoff.avoided('a')]).toEqual(['n1', 'n2']);
  expect([...backoff.avoided('b')]).toEqual([]);
  now += 60_000;
  expect([...backoff.avoided('a')]).toEqual(['n2']);
  backoff.forget('a');
  expect([...backoff.avoided('a')]).toEqual([]);
});

test('a node that refused the pod is avoided until the VM runs, or none is left', () => {
  for (const end of [() => backoff.forget('a'), () => backoff.forgetNodes('a')]) {
    backoff.failed('a', 'n1', true);
    backoff.failed('a', 'n1');
    backoff.failed('a', 'n2');
    now += 3_600_000;
    expect([[...backoff.avoided('a')], [...backoff.refused('a')]]).toEqual([['n1'], ['n1']]);
    expect([...backoff.refused('b')]).toEqual([]);
    end();
    expect([...backoff.avoided('a')]).toEqual([]);
  }
});

test('that kube-scheduler found a pod unschedulable is remembered until the VM runs, or all nodes have their turn again', () => {
  for (const end of [() => backoff.forget('a'), () => backoff.forgetNodes('a')]) {
    backoff.noteUnschedulable('a');
    expect([backoff.isUnschedulable('a'), backoff.isUnschedulable('b')]).toEqual([true, false]);
    end();
    expect(backoff.isUnschedulable('a')).toBe(false);
  }
});

test('a change that may help makes the next try due, and tells nothing of nodes', () => {
  backoff.failed('a', 'n1', true);
  expect([backoff.waitMs('a'), backoff.failures('a')]).toEqual([1_000, 1]);
  backoff.retryNow('a');
  expect([backoff.waitMs('a'), [...backoff.avoided('a')]]).toEqual([0, ['n1']]);
  // What changes again and again has one try each time.
  expect([backoff.failures('a'), backoff.failed('a')]).toEqual([1, 2_000]);
});
