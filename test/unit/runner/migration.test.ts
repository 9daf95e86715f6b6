import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { migrateIn } from '../../../src/runner/migration.ts';
import type { Qmp } from '../../../src/runner/qmp.ts';
import { withGlobalDelays } from '../delays.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  withGlobalDelays();
});
afterEach(() => void vi.useRealTimers());

/** A QEMU that reads a memory from a slow disk: it answers nobody before it has read all of it, after a minute. */
function aQemuThatReads(): Qmp {
  let isRead = false;
  const execute = async (command: string, _args?: object, { timeoutMs = 10_000 } = {}) => {
    if (command !== 'query-migrate') return {};
    if (!isRead) await new Promise((resolve) => setTimeout(resolve, Math.min(60_000, timeoutMs)));
    if (timeoutMs < 60_000) throw new Error(`QEMU did not answer ${command} within ${timeoutMs} ms`);
    isRead = true;
    return { status: 'completed' };
  };
  return { execute } as unknown as Qmp;
}

test('a memory that QEMU takes longer to read than it takes for any other answer is loaded', async () => {
  const { signal } = new AbortController();
  const loaded = migrateIn(aQemuThatReads(), '/memory', { capability: 'mapped-ram', signal });
  const outcome = expect(loaded).resolves.toBeUndefined();
  await vi.advanceTimersByTimeAsync(60_000);
  await outcome;
});

test('one that it does not read in the time that there is for it is given up then', async () => {
  const given = new AbortController();
  setTimeout(() => given.abort(new Error('it took too long')), 30_000);
  const loaded = migrateIn(aQemuThatReads(), '/memory', {
    capability: 'mapped-ram',
    signal: given.signal,
  });
  const outcome = expect(loaded).rejects.toThrow('it took too long');
  await vi.advanceTimersByTimeAsync(30_000);
  await outcome;
});
