import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { createController, keyOf, splitKey } from '../../../src/controller/controller.ts';
import type { ControllerOptions, ReconcileOutcome } from '../../../src/controller/controller.ts';
import { waiting } from '../../../src/controller/outcome.ts';

function start(options: Partial<ControllerOptions>) {
  const outcomes: ReconcileOutcome[] = [];
  const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const controller = createController({
    name: 'test',
    log,
    reconcile: () => Promise.resolve(),
    backoff: { baseMs: 1, maxMs: 2 },
    metrics: {
      workqueue: () => undefined,
      queued: () => undefined,
      worked: () => undefined,
      reconciled: (_name, outcome) => void outcomes.push(outcome),
    },
    ...options,
  });
  const stop = new AbortController();
  const run = controller.run(stop.signal);
  return { controller, outcomes, log, stop: async () => (stop.abort(), run) };
}

describe('before it runs', () => {
  const metrics = () => {
    const state: { depth?: () => number } = {};
    return {
      state,
      workqueue: (_name: string, queue: { depth(): number }) => void (state.depth = () => queue.depth()),
    };
  };

  test('a controller has no work that is late, and then a pass for each key', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const passes: string[] = [];
    const { state, workqueue } = metrics();
    const waited: number[] = [];
    const controller = createController({
      name: 'test',
      log: { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() },
      reconcile: async (key) => void passes.push(key),
      metrics: {
        workqueue,
        queued: (_name, seconds) => void waited.push(seconds),
        worked: () => undefined,
        reconciled: () => undefined,
      },
    });
    for (const key of ['a', 'b', 'a']) controller.enqueue(key);
    expect(state.depth?.()).toBe(0);
    expect(passes).toEqual([]);
    vi.advanceTimersByTime(3_600_000);
    const stop = new AbortController();
    const run = controller.run(stop.signal);
    await vi.waitFor(() => expect(passes).toEqual(['a', 'b']));
    expect(Math.max(...waited)).toBeLessThan(3_600);
    stop.abort();
    await run;
  });

  test('it forgets the keys of objects that are gone', async () => {
    const there = new Set(['a', 'b']);
    const passes: string[] = [];
    const controller = createController({
      name: 'test',
      log: { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() },
      isThere: (key) => there.has(key),
      reconcile: async (key) => void passes.push(key),
    });
    for (const key of ['a', 'b', 'never']) controller.enqueue(key);
    there.delete('a');
    controller.enqueue('a');
    const stop = new AbortController();
    const run = controller.run(stop.signal);
    await vi.waitFor(() => expect(passes).toEqual(['b']));
    // One that works looks at what is gone, too.
    controller.enqueue('a');
    await vi.waitFor(() => expect(passes).toEqual(['b', 'a']));
    stop.abort();
    await run;
  });
});

