import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { Backoff, backoffDelay } from '../../../src/controller/backoff.ts';

test('a backoff is at least half of the exponential value, never above it, and never above the maximum', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (failures, random) => {
        const full = Math.min(300_000, 100 * 2 ** Math.min(failures - 1, 30));
        const delay = backoffDelay(failures, { random: () => random });
        return delay >= full / 2 && delay <= full;
      },
    ),
  );
});

describe('a backoff by key', () => {
  let now: number;
  let backoff: Backoff;

  beforeEach(() => {
    now = 1_000;
    backoff = new Backoff(() => now, { baseMs: 100, maxMs: 300, random: () => 1 });
  });

  test('doubles with every failure up to its maximum, for each key by itself', () => {
    expect([1, 2, 3, 4].map(() => backoff.failed('a'))).toEqual([100, 200, 300, 300]);
    expect(backoff.failed('b')).toBe(100);
    expect([backoff.failures('a'), backoff.failures('b'), backoff.failures('c')]).toEqual([4, 1, 0]);
  });

  test('says when the next try is due', () => {
    expect([backoff.retryAt('a'), backoff.waitMs('a')]).toEqual([0, 0]);
    backoff.failed('a');
    now += 40;
    expect([backoff.retryAt('a'), backoff.waitMs('a')]).toEqual([1_100, 60]);
    now += 100;
    expect(backoff.waitMs('a')).toBe(0);
  });

  test('that is hurried is due at once and counts on', () => {
    backoff.hurry('a');
    backoff.failed('a');
    backoff.hurry('a');
    expect([backoff.waitMs('a'), backoff.failures('a')]).toEqual([0, 1]);
    expect(backoff.failed('a')).toBe(200);
  });

  test('begins anew after it was cleared', () => {
    backoff.failed('a');
    backoff.clear('a');
    expect([backoff.waitMs('a'), backoff.failed('a')]).toEqual([0, 100]);
  });
});
