import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { together } from '../../src/together.ts';

const untilEnded = (signal: AbortSignal) => delay(60_000, 'never', { signal });

test('both are begun at once, and give what they came to', async () => {
  const { promise, resolve } = Promise.withResolvers<number>();
  const { signal } = new AbortController();
  const both = together(
    signal,
    () => promise,
    async () => {
      resolve(1);
      return 'two';
    },
  );
  expect(await both).toEqual([1, 'two']);
});

test('one that fails ends the other, which is waited for, and is what is told', async () => {
  const { signal } = new AbortController();
  let isOver = false;
  const both = together(
    signal,
    (either) => untilEnded(either).finally(() => (isOver = true)),
    () => Promise.reject(new Error('no room')),
  );
  await expect(both).rejects.toThrow('no room');
  expect(isOver).toBe(true);
  expect(signal.aborted).toBe(false);
});

test('a signal ends both with its reason', async () => {
  const giveUp = new AbortController();
  const both = together(giveUp.signal, untilEnded, untilEnded);
  giveUp.abort(new Error('given up'));
  await expect(both).rejects.toThrow('given up');
});
