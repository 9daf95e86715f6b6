import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  assumedMs,
  createAssumptions,
  type Assumptions,
} from '../../../../src/controllers/credential/assumed.ts';
import type { KubeObject } from '../../../../src/api/object.ts';

const at = (resourceVersion: string, uid = 'a'): KubeObject => ({ metadata: { uid, resourceVersion } });

describe('what was written and the cache does not show yet', () => {
  let assumptions: Assumptions<KubeObject>;
  let expired: string[];

  beforeEach(() => {
    vi.useFakeTimers();
    expired = [];
    assumptions = createAssumptions((key) => expired.push(key));
  });
  afterEach(() => vi.useRealTimers());

  test('is taken instead of an older cached object', () => {
    assumptions.wrote('k', at('10'));
    expect(assumptions.current('k', at('9'))).toEqual(at('10'));
  });

  test('is forgotten when the cache has it or something newer, also by number and not by text', () => {
    assumptions.wrote('k', at('99'));
    expect(assumptions.current('k', at('100'))).toEqual(at('100'));
    expect(assumptions.current('k', at('98'))).toEqual(at('98'));
  });

  test('is there before the cache has any object, for a while; then somebody is told', () => {
    assumptions.wrote('k', at('10'));
    expect(assumptions.current('k', undefined)).toEqual(at('10'));
    vi.advanceTimersByTime(assumedMs + 1);
    expect(assumptions.current('k', undefined)).toBeUndefined();
    expect(expired).toEqual(['k']);
  });

  test('is forgotten when the cache saw it come and go', () => {
    assumptions.wrote('k', at('10'));
    expect(assumptions.observe('k', at('11'))).toBe(false);
    expect(assumptions.current('k', undefined)).toBeUndefined();
    vi.advanceTimersByTime(assumedMs + 1);
    expect(expired).toEqual([]);
  });

  test('is known again when the cache shows that very write', () => {
    assumptions.wrote('k', at('10'));
    expect(assumptions.observe('k', at('10'))).toBe(true);
    expect(assumptions.observe('k', at('10'))).toBe(false);
  });

  test('does not come back from an older change', () => {
    assumptions.wrote('k', at('10'));
    expect(assumptions.observe('k', at('9'))).toBe(false);
    expect(assumptions.current('k', at('9'))).toEqual(at('10'));
  });

  test('is gone when it was deleted, until another object is there or time has passed', () => {
    assumptions.deleted('k', at('10'));
    expect(assumptions.current('k', at('10'))).toBeUndefined();
    expect(assumptions.current('k', at('12', 'b'))).toEqual(at('12', 'b'));
    assumptions.deleted('k', at('10'));
    vi.advanceTimersByTime(assumedMs + 1);
    expect(assumptions.current('k', at('10'))).toEqual(at('10'));
  });

  test('expires not after all is forgotten', () => {
    assumptions.wrote('k', at('10'));
    assumptions.clear();
    vi.advanceTimersByTime(assumedMs + 1);
    expect(expired).toEqual([]);
  });

  test('is told of in its turn, whatever the order of the writes', () => {
    assumptions.wrote('k', at('10'));
    vi.advanceTimersByTime(assumedMs - 500);
    assumptions.wrote('l', at('11'));
    vi.advanceTimersByTime(499);
    expect(expired).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(expired).toEqual(['k']);
    expect(assumptions.current('l', undefined)).toEqual(at('11'));
    vi.advanceTimersByTime(assumedMs);
    expect(expired).toEqual(['k', 'l']);
  });

  test('is believed anew with every write', () => {
    assumptions.wrote('k', at('10'));
    assumptions.wrote('l', at('10'));
    vi.advanceTimersByTime(assumedMs - 500);
    assumptions.wrote('k', at('12'));
    vi.advanceTimersByTime(600);
    expect(expired).toEqual(['l']);
    expect(assumptions.current('k', undefined)).toEqual(at('12'));
    vi.advanceTimersByTime(assumedMs);
    expect(expired).toEqual(['l', 'k']);
  });

  test('is told of by a watcher that writes again at once', () => {
    let again = 0;
    const own: Assumptions<KubeObject> = createAssumptions((key) => {
      if (again++ === 0) own.wrote(key, at('11'));
    });
    own.wrote('k', at('10'));
    vi.advanceTimersByTime(assumedMs + 1);
    expect([again, own.current('k', undefined)]).toEqual([1, at('11')]);
    vi.advanceTimersByTime(assumedMs + 1);
    expect([again, own.current('k', undefined)]).toEqual([2, undefined]);
  });

  test('is another thing under another key', () => {
    assumptions.wrote('k', at('10'));
    expect(assumptions.observe('l', at('10'))).toBe(false);
    expect(assumptions.current('l', at('1'))).toEqual(at('1'));
    expect(assumptions.current('l', undefined)).toBeUndefined();
  });

  test('was no write of ours when the cache shows what was deleted', () => {
    assumptions.deleted('k', at('10'));
    expect(assumptions.observe('k', at('10'))).toBe(false);
    expect(assumptions.current('k', at('10'))).toEqual(at('10'));
  });

  test('stays gone while the cache shows something older of it', () => {
    assumptions.deleted('k', at('10'));
    expect(assumptions.observe('k', at('9'))).toBe(false);
    expect(assumptions.current('k', at('9'))).toBeUndefined();
  });

  test('is forgotten when the cache has no object of that UID any more', () => {
    assumptions.deleted('k', at('10'));
    expect(assumptions.current('k', undefined)).toBeUndefined();
    vi.advanceTimersByTime(assumedMs + 1);
    expect(expired).toEqual([]);
  });

  test('of a server that tells no version is not taken instead of what the cache has', () => {
    assumptions.wrote('k', { metadata: { name: 'x' } });
    expect(assumptions.current('k', at('1'))).toEqual(at('1'));
  });

  test('counts again after all was forgotten', () => {
    assumptions.wrote('k', at('10'));
    assumptions.clear();
    expect(assumptions.current('k', undefined)).toBeUndefined();
    assumptions.wrote('k', at('12'));
    vi.advanceTimersByTime(assumedMs + 1);
    expect(expired).toEqual(['k']);
  });
});
