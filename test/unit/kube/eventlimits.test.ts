import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createBuckets, createSimilarity, seriesLimit } from '../../../src/kube/eventlimits.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const count = (times: number, ask: () => boolean) =>
  Array.from({ length: times }, ask).filter(Boolean).length;

describe('events about one object', () => {
  test('are let through 25 at once, and then one a minute', () => {
    const isLet = createBuckets();
    expect(count(40, () => isLet('a'))).toBe(25);
    vi.advanceTimersByTime(59_000);
    expect(isLet('a')).toBe(false);
    vi.advanceTimersByTime(1_000);
    expect(count(5, () => isLet('a'))).toBe(1);
    vi.advanceTimersByTime(3 * 60_000);
    expect(count(5, () => isLet('a'))).toBe(3);
  });

  test('never save up more than 25', () => {
    const isLet = createBuckets();
    isLet('a');
    vi.advanceTimersByTime(24 * 3_600_000);
    expect(count(40, () => isLet('a'))).toBe(25);
  });

  test('take nothing from those about another', () => {
    const isLet = createBuckets();
    count(40, () => isLet('a'));
    expect(count(40, () => isLet('b'))).toBe(25);
  });

  test('are forgotten only after thousands of others, the one longest not heard of first', () => {
    const isLet = createBuckets();
    count(25, () => isLet('a'));
    count(25, () => isLet('b'));
    isLet('a');
    for (let i = 0; i < seriesLimit - 1; i++) isLet(`other ${i}`);
    expect(isLet('a')).toBe(false);
    expect(isLet('b')).toBe(true);
  });
});

describe('messages of one reason', () => {
  test('are told one by one up to ten in ten minutes', () => {
    const isTooMany = createSimilarity();
    expect(count(10, () => isTooMany('a'))).toBe(0);
    expect(isTooMany('a')).toBe(true);
    expect(isTooMany('b')).toBe(false);
  });

  test('are told one by one again after ten minutes without one', () => {
    const isTooMany = createSimilarity();
    count(12, () => isTooMany('a'));
    vi.advanceTimersByTime(10 * 60_000 - 1);
    expect(isTooMany('a')).toBe(true);
    vi.advanceTimersByTime(10 * 60_000);
    expect(isTooMany('a')).toBe(false);
  });
});
