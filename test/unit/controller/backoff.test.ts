import { beforeEach, describe, expect, test } from 'vitest';
import { Backoff } from '../../../src/controller/backoff.ts';

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

  test('is half for sure, and 100 ms to five minutes unless somebody says otherwise', () => {
    const least = new Backoff(() => now, { random: () => 0 });
    expect(least.failed('a')).toBe(50);
    for (let failures = 2; failures < 20; failures += 1) least.failed('a');
    expect(least.failed('a')).toBe(150_000);
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
