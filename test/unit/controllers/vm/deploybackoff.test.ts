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