describe('a controller', () => {
  test('reconciles keys at the same time, up to its workers, but never one key twice at once', async () => {
    const active: string[] = [];
    let most = 0;
    const passes: string[] = [];
    const { controller, stop } = start({
      workers: 3,
      async reconcile(key) {
        expect(active).not.toContain(key);
        active.push(key);
        most = Math.max(most, active.length);
        await new Promise((resolve) => setImmediate(resolve));
        active.splice(active.indexOf(key), 1);
        passes.push(key);
      },
    });
    for (let round = 0; round < 20; round += 1) {
      ['a', 'b', 'c', 'd', 'e'].forEach((key) => controller.enqueue(key));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await vi.waitFor(() => expect(controller.pending()).toBe(0));
    expect(most).toBe(3);
    expect(new Set(passes)).toEqual(new Set(['a', 'b', 'c', 'd', 'e']));
    await stop();
  });

  test('leaves workers to other namespaces while the passes of one take long', async () => {
    const stuck = Promise.withResolvers<void>();
    const passes: string[] = [];
    const { controller, stop } = start({
      workers: 8,
      async reconcile(key) {
        if (key.startsWith('silent/')) await stuck.promise;
        else passes.push(key);
      },
    });
    for (let i = 0; i < 100; i += 1) controller.enqueue(`silent/${i}`);
    controller.enqueue('other/a');
    await vi.waitFor(() => expect(passes).toEqual(['other/a']));
    stuck.resolve();
    await vi.waitFor(() => expect(controller.pending()).toBe(0));
    await stop();
  });

  test('lets timers have their turn, however many keys there are and even if no pass waits for anything', async () => {
    let passes = 0;
    const { controller, stop } = start({
      workers: 8,
      reconcile() {
        passes += 1;
        const ends = performance.now() + 0.05;
        while (performance.now() < ends);
        return Promise.resolve();
      },
    });
    const keys = 4_000;
    for (let key = 0; key < keys; key += 1) controller.enqueue(`team/${key}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
    expect(passes).toBeLessThan(keys);
    await vi.waitFor(() => expect(controller.pending()).toBe(0), { timeout: 50_000 });
    expect(passes).toBe(keys);
    await stop();
  }, 60_000);

  test('begins one pass after the other as long as timers are not late', async () => {
    // Time stands still: they never are.
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    let passes = 0;
    const { controller, stop } = start({ reconcile: () => Promise.resolve(void (passes += 1)) });
    for (let key = 0; key < 100; key += 1) controller.enqueue(`${key}`);
    for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(passes).toBe(100);
    await stop();
  });

  test.each<[string, unknown, ReconcileOutcome, 'debug' | 'info' | 'warn']>([
    ['a conflict is retried quietly', new Svc3Error('Conflict', 'x'), 'conflict', 'debug'],
    [
      'an object that exists already is retried quietly',
      new Svc3Error('AlreadyExists', 'x'),
      'conflict',
      'debug',
    ],
    ['any other error is retried with a warning', new Error('x'), 'error', 'warn'],
    ['waiting is retried quietly', waiting('x', 1), 'waiting', 'debug'],
  ])('%s', async (_sentence, error, outcome, level) => {
    let left = 2;
    const { controller, outcomes, log, stop } = start({
      reconcile: () => (left-- > 0 ? Promise.reject(error) : Promise.resolve()),
    });
    controller.enqueue('ns/a');
    await vi.waitFor(() => expect(outcomes).toEqual([outcome, outcome, 'done']));
    expect(log[level]).toHaveBeenCalledTimes(2);
    expect(log[level]).toHaveBeenCalledWith(
      expect.objectContaining({
        controller: 'test',
        namespace: 'ns',
        name: 'a',
        reconcileId: expect.any(String),
      }),
      expect.any(String),
    );
    await stop();
  });

  test('what asks to be looked at again is', async () => {
    let passes = 0;
    const { controller, stop } = start({
      reconcile: () => Promise.resolve(++passes < 3 ? { requeueAfterMs: 1 } : {}),
    });
    controller.enqueue('a');
    await vi.waitFor(() => expect(passes).toBe(3));
    await stop();
  });

  test('nothing runs while the gate is closed, and the keys wait', async () => {
    let open = false;
    const gate = { isHeld: () => open, assertHeld: () => undefined };
    const passes: string[] = [];
    const { controller, stop } = start({ gate, reconcile: (key) => Promise.resolve(void passes.push(key)) });
    controller.enqueue('a');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(passes).toEqual([]);
    open = true;
    await vi.waitFor(() => expect(passes).toEqual(['a']), { timeout: 5_000 });
    await stop();
  });

  test('that is stopped finishes the pass under way and begins no other', async () => {
    const finish = Promise.withResolvers<void>();
    const passes: string[] = [];
    const { controller, stop } = start({
      async reconcile(key, { signal }) {
        await finish.promise;
        passes.push(`${key} ${signal.aborted}`);
      },
    });
    controller.enqueue('a');
    controller.enqueue('b');
    await vi.waitFor(() => expect(controller.pending()).toBe(2));
    const stopped = stop();
    finish.resolve();
    await stopped;
    expect(passes).toEqual(['a true']);
  });
});

test('keys are made and read', () => {
  expect(keyOf({ metadata: { namespace: 'ns', name: 'a' } })).toBe('ns/a');
  expect(keyOf({ metadata: { name: 'a' } })).toBe('a');
  expect(splitKey('ns/a')).toEqual({ namespace: 'ns', name: 'a' });
  expect(splitKey('a')).toEqual({ namespace: undefined, name: 'a' });
});
