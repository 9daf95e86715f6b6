import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Event } from '../../../src/api/core.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { seriesLimit } from '../../../src/kube/eventlimits.ts';
import { createRecorder, type Recorder, shortenNote } from '../../../src/kube/recorder.ts';

const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
const create = vi.fn();
const patch = vi.fn();
const dropped = vi.fn();

let recorder: Recorder;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  for (const mock of [create, patch, dropped, ...Object.values(log)]) mock.mockReset();
  create.mockResolvedValue({});
  patch.mockResolvedValue({});
  recorder = createRecorder({ create, patch } as never, {
    component: 'operator',
    instance: 'svc3-operator-0',
    log,
    now: () => new Date('2026-11-01T10:00:00.123Z'),
    onDropped: dropped,
  });
});

afterEach(() => {
  vi.useRealTimers();
});

const vm = (name: string) => ({
  apiVersion: 'svc3.dev/v1',
  kind: 'VM',
  metadata: { name, namespace: 'team', uid: `uid-of-${name}`, resourceVersion: '7' },
});
const tell = (message: string, more: { name?: string; reason?: string; type?: 'Warning' } = {}) =>
  recorder.event(vm(more.name ?? 'web'), {
    type: more.type ?? 'Normal',
    reason: more.reason ?? 'Stopped',
    message,
  });
const times = (count: number, of: (index: number) => void) => {
  for (let index = 0; index < count; index += 1) of(index);
};
const written = () => create.mock.calls.map(([, event]) => event as Event);
/** The notes that were written. */
const notes = async () => {
  await recorder.drain();
  return written().map(({ note }) => note);
};

describe('an event', () => {
  test('says who tells what about which object, and when', async () => {
    tell('it stopped');
    await recorder.drain();
    expect(written()[0]).toEqual({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { namespace: 'team', name: expect.stringMatching(/^web\.[0-9a-f]{16}$/) },
      eventTime: '2026-11-01T10:00:00.123000Z',
      reportingController: 'svc3.dev/operator',
      reportingInstance: 'svc3-operator-0',
      action: 'Stopped',
      reason: 'Stopped',
      type: 'Normal',
      note: 'it stopped',
      regarding: {
        apiVersion: 'svc3.dev/v1',
        kind: 'VM',
        name: 'web',
        namespace: 'team',
        uid: 'uid-of-web',
        resourceVersion: '7',
      },
    });
  });

  test('about an object without a namespace is written in default', async () => {
    recorder.event(
      { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } },
      { type: 'Normal', reason: 'Up', message: '' },
    );
    await recorder.drain();
    expect(written()[0]).toMatchObject({
      metadata: { namespace: 'default' },
      regarding: { kind: 'Node', name: 'n1' },
    });
  });

  test('never makes its caller fail', () => {
    recorder.event({ metadata: undefined as never }, undefined as never);
    expect(log.debug).toHaveBeenCalledOnce();
  });

  test('has a note that is cut between characters', () => {
    expect(shortenNote('short')).toBe('short');
    expect(shortenNote('a\u001b]0;x\u0007b')).toBe('a ]0;x b');
    expect(shortenNote('x'.repeat(1_024))).toHaveLength(1_024);
    expect(shortenNote('x'.repeat(1_025))).toBe(`${'x'.repeat(1_021)}…`);
    // The fourth byte of the limit would be in the middle of an ä.
    expect(shortenNote('äääää', 8)).toBe('ää…');
    expect(Buffer.byteLength(shortenNote('😀'.repeat(400)))).toBeLessThanOrEqual(1_024);
    expect(shortenNote('😀'.repeat(400))).toMatch(/^(😀)+…$/u);
  });
});

describe('the same event again', () => {
  test('is counted and not written anew, once a minute at most', async () => {
    times(5, () => tell('it stopped'));
    expect(await notes()).toEqual(['it stopped']);
    expect(patch).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(60_000);
    const [, target, change] = patch.mock.calls[0] as [unknown, { name: string }, object];
    expect(target).toEqual({
      namespace: 'team',
      name: written()[0]?.metadata.name,
    });
    expect(change).toEqual({
      type: 'merge',
      body: { series: { count: 5, lastObservedTime: '2026-11-01T10:00:00.123000Z' } },
    });
    tell('it stopped');
    await vi.advanceTimersByTimeAsync(59_000);
    expect(patch).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(patch.mock.calls[1]?.[2]).toMatchObject({ body: { series: { count: 6 } } });
  });

  test('is another one after six minutes of silence', async () => {
    tell('it stopped');
    await vi.advanceTimersByTimeAsync(6 * 60_000 - 1);
    tell('it stopped');
    expect(await notes()).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(6 * 60_000);
    tell('it stopped');
    expect(await notes()).toHaveLength(2);
  });

  test('is another one about another object, of another type or with another reason', async () => {
    tell('it stopped');
    tell('it stopped', { name: 'db' });
    tell('it stopped', { reason: 'Suspended' });
    tell('it stopped', { type: 'Warning' });
    expect(await notes()).toHaveLength(4);
  });
});

