import { beforeEach, expect, test, vi } from 'vitest';
import { keepFresh } from '../../src/fresh.ts';

let asked: string[];
let fresh: (key: string) => Promise<string>;

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  const kept = keepFresh<string>(1_000);
  fresh = (key) =>
    kept(key, async () => {
      asked.push(key);
      if (key === 'refused') throw new Error('no');
      return `${key} ${asked.length}`;
    });
  return () => void vi.useRealTimers();
});

test('many who ask are one question, until its answer is old', async () => {
  expect(await Promise.all([fresh('a'), fresh('a')])).toEqual(['a 1', 'a 1']);
  await vi.advanceTimersByTimeAsync(999);
  expect(await fresh('a')).toBe('a 1');
  await vi.advanceTimersByTimeAsync(1);
  expect(await fresh('a')).toBe('a 2');
});

test('each has an answer of its own', async () => {
  expect(await Promise.all([fresh('a'), fresh('b')])).toEqual(['a 1', 'b 2']);
});

test('a refusal is an answer, too', async () => {
  for (const _ of [1, 2]) await expect(fresh('refused')).rejects.toThrow('no');
  expect(asked).toEqual(['refused']);
  await vi.advanceTimersByTimeAsync(1_000);
  await expect(fresh('refused')).rejects.toThrow('no');
  expect(asked).toHaveLength(2);
});
