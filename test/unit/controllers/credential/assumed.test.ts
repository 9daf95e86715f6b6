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
});
