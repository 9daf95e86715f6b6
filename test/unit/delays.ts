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
  replaceDelay(async (ms, value, { signal } = {}) => {
    signal?.throwIfAborted();
    waited.push(ms ?? 0);
    await timers.setImmediate();
    return value as never;
  });
  return waited;
}

/** Until the end of the test the same waits by the global `setTimeout`, which fake timers do reach. Signals end no wait. */
export function withGlobalDelays(): void {
  replaceDelay((ms, value) => new Promise((resolve) => setTimeout(() => resolve(value as never), ms)));
}

function replaceDelay(by: typeof timers.setTimeout): void {
  const { setTimeout: wait } = timers;
  const replace = (other: typeof wait): void => {
    timers.setTimeout = other;
    syncBuiltinESMExports();
  };
  replace(by);
  onTestFinished(() => replace(wait));
}
