import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { aroundEach, describe, expect, test, vi } from 'vitest';
import { withFakeTimers } from './timers.ts';

const real = { setTimeout, setInterval, setImmediate, clearTimeout };
/** Runs as what a file before has left at work: in the context of no test. */
const asBefore = AsyncLocalStorage.snapshot();

describe.each(['in the test', 'around it'])('fake timers that are installed %s', (where) => {
  aroundEach((runTest) => {
    if (where === 'around it') withFakeTimers();
    return runTest();
  });
  const begin = () => void (where === 'in the test' && withFakeTimers());

  test('count until they have fired or are cleared, those set after waits too', async () => {
    begin();
    const fired: string[] = [];
    setTimeout(() => fired.push('first'), 1000);
    await turn();
    const second = setTimeout(() => fired.push('second'), 2000);
    const third = await Promise.resolve().then(() => setInterval(() => fired.push('third'), 3000));
    setImmediate(() => fired.push('at once'));
    expect(vi.getTimerCount()).toBe(4);
    await vi.advanceTimersByTimeAsync(1000);
    expect([fired, vi.getTimerCount()]).toEqual([['at once', 'first'], 2]);
    clearTimeout(second);
    await vi.advanceTimersByTimeAsync(5000);
    expect([fired, vi.getTimerCount()]).toEqual([['at once', 'first', 'third', 'third'], 1]);
    clearInterval(third);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('are none of what was left at work before, which goes on', async () => {
    begin();
    const { promise, resolve } = Promise.withResolvers<number>();
    // One that was set before fires during the test, and sets more.
    asBefore(() => real.setTimeout(() => setTimeout(() => setImmediate(() => resolve(vi.getTimerCount())))));
    setTimeout(() => undefined);
    expect(await promise).toBe(1);
  });
});

test('the real timers are back after a test with fake ones', () => {
  expect({ setTimeout, setInterval, setImmediate, clearTimeout }).toEqual(real);
});

test('timers that are not to be faked stay as they are', () => {
  withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  expect({ setInterval, setImmediate }).toEqual({
    setInterval: real.setInterval,
    setImmediate: real.setImmediate,
  });
});
