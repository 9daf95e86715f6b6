import fc from 'fast-check';
import { aroundEach, describe, expect, test, vi } from 'vitest';
import { createWorkqueue, lowPriorityMs, type Priority } from '../../../src/controller/workqueue.ts';
import { withFakeTimers } from '../timers.ts';

aroundEach((runTest) => {
  withFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  return runTest();
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

/** No namespace has more of sixteen. */
const workers = 8;

interface Burst {
  /** Of each VM, from its pod to the pass that writes its status. */
  readonly waitedMs: readonly number[];
  /** The places in which their pods were made, in the order of their statuses. */
  readonly order: readonly number[];
  /** Until the last pod was made. */
  readonly podsMs: number;
}

/**
 * VMs of one namespace that come at once: the first pass over each makes its pod, the second writes its status. The
 * events of the writes bring the key back, that of the finalizer during the first pass.
 */
async function burst(count: number, passMs: number): Promise<Burst> {
  const podAt = new Map<string, number>();
  const statusAt = new Map<string, number>();
  const queue = createWorkqueue({
    workers: 2 * workers,
    priorityOf: (key) => (podAt.has(key) ? 'low' : 'normal'),
  });
  const pass = async (key: string): Promise<void> => {
    if (podAt.has(key)) {
      // Later passes find nothing to write.
      if (statusAt.has(key)) return;
      statusAt.set(key, performance.now());
    } else queue.add(key);
    await new Promise((resolve) => {
      setTimeout(resolve, passMs);
    });
    if (!podAt.has(key)) podAt.set(key, performance.now());
    queue.add(key);
  };
  const work = async (): Promise<void> => {
    for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
      await pass(key);
      queue.done(key);
    }
  };
  const working = Array.from({ length: 2 * workers }, work);
  for (let i = 0; i < count; i += 1) queue.add(`burst/${i}`);
  while (statusAt.size < count) await vi.advanceTimersByTimeAsync(passMs);
  queue.shutDown();
  await vi.advanceTimersByTimeAsync(passMs);
  await Promise.all(working);
  const keys = [...podAt.keys()];
  return {
    waitedMs: keys.map((key) => (statusAt.get(key) ?? NaN) - (podAt.get(key) ?? NaN)),
    order: [...statusAt.keys()].map((key) => keys.indexOf(key)),
    podsMs: Math.max(...podAt.values()),
  };
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

  test('hands out keys of low priority when no other waits, and lifts one that is normal when it is added again', async () => {
    const low = new Set(['low', 'lifted']);
    const queue = createWorkqueue({ priorityOf: (key) => (low.has(key) ? 'low' : 'normal') });
    ['low', 'lifted', 'a'].forEach((key) => queue.add(key));
    low.delete('lifted');
    queue.add('lifted');
    low.add('a');
    queue.add('a');
    expect(await drain(queue)).toEqual(['a', 'lifted', 'low']);
  });

  test('asks for the priority of a key when it is queued, also by a timer and after a pass', async () => {
    let priority: 'normal' | 'low' = 'low';
    const queue = createWorkqueue({ priorityOf: (key) => (key === 'b' ? priority : 'normal') });
    queue.addAfter('b', 10);
    vi.advanceTimersByTime(20);
    queue.add('a');
    expect(await queue.take()).toBe('a');
    expect(await queue.take()).toBe('b');
    priority = 'normal';
    queue.add('b');
    queue.add('c');
    queue.done('b');
    expect(await drain(queue)).toEqual(['c', 'b']);
  });

  test('asks for the priority of a key that came back during its pass when the pass is done', async () => {
    let hasPod = false;
    const queue = createWorkqueue({ priorityOf: (key) => (key === 'a' && hasPod ? 'low' : 'normal') });
    queue.add('a');
    await queue.take();
    // The finalizer is written, and its event comes, before the pod is made.
    queue.add('a');
    hasPod = true;
    queue.add('b');
    queue.done('a');
    queue.add('c');
    expect(await drain(queue)).toEqual(['b', 'c', 'a']);
  });

  test.each([2, 10, 40, 150])(
    'in a burst of 1,000 with passes of %i ms keeps no status for two seconds, oldest first, and pods go on',
    async (passMs) => {
      const { waitedMs, order, podsMs } = await burst(1_000, passMs);
      expect(Math.max(...waitedMs)).toBeLessThan(2_000);
      expect(order).toEqual(order.toSorted((a, b) => a - b));
      // One of four turns at the least.
      expect(podsMs).toBeLessThan((4 * 1_000 * passMs) / workers + lowPriorityMs);
    },
  );

  test('keeps no key of low priority back for longer than its time, and the others no longer either', async () => {
    const queue = createWorkqueue({ priorityOf: (key) => (key.startsWith('old') ? 'low' : 'normal') });
    for (let i = 0; i < 8; i += 1) queue.add(`old-${i}`);
    vi.advanceTimersByTime(lowPriorityMs + 1);
    for (let i = 0; i < 4; i += 1) queue.add(`new-${i}`);
    const order = await drain(queue);
    // Three of four turns.
    expect(order.slice(0, 4).filter((key) => key.startsWith('old'))).toHaveLength(3);
    expect(order.slice(0, 8).filter((key) => key.startsWith('new'))).toHaveLength(2);
    expect(order.filter((key) => key.startsWith('old'))).toEqual(
      Array.from({ length: 8 }, (_, i) => `old-${i}`),
    );
  });

  test('lets namespaces take turns, and cluster-scoped keys as one of them', async () => {
    const queue = createWorkqueue();
    ['a/1', 'a/2', 'a/3', 'n1', 'n2', 'b/1', 'c/1', 'c/2'].forEach((key) => queue.add(key));
    expect(await drain(queue)).toEqual(['a/1', 'n1', 'b/1', 'c/1', 'a/2', 'n2', 'c/2', 'a/3']);
  });

  test('gives a namespace no more workers than are left free, and one to the next whoever came before', async () => {
    const queue = createWorkqueue({ workers: 8 });
    const taken: (string | undefined)[] = [];
    for (let worker = 0; worker < 8; worker += 1) void queue.take().then((key) => taken.push(key));
    const takenBy = (group: string) => taken.filter((key) => key?.startsWith(group)).length;
    for (const namespace of ['a', 'b', 'c']) {
      for (let i = 0; i < 100; i += 1) queue.add(`${namespace}/${i}`);
      // eslint-disable-next-line no-await-in-loop -- The order is what is tested.
      await Promise.resolve();
    }
    expect([takenBy('a'), takenBy('b'), takenBy('c')]).toEqual([4, 2, 1]);
    queue.add('d/0');
    await Promise.resolve();
    expect(takenBy('d')).toBe(1);
    expect(queue.active()).toBe(8);
    // A worker of `a` that is free again goes to whose turn it is.
    queue.done('a/0');
    void queue.take().then((key) => taken.push(key));
    queue.add('e/0');
    await Promise.resolve();
    expect(takenBy('e')).toBe(1);
  });

  test('keeps all workers for keys without a namespace', async () => {
    const queue = createWorkqueue({ workers: 2 });
    queue.add('n1');
    queue.add('n2');
    expect([await queue.take(), await queue.take()]).toEqual(['n1', 'n2']);
  });

  test('says how long keys waited and were worked on, and counts as client-go does', async () => {
    const waited: number[] = [];
    const worked: number[] = [];
    const queue = createWorkqueue({
      onTaken: (seconds) => waited.push(seconds),
      onDone: (seconds) => worked.push(seconds),
    });
    queue.add('a');
    queue.add('a');
    queue.addAfter('b', 1_000);
    vi.advanceTimersByTime(2_000);
    await queue.take();
    vi.advanceTimersByTime(500);
    queue.done('a');
    expect(waited).toEqual([2]);
    expect(worked).toEqual([0.5]);
    expect([queue.adds(), queue.retries(), queue.depth()]).toEqual([2, 1, 1]);
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

  test('asks for no longer timer than there is: Node would call one at once', () => {
    const queue = createWorkqueue();
    queue.addAfter('a', 2 ** 31 + 5_000);
    vi.advanceTimersToNextTimer().advanceTimersToNextTimer();
    expect(queue.depth()).toBe(1);
  });

  test('backs off per key, longer every time, until the key is forgotten', () => {
    const queue = createWorkqueue({ baseMs: 100, random: () => 1 });
    const cameAfter = (key: string): number => {
      queue.addBackoff(key);
      let waited = 0;
      for (const before = queue.depth(); queue.depth() === before; waited += 10) vi.advanceTimersByTime(10);
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

  test('takes no harm from a key that is done twice', async () => {
    const worked: number[] = [];
    const queue = createWorkqueue({ workers: 4, onDone: (seconds) => worked.push(seconds) });
    queue.add('a/1');
    await queue.take();
    queue.done('a/1');
    queue.done('a/1');
    queue.done('a/2');
    expect([worked, queue.active()]).toEqual([[0], 0]);
    // The namespace still has no more than its share: two of four.
    for (let i = 0; i < 4; i += 1) queue.add(`a/${i}`);
    const taken: string[] = [];
    for (let i = 0; i < 4; i += 1) void queue.take().then((key) => taken.push(key ?? ''));
    await vi.waitFor(() => expect(taken).toEqual(['a/0', 'a/1']));
  });

  test('that is shut down takes nothing in for later either', () => {
    const queue = createWorkqueue();
    queue.shutDown();
    queue.addAfter('a', 1_000);
    queue.addAfter('a', 0);
    expect(vi.getTimerCount()).toBe(0);
    expect(queue.depth()).toBe(0);
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
      fc.record({ kind: fc.constant('add' as const), key: fc.constantFrom('a', 'b', 'n/a', 'n/b', 'm/a') }),
      fc.record({ kind: fc.constant('low' as const), key: fc.constantFrom('a', 'b', 'n/a', 'n/b', 'm/a') }),
      fc.record({ kind: fc.constant('take' as const), key: fc.constant('') }),
      fc.record({ kind: fc.constant('done' as const), key: fc.constantFrom('a', 'b', 'n/a', 'n/b', 'm/a') }),
    );
    return fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        let priority: Priority = 'normal';
        const queue = createWorkqueue({ priorityOf: () => priority });
        const active = new Set<string>();
        /** Added and not taken since. */
        const owed = new Set<string>();
        const take = async (): Promise<void> => {
          const key = (await queue.take()) ?? '';
          expect(active.has(key)).toBe(false);
          expect(owed.delete(key)).toBe(true);
          active.add(key);
        };
        for (const { kind, key } of steps)
          if (kind === 'add' || kind === 'low') {
            priority = kind === 'low' ? 'low' : 'normal';
            queue.add(key);
            owed.add(key);
          } else if (kind === 'take' && queue.depth() > 0) await take();
          else if (kind === 'done' && active.delete(key)) queue.done(key);
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
