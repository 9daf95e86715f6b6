import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { backoffDelay, createWorkqueue } from '../../../src/controller/workqueue.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  vi.useRealTimers();
});

async function drain(queue: ReturnType<typeof createWorkqueue>): Promise<string[]> {
  const keys: string[] = [];
  while (queue.depth() > 0) {
    const key = (await queue.take()) ?? '';
    keys.push(key);
    queue.done(key);
  }
  return keys;
}

describe('a workqueue', () => {
  test('hands out keys in the order they came, each once', async () => {
    const queue = createWorkqueue();
    ['b', 'a', 'b', 'c', 'a'].forEach((key) => queue.add(key));
    expect(await drain(queue)).toEqual(['b', 'a', 'c']);
  });

  test('hands a key that comes back while it is worked on out again, but only after that', async () => {
    const queue = createWorkqueue();
    queue.add('a');
    await queue.take();
    queue.add('a');
    queue.add('a');
    expect(queue.depth()).toBe(0);
    queue.done('a');
    expect(await drain(queue)).toEqual(['a']);
  });

  test('gives a key to a worker that waits', async () => {
    const queue = createWorkqueue();
    const waiting = [queue.take(), queue.take()];
    queue.add('a');
    queue.add('b');
    expect(await Promise.all(waiting)).toEqual(['a', 'b']);
  });

  test('adds after a time, of several the earliest', async () => {
    const queue = createWorkqueue();
    queue.addAfter('a', 5_000);
    queue.addAfter('a', 1_000);
    queue.addAfter('a', 3_000);
    vi.advanceTimersByTime(999);
    expect(queue.depth()).toBe(0);
    vi.advanceTimersByTime(2);
    expect(await drain(queue)).toEqual(['a']);
    vi.advanceTimersByTime(10_000);
    expect(queue.depth()).toBe(0);
  });

  test('adds after a time longer than any timer', () => {
    const queue = createWorkqueue();
    queue.addAfter('a', 2 ** 31 + 5_000);
    vi.advanceTimersByTime(2 ** 31);
    expect(queue.depth()).toBe(0);
    vi.advanceTimersByTime(5_001);
    expect(queue.depth()).toBe(1);
  });

  test('backs off per key, longer every time, until the key is forgotten', () => {
    const queue = createWorkqueue({ baseMs: 100, random: () => 1 });
    const cameAfter = (key: string): number => {
      queue.addBackoff(key);
      let waited = 0;
      for (const before = queue.depth(); queue.depth() === before; waited += 10) {
        vi.advanceTimersByTime(10);
      }
      return waited;
    };
    expect(cameAfter('a')).toBe(100);
    expect(queue.failures('a')).toBe(1);
    queue.addBackoff('b');
    vi.advanceTimersByTime(100);
    expect(queue.depth()).toBe(2);
    queue.forget('a');
    expect(queue.failures('a')).toBe(0);
    queue.addBackoff('c', 7_000);
    vi.advanceTimersByTime(6_990);
    expect(queue.depth()).toBe(2);
    vi.advanceTimersByTime(20);
    expect(queue.depth()).toBe(3);
  });

  test('that is shut down hands out nothing more and lets waiting workers go', async () => {
    const queue = createWorkqueue();
    const waiting = queue.take();
    queue.addAfter('b', 10);
    queue.shutDown();
    expect(await waiting).toBeUndefined();
    queue.add('a');
    vi.advanceTimersByTime(100);
    expect(await queue.take()).toBeUndefined();
  });

  test('never has a key twice, nor with two workers, and works on every key after its last addition', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), key: fc.constantFrom('a', 'b', 'c') }),
      fc.record({ kind: fc.constant('take' as const), key: fc.constant('') }),
      fc.record({ kind: fc.constant('done' as const), key: fc.constantFrom('a', 'b', 'c') }),
    );
    return fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const queue = createWorkqueue();
        const active = new Set<string>();
        /** Added and not taken since. */
        const owed = new Set<string>();
        const take = async (): Promise<void> => {
          const key = (await queue.take()) ?? '';
          expect(active.has(key)).toBe(false);
          expect(owed.delete(key)).toBe(true);
          active.add(key);
        };
        for (const { kind, key } of steps) {
          if (kind === 'add') {
            queue.add(key);
            owed.add(key);
          } else if (kind === 'take' && queue.depth() > 0) {
            await take();
          } else if (kind === 'done' && active.delete(key)) {
            queue.done(key);
          }
        }
        while (owed.size > 0) {
          active.forEach((key) => queue.done(key));
          active.clear();
          await take();
        }
        active.forEach((key) => queue.done(key));
        expect(queue.depth() + queue.active()).toBe(0);
      }),
    );
  });
});

test('a backoff is at least half of the exponential value, never above it, and never above the maximum', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (failures, random) => {
        const full = Math.min(300_000, 100 * 2 ** Math.min(failures - 1, 30));
        const delay = backoffDelay(failures, { random: () => random });
        return delay >= full / 2 && delay <= full;
      },
    ),
  );
});
