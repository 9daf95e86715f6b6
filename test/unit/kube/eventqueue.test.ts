import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { EventQueue, type EventRank, type EventWrite } from '../../../src/kube/eventqueue.ts';
import { withFakeTimers } from '../timers.ts';

const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };

let written: string[];
let dropped: string[];
/** The first write is under way until it is let go. */
let first: PromiseWithResolvers<void>;
let queue: EventQueue;

beforeEach(() => {
  written = [];
  dropped = [];
  first = Promise.withResolvers();
  vi.clearAllMocks();
  queue = new EventQueue({ log, limitBytes: 300, onDropped: (reason) => dropped.push(reason) });
});

function aWrite(name: string, rank: EventRank = 'important', send = async () => {}): EventWrite {
  const [namespace = ''] = name.split('/');
  return {
    namespace,
    rank,
    bytes: 100,
    async send() {
      await send();
      written.push(name);
    },
  };
}

const blocked = () => aWrite('x/first', 'important', () => first.promise);

async function writeAll(): Promise<string[]> {
  first.resolve();
  await queue.drain();
  return written;
}

describe('events that wait to be written', () => {
  test('are written in order, namespaces taking turns', async () => {
    queue.add(blocked());
    for (const name of ['a/1', 'a/2', 'b/1']) queue.add(aWrite(name));
    expect(await writeAll()).toEqual(['x/first', 'a/1', 'b/1', 'a/2']);
    expect(dropped).toEqual([]);
  });

  test('give way to worthier ones where memory is short', async () => {
    queue.add(blocked());
    for (const name of ['a/count', 'a/info', 'a/failure'])
      queue.add(aWrite(name, name === 'a/count' ? 'count' : name === 'a/info' ? 'information' : 'important'));
    queue.add(aWrite('a/start'));
    queue.add(aWrite('b/start'));
    expect(await writeAll()).toEqual(['x/first', 'a/failure', 'b/start', 'a/start']);
    expect(dropped).toEqual(['queue', 'queue']);
    expect(log.warn).toHaveBeenCalledExactlyOnceWith({ count: 1, reason: 'queue' }, 'events dropped');
  });

  test('of the namespace that has most go first', async () => {
    queue.add(blocked());
    for (const name of ['b/1', 'a/1', 'a/2', 'a/3', 'a/4']) queue.add(aWrite(name));
    expect(await writeAll()).toEqual(['x/first', 'b/1', 'a/3', 'a/4']);
  });

  test('are tried again while kube-apiserver cannot be reached, and given up in the end', async () => {
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let tries = 0;
    const fails = async () => {
      tries += 1;
      if (tries < 5) throw new Svc3Error('ServiceUnavailable', 'not now');
    };
    queue.add(aWrite('a/1', 'important', fails));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(written).toEqual(['a/1']);
    queue.add(aWrite('a/2', 'important', () => Promise.reject(new Svc3Error('Timeout', 'never'))));
    await vi.advanceTimersByTimeAsync(120_000);
    expect(dropped).toEqual(['unreachable']);
  });

  test.each([
    [0, 200],
    [1, 400],
  ])(
    'are not tried again by all processes at the same moment: with chance %d after %d ms',
    async (chance, ms) => {
      withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      const random = vi.spyOn(Math, 'random').mockReturnValue(chance);
      onTestFinished(() => random.mockRestore());
      const send = vi.fn(async () => {}).mockRejectedValueOnce(new Svc3Error('Timeout', 'not now'));
      queue.add(aWrite('a/1', 'important', send));
      await vi.advanceTimersByTimeAsync(ms - 1);
      expect(send).toHaveBeenCalledTimes(1);
      await vi.advanceTimersByTimeAsync(1);
      expect(send).toHaveBeenCalledTimes(2);
    },
  );

  test('hold up a process that ends for so long and no longer: the rest is dropped, and counted', async () => {
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    queue.add(blocked());
    for (const name of ['a/1', 'b/1']) queue.add(aWrite(name));
    let ended = false;
    const draining = queue.drain(3_000).then(() => {
      ended = true;
    });
    await vi.advanceTimersByTimeAsync(2_999);
    expect(ended).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await draining;
    expect(dropped).toEqual(['unreachable', 'unreachable']);
    const told = log.warn.mock.calls.map(([fields]) => (fields as { count: number }).count);
    expect(told.reduce((sum, count) => sum + count)).toBe(2);
    first.resolve();
    await vi.advanceTimersByTimeAsync(1);
    expect(written).toEqual(['x/first']);
  });

  test('hold up a process that ends no longer than it takes to write them', async () => {
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    queue.add(aWrite('a/1'));
    await queue.drain(3_000);
    await queue.drain(3_000);
    expect(written).toEqual(['a/1']);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('tell who recorded them when they are given up', async () => {
    const told: unknown[] = [];
    const lossy = (name: string, more: Partial<EventWrite>): EventWrite => ({
      ...aWrite(name, 'information'),
      onDropped: (reason) => told.push([name, reason]),
      ...more,
    });
    queue.add(lossy('a/refused', { send: () => Promise.reject(new Svc3Error('NotFound', 'no namespace')) }));
    for (const name of ['a/1', 'a/2', 'a/3', 'a/4']) queue.add(lossy(name, {}));
    await queue.drain();
    expect(told).toEqual([
      ['a/1', 'queue'],
      ['a/refused', 'refused'],
    ]);
    queue.add(lossy('a/away', { send: () => Promise.reject(new Svc3Error('Timeout', 'never')) }));
    await queue.drain();
    expect(told.at(-1)).toEqual(['a/away', 'unreachable']);
  });

  test('that are refused are counted, and nothing to warn of', async () => {
    queue.add(aWrite('a/1', 'important', () => Promise.reject(new Svc3Error('NotFound', 'no namespace'))));
    await queue.drain();
    expect(dropped).toEqual(['refused']);
    expect(log.warn).not.toHaveBeenCalled();
  });

  test.each([
    [
      'that is down',
      new Svc3Error('InternalError', 'Internal error occurred: failed calling webhook "a.example.com"'),
    ],
    [
      'that is busy',
      new Svc3Error('ServiceUnavailable', 'admission webhook "a.example.com" denied the request: later'),
    ],
  ])('that a webhook %s refuses do not hold up those of other namespaces', async (_, error) => {
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const send = vi.fn(() => Promise.reject(error));
    queue.add(aWrite('a/1', 'important', send));
    queue.add(aWrite('b/1'));
    await vi.advanceTimersByTimeAsync(1_000);
    expect([written, dropped, send.mock.calls.length]).toEqual([['b/1'], ['refused'], 1]);
    expect(log.warn).not.toHaveBeenCalled();
  });

  test('are written when an answer got lost', async () => {
    queue.add(aWrite('a/1', 'important', () => Promise.reject(new Svc3Error('AlreadyExists', 'x'))));
    await queue.drain();
    expect(dropped).toEqual([]);
  });
});
