import { expect, test, vi } from 'vitest';
import { electWithCaches } from '../../../src/controller/standby.ts';
import { Svc3Error } from '../../../src/errors.ts';

function standby(run: (signal: AbortSignal) => Promise<void> = async () => {}) {
  const caches = Promise.withResolvers<void>();
  const stop = new AbortController();
  const elected = vi.fn(run);
  const start = () => electWithCaches({ run: elected }, { synced: () => caches.promise }, stop.signal);
  return { caches, stop, elected, start };
}

/** Until everything that needs no time has happened. */
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test('a process whose caches are not full takes no part in the election', async () => {
  const { caches, elected, start, stop } = standby();
  const ended = start();
  await nextTurn();
  expect(elected).not.toHaveBeenCalled();
  caches.resolve();
  await ended;
  expect(elected).toHaveBeenCalledExactlyOnceWith(stop.signal);
});

test('a process that is told to end does not wait for its caches', async () => {
  const { elected, start, stop } = standby();
  const ended = start();
  stop.abort();
  await ended;
  await start();
  expect(elected).not.toHaveBeenCalled();
});

test('what ends the election comes out', async () => {
  const { caches, start } = standby(() => Promise.reject(new Svc3Error('ServiceUnavailable', 'lost')));
  caches.resolve();
  await expect(start()).rejects.toThrow('lost');
});
