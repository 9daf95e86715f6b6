import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { configMaps } from '../../../src/api/resources.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import type { KubeClient, ReflectorTuning, StreamResponse } from '../../../src/kube/types.ts';

/*
 * Which pauses a reflector makes, on a client that only plays one. What it makes of a real kube-apiserver:
 * test/integration/kube/reflector.test.ts.
 */

/** Lists work, each of a later version, as anywhere where somebody writes; watches do what the test says. Tells the failures of its log. */
function follow(watch: (count: number) => AsyncIterable<Uint8Array>, given: Partial<ReflectorTuning> = {}) {
  const calls = { lists: 0, watches: 0 };
  const client = {
    async request() {
      calls.lists += 1;
      return await Promise.resolve({
        body: { items: [], metadata: { resourceVersion: `${calls.lists}00` } },
      });
    },
    async stream(): Promise<StreamResponse> {
      calls.watches += 1;
      const body = watch(calls.watches);
      return await Promise.resolve({ status: 200, headers: {}, body, cancel: () => undefined });
    },
  } as unknown as KubeClient;
  const failures: unknown[] = [];
  const note = (fields: object): void => void failures.push((fields as { failures?: number }).failures);
  const log = { debug: note, info: vi.fn(), warn: note, error: vi.fn() };
  const tuning = { backoffMinMs: 1, backoffMaxMs: 1_000, ...given };
  const informer = createInformer({ client, resource: configMaps, log, tuning });
  const stop = new AbortController();
  const run = informer.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await run;
  });
  return { calls, failures };
}

const within = { timeout: 30_000 };

const line = (type: string, object: object) => Buffer.from(`${JSON.stringify({ type, object })}\n`);
const bookmark = (resourceVersion: string) => line('BOOKMARK', { metadata: { resourceVersion } });
const refusal = (code: number, reason: string) =>
  line('ERROR', { kind: 'Status', code, reason, message: reason });

test('where lists work and watches do not, lists follow each other ever more slowly', async () => {
  const { calls, failures } = follow(() => {
    throw new Svc3Error('Forbidden', 'no watch');
  });
  await expect.poll(() => failures.slice(0, 5)).toEqual([1, 2, 3, 4, 5]);
  expect(calls.lists).toBeLessThan(10);
});

test('a version that is gone is listed anew at once, but not again and again', async () => {
  const { failures } = follow(async function* gone() {
    yield refusal(410, 'Expired');
  });
  await expect.poll(() => failures.slice(0, 5)).toEqual([0, 1, 2, 3, 4]);
});

test('a watch that brought something makes good for those that failed before', async () => {
  const { failures } = follow(async function* third(count) {
    if (count === 3) yield bookmark('301');
    yield refusal(403, 'Forbidden');
  });
  await expect.poll(() => failures.slice(0, 5)).toEqual([1, 2, 0, 1, 2]);
});

describe('watches that bring nothing for as long as they may', () => {
  const shortMs = 5;
  const nothing = Buffer.alloc(0);
  const cut = () => new Svc3Error('Timeout', 'nothing came');
  /** What the transport makes of a silence. */
  const silence = async () => {
    await sleep(2 * shortMs);
    throw cut();
  };
  /** Watches before each list but the first. */
  const silent = (body: (count: number) => AsyncIterable<Uint8Array>, silenceMs = shortMs) => {
    const before: number[] = [];
    const { calls } = follow(
      (count) => {
        if (calls.lists > before.length + 1) before.push(count - 1);
        return body(count);
      },
      { silenceMs, backoffMaxMs: 2 },
    );
    return { calls, before };
  };

  test('lead to a list, ever more seldom: the server may not have come as far as their version', async () => {
    const { before } = silent(async function* empty() {
      yield nothing;
      await silence();
    });
    await expect.poll(() => before.slice(0, 3), within).toEqual([2, 6, 14]);
  });

  test('also where the server says that it has not, or ends them itself', async () => {
    const { before } = silent(async function* old(count) {
      yield bookmark('5');
      await sleep(2 * shortMs);
      if (count === 1) throw cut();
    });
    await expect.poll(() => before[0], within).toBe(2);
  });

  test('lead to none where something came before', async () => {
    const { calls, before } = silent(async function* some(count) {
      if (count % 2 === 0) yield bookmark('100');
      await silence();
    });
    await expect.poll(() => calls.watches, within).toBeGreaterThan(8);
    expect(before).toEqual([]);
  });

  test('are none that are cut before', async () => {
    const { calls, before } = silent(async function* short() {
      yield nothing;
      throw cut();
    }, 60_000);
    await expect.poll(() => calls.watches, within).toBeGreaterThan(8);
    expect(before).toEqual([]);
  });
});
