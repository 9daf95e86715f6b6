import { AsyncLocalStorage } from 'node:async_hooks';
import { onTestFinished, vi } from 'vitest';

const setters = ['setTimeout', 'setInterval', 'setImmediate'] as const;

/**
 * Until the end of the test the fake timers of vitest, for what this test does from here on: what one before it has left at work in the process sets
 * real ones as ever, so that `vi.getTimerCount()` counts none but those of this test. `Date` and `performance` are faked for all.
 *
 * To be called in the test, or in `aroundEach` before it runs the test: what `beforeEach` does is not in the async context of the test.
 */
export function withFakeTimers(options?: Parameters<typeof vi.useFakeTimers>[0]): void {
  const real = setters.map((name) => [name, globalThis[name]] as const);
  vi.useFakeTimers(options);
  onTestFinished(() => void vi.useRealTimers());
  const ofThisTest = new AsyncLocalStorage<true>();
  ofThisTest.enterWith(true);
  for (const [name, ofOthers] of real) {
    const fake = globalThis[name];
    // Not to be faked: nothing would put it back.
    if (fake === ofOthers) continue;
    const by = (...given: unknown[]): unknown =>
      Reflect.apply(ofThisTest.getStore() ? fake : ofOthers, globalThis, given);
    Object.assign(globalThis, { [name]: by });
  }
}
