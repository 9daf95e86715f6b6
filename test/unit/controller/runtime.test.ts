import { once } from 'node:events';
import { expect, test } from 'vitest';
import { waiting } from '../../../src/controller/outcome.ts';
import { runControllers } from '../../../src/controller/runtime.ts';

/** One that runs until it is told to end, and then says why. */
function lasting() {
  const ends: unknown[] = [];
  const run = async (signal: AbortSignal): Promise<void> => {
    if (!signal.aborted) await once(signal, 'abort');
    ends.push(signal.reason);
  };
  return { run, ends };
}

test('controllers end together when they are told to', async () => {
  const [one, other] = [lasting(), lasting()];
  const stop = new AbortController();
  const run = runControllers([one, other], stop.signal);
  stop.abort('SIGTERM');
  await expect(run).resolves.toBeUndefined();
  expect([one.ends, other.ends]).toEqual([['SIGTERM'], ['SIGTERM']]);
});

test('the error of one ends the others, and comes out', async () => {
  const broken = new Error('broken');
  const other = lasting();
  const failing = { run: () => Promise.reject(broken) };
  await expect(runControllers([other, failing], new AbortController().signal)).rejects.toBe(broken);
  await expect.poll(() => other.ends).toEqual([broken]);
});

test('what a pass ends with has a name of its own, its sentence and its time', () => {
  expect(waiting('later', 5)).toMatchObject({ name: 'WaitingError', message: 'later', afterMs: 5 });
});
