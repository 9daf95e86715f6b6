import { describe, expect, test } from 'vitest';
import { assumedMs, createAssumptions } from '../../../src/credential/assumed.ts';
import type { KubeObject } from '../../../src/kube/types.ts';

const at = (resourceVersion: string, uid = 'a'): KubeObject => ({ metadata: { uid, resourceVersion } });

describe('what was written and the cache does not show yet', () => {
  function setUp() {
    let time = 0;
    const assumptions = createAssumptions<KubeObject>(() => time);
    return { assumptions, pass: (ms: number) => (time += ms) };
  }

  test('is taken instead of an older cached object', () => {
    const { assumptions } = setUp();
    assumptions.wrote('k', at('10'));
    expect(assumptions.current('k', at('9'))).toEqual(at('10'));
  });

  test('is forgotten when the cache has it or something newer, also by number and not by text', () => {
    const { assumptions } = setUp();
    assumptions.wrote('k', at('99'));
    expect(assumptions.current('k', at('100'))).toEqual(at('100'));
    expect(assumptions.current('k', at('98'))).toEqual(at('98'));
  });

  test('is there before the cache has any object, for a while', () => {
    const { assumptions, pass } = setUp();
    assumptions.wrote('k', at('10'));
    expect(assumptions.current('k', undefined)).toEqual(at('10'));
    pass(assumedMs + 1);
    expect(assumptions.current('k', undefined)).toBeUndefined();
  });

  test('is forgotten when the cache saw it come and go', () => {
    const { assumptions } = setUp();
    assumptions.wrote('k', at('10'));
    assumptions.observe('k', at('11'));
    expect(assumptions.current('k', undefined)).toBeUndefined();
  });

  test('does not come back from an older change', () => {
    const { assumptions } = setUp();
    assumptions.wrote('k', at('10'));
    assumptions.observe('k', at('9'));
    expect(assumptions.current('k', at('9'))).toEqual(at('10'));
  });

  test('is gone when it was deleted, until another object is there', () => {
    const { assumptions, pass } = setUp();
    assumptions.deleted('k', at('10'));
    expect(assumptions.current('k', at('10'))).toBeUndefined();
    expect(assumptions.current('k', at('12', 'b'))).toEqual(at('12', 'b'));
    assumptions.deleted('k', at('10'));
    pass(assumedMs + 1);
    expect(assumptions.current('k', at('10'))).toEqual(at('10'));
  });
});
