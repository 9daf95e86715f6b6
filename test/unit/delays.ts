import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/**
 * Until the end of the test nobody waits who waits by `setTimeout` of `node:timers/promises`, which fake timers do not reach.
 *
 * @returns the milliseconds that would have been waited, in order.
 */
export function withoutDelays(): number[] {
  const waited: number[] = [];
  const { setTimeout: wait } = timers;
  const replace = (by: typeof wait): void => {
    timers.setTimeout = by;
    syncBuiltinESMExports();
  };
  replace(async (ms, value, { signal } = {}) => {
    signal?.throwIfAborted();
    waited.push(ms ?? 0);
    await timers.setImmediate();
    return value as never;
  });
  onTestFinished(() => replace(wait));
  return waited;
}
