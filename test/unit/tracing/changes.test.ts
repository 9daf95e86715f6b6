import { aroundEach, beforeEach, expect, test, vi } from 'vitest';
import { type Changes, sayingChanges } from '../../../src/tracing/changes.ts';
import { withFakeTimers } from '../timers.ts';

let said: string[];
let changes: Changes;

aroundEach((runTest) => {
  withFakeTimers();
  return runTest();
});

beforeEach(() => {
  said = [];
  changes = sayingChanges((failure) => void said.push(failure?.message ?? 'works'));
});

const fails = (why: string) => changes.is(new Error(why));
const works = () => changes.is(undefined);

test('the first failure is said at once, and no further one', () => {
  works();
  fails('first');
  fails('second');
  expect(said).toEqual(['first']);
  vi.advanceTimersByTime(600_000);
  fails('third');
  expect(said).toEqual(['first']);
});

test('what works again after a minute is said at once, before that at the end of the minute', () => {
  fails('first');
  vi.advanceTimersByTime(60_000);
  works();
  expect(said).toEqual(['first', 'works']);
  vi.advanceTimersByTime(1_000);
  fails('second');
  vi.advanceTimersByTime(58_999);
  expect(said).toEqual(['first', 'works']);
  vi.advanceTimersByTime(1);
  expect(said).toEqual(['first', 'works', 'second']);
});

test('what fails and works in turn is a line a minute, and the last one is true', () => {
  const minutes = 10;
  for (let turn = 0; turn < 30 * minutes; turn += 1) {
    if (turn % 2 === 0) fails('again');
    else works();
    vi.advanceTimersByTime(2_000);
  }
  expect(said.length).toBeLessThanOrEqual(minutes + 1);
  vi.advanceTimersByTime(60_000);
  expect(said.at(-1)).toBe('works');
});

test('what is as it was said when the minute is over is not said again', () => {
  fails('first');
  works();
  fails('second');
  vi.advanceTimersByTime(600_000);
  expect(said).toEqual(['first']);
});

test('what has not been said yet is said at the end, and nothing after it', () => {
  fails('first');
  works();
  changes.end();
  expect(said).toEqual(['first', 'works']);
  expect(vi.getTimerCount()).toBe(0);
  changes.end();
  expect(said).toEqual(['first', 'works']);
});