describe('many events about one object', () => {
  test('with one reason and many messages become one of similar events', async () => {
    times(30, (index) => tell(`message ${index}`, { type: 'Warning' }));
    const told = await notes();
    expect(told).toHaveLength(11);
    expect(told.at(-1)).toBe('(combined from similar events): message 10');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(patch).toHaveBeenCalledOnce();
    expect(patch.mock.calls[0]?.[2]).toMatchObject({ body: { series: { count: 20 } } });
  });

  test('are dropped as a flood where they are only good to know', async () => {
    times(40, (index) => tell('x', { reason: `Reason${index}` }));
    expect(await notes()).toHaveLength(25);
    expect(dropped.mock.calls).toEqual(Array.from({ length: 15 }, () => ['flood']));
  });

  test('are never dropped where they tell of a failure or of a start', async () => {
    times(25, (index) => tell('x', { reason: `Reason${index}` }));
    tell('it failed', { type: 'Warning', reason: 'Failed' });
    tell('it booted', { reason: 'Booted' });
    expect((await notes()).slice(25)).toEqual(['it failed', 'it booted']);
    expect(dropped).not.toHaveBeenCalled();
  });

  test('that were dropped are told when they come again later', async () => {
    times(26, (index) => tell('x', { reason: `Reason${index}` }));
    await vi.advanceTimersByTimeAsync(60_000);
    tell('x', { reason: 'Reason25' });
    expect(await notes()).toHaveLength(26);
  });
});

describe('a repeat of an event that is not there', () => {
  test('because it was deleted is written anew, once its count has found that out', async () => {
    tell('it stopped');
    await recorder.drain();
    patch.mockRejectedValueOnce(new Svc3Error('NotFound', 'it was deleted'));
    tell('it stopped');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(patch).toHaveBeenCalledOnce();
    tell('it stopped');
    expect(await notes()).toEqual(['it stopped', 'it stopped']);
    const [before, after] = written().map(({ metadata }) => metadata.name);
    expect(after).not.toBe(before);
    tell('it stopped');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(patch.mock.calls[1]?.[1]).toMatchObject({ name: after });
  });

  test('because it was given up is written anew at once, and nothing is counted up', async () => {
    create.mockRejectedValueOnce(new Svc3Error('ServiceUnavailable', 'away'));
    tell('it stopped');
    tell('it stopped');
    await recorder.drain();
    expect(dropped).toHaveBeenCalledExactlyOnceWith('unreachable');
    tell('it stopped');
    expect(await notes()).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(patch).not.toHaveBeenCalled();
  });

  test('because it was refused is not: it would be refused again', async () => {
    create.mockRejectedValueOnce(new Svc3Error('Forbidden', 'the namespace is being deleted'));
    tell('it stopped');
    await recorder.drain();
    tell('it stopped');
    expect(await notes()).toHaveLength(1);
  });

  test('leaves a newer one of its series alone', async () => {
    const answer = Promise.withResolvers<object>();
    tell('it stopped');
    tell('it stopped');
    await vi.advanceTimersByTimeAsync(59_000);
    patch.mockReturnValueOnce(answer.promise);
    await vi.advanceTimersByTimeAsync(1_000);
    await vi.advanceTimersByTimeAsync(6 * 60_000);
    tell('it stopped');
    answer.reject(new Svc3Error('NotFound', 'it was deleted'));
    await recorder.drain();
    tell('it stopped');
    expect(await notes()).toHaveLength(2);
  });
});

test('a series that is forgotten for newer ones has its count written first', async () => {
  tell('it stopped');
  tell('it stopped');
  times(seriesLimit, (index) => tell('x', { name: `vm-${index}` }));
  await recorder.drain();
  expect(patch).toHaveBeenCalledOnce();
  tell('it stopped');
  await recorder.drain();
  expect(create).toHaveBeenCalledTimes(seriesLimit + 2);
});

test('an event that the namespace refuses is counted as dropped', async () => {
  create.mockRejectedValue(new Svc3Error('NotFound', 'no namespace'));
  tell('it stopped');
  await recorder.drain();
  expect(dropped).toHaveBeenCalledWith('refused');
});
