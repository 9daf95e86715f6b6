import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createProvenTokens, hashOf } from '../../../src/kube/identities.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

test('a token is remembered by a hash', () => {
  expect(hashOf('secret')).not.toContain('secret');
  expect(hashOf('secret')).toBe(hashOf('secret'));
  expect(hashOf('secret')).not.toBe(hashOf('other'));
});

test('a token that was accepted is proven for five minutes after the last time', () => {
  const proven = createProvenTokens();
  expect(proven.has('a')).toBe(false);
  proven.note('a', true);
  vi.advanceTimersByTime(4 * 60_000);
  proven.note('a', true);
  vi.advanceTimersByTime(5 * 60_000 - 1);
  expect(proven.has('a')).toBe(true);
  vi.advanceTimersByTime(1);
  expect(proven.has('a')).toBe(false);
});

test('a token that is refused is not proven any more', () => {
  const proven = createProvenTokens();
  proven.note('a', true);
  proven.note('a', false);
  expect(proven.has('a')).toBe(false);
});

test('of more than ten thousand tokens the one longest not seen is forgotten first', () => {
  const proven = createProvenTokens();
  proven.note('a', true);
  proven.note('b', true);
  proven.note('a', true);
  for (let i = 0; i < 9_999; i += 1) proven.note(`other ${i}`, true);
  expect([proven.has('a'), proven.has('b')]).toEqual([true, false]);
});
