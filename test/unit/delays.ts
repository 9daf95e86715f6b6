import { AsyncLocalStorage } from 'node:async_hooks';
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

/**
 * Until the end of the test the time of whoever waits so is over when the wait begins, as if it were the longer of the two.
 *
 * @returns a signal that ends then as that of `AbortSignal.timeout` does.
 */
export function withTooLittleTime(): AbortSignal {
  const time = new AbortController();
  replaceDelay(async (_ms, value, { signal } = {}) => {
    time.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
    if (signal?.aborted === true) throw new Error('the wait was aborted', { cause: signal.reason });
    return value as never;
  });
  return time.signal;
}

/** Only for what this test does from here on: what one before it has left at work in the process waits as ever. */
function replaceDelay(replacement: typeof timers.setTimeout): void {
  const { setTimeout: wait } = timers;
  const ofThisTest = new AsyncLocalStorage<true>();
  ofThisTest.enterWith(true);
  const by: typeof wait = (...given) => (ofThisTest.getStore() ? replacement(...given) : wait(...given));
  const replace = (other: typeof wait): void => {
    timers.setTimeout = other;
    syncBuiltinESMExports();
  };
  replace(by);
  onTestFinished(() => replace(wait));
}
