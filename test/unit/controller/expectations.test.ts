import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  expectationMs,
  createExpectations,
  type Expectations,
} from '../../../src/controller/expectations.ts';
import type { KubeObject } from '../../../src/api/object.ts';

const at = (resourceVersion: string, uid = 'a'): KubeObject => ({ metadata: { uid, resourceVersion } });

describe('what was written and the cache does not show yet', () => {
  let expectations: Expectations<KubeObject>;
  let expired: string[];

  beforeEach(() => {
    vi.useFakeTimers();
    expired = [];
    expectations = createExpectations((key) => expired.push(key));
  });
  afterEach(() => vi.useRealTimers());

  test('is taken instead of an older cached object', () => {
    expectations.wrote('k', at('10'));
    expect(expectations.current('k', at('9'))).toEqual(at('10'));
  });

  test('is forgotten when the cache has it or something newer, also by number and not by text', () => {
    expectations.wrote('k', at('99'));
    expect(expectations.current('k', at('100'))).toEqual(at('100'));
    expect(expectations.current('k', at('98'))).toEqual(at('98'));
  });

  test('is there before the cache has any object, for a while; then somebody is told', () => {
    expectations.wrote('k', at('10'));
    expect(expectations.current('k', undefined)).toEqual(at('10'));
    vi.advanceTimersByTime(expectationMs + 1);
    expect(expectations.current('k', undefined)).toBeUndefined();
    expect(expired).toEqual(['k']);
  });

  test('is forgotten when the cache saw it come and go', () => {
    expectations.wrote('k', at('10'));
    expect(expectations.observe('k', at('11'))).toBe(false);
    expect(expectations.current('k', undefined)).toBeUndefined();
    vi.advanceTimersByTime(expectationMs + 1);
    expect(expired).toEqual([]);
  });

  test('is known again when the cache shows that very write', () => {
    expectations.wrote('k', at('10'));
    expect(expectations.observe('k', at('10'))).toBe(true);
    expect(expectations.observe('k', at('10'))).toBe(false);
  });

  test('does not come back from an older change', () => {
    expectations.wrote('k', at('10'));
    expect(expectations.observe('k', at('9'))).toBe(false);
    expect(expectations.current('k', at('9'))).toEqual(at('10'));
  });

  test('is gone when it was deleted, until another object is there or time has passed', () => {
    expectations.deleted('k', at('10'));
    expect(expectations.current('k', at('10'))).toBeUndefined();
    expect(expectations.current('k', at('12', 'b'))).toEqual(at('12', 'b'));
    expectations.deleted('k', at('10'));
    vi.advanceTimersByTime(expectationMs + 1);
    expect(expectations.current('k', at('10'))).toEqual(at('10'));
  });

  test('expires not after all is forgotten', () => {
    expectations.wrote('k', at('10'));
    expectations.clear();
    vi.advanceTimersByTime(expectationMs + 1);
    expect(expired).toEqual([]);
  });

  test('is told of in its turn, whatever the order of the writes', () => {
    expectations.wrote('k', at('10'));
    vi.advanceTimersByTime(expectationMs - 500);
    expectations.wrote('l', at('11'));
    vi.advanceTimersByTime(499);
    expect(expired).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(expired).toEqual(['k']);
    expect(expectations.current('l', undefined)).toEqual(at('11'));
    vi.advanceTimersByTime(expectationMs);
    expect(expired).toEqual(['k', 'l']);
  });

  test('is looked at when it is late, and not before', () => {
    expectations.wrote('k', at('10'));
    // One timer, and the turn of the event loop in which the watch is read before it.
    vi.advanceTimersToNextTimer().advanceTimersToNextTimer();
    expect(expired).toEqual(['k']);
  });

  test('begins anew with every write', () => {
    expectations.wrote('k', at('10'));
    expectations.wrote('l', at('10'));
    vi.advanceTimersByTime(expectationMs - 500);
    expectations.wrote('k', at('12'));
    vi.advanceTimersByTime(600);
    expect(expired).toEqual(['l']);
    expect(expectations.current('k', undefined)).toEqual(at('12'));
    vi.advanceTimersByTime(expectationMs);
    expect(expired).toEqual(['l', 'k']);
  });

  test('is told of by a watcher that writes again at once', () => {
    let again = 0;
    const own: Expectations<KubeObject> = createExpectations((key) => {
      if (again++ === 0) own.wrote(key, at('11'));
    });
    own.wrote('k', at('10'));
    vi.advanceTimersByTime(expectationMs + 1);
    expect([again, own.current('k', undefined)]).toEqual([1, at('11')]);
    vi.advanceTimersByTime(expectationMs + 1);
    expect([again, own.current('k', undefined)]).toEqual([2, undefined]);
  });

  test('is another thing under another key', () => {
    expectations.wrote('k', at('10'));
    expect(expectations.observe('l', at('10'))).toBe(false);
    expect(expectations.current('l', at('1'))).toEqual(at('1'));
    expect(expectations.current('l', undefined)).toBeUndefined();
  });

  test('was no write of ours when the cache shows what was deleted', () => {
    expectations.deleted('k', at('10'));
    expect(expectations.observe('k', at('10'))).toBe(false);
    expect(expectations.current('k', at('10'))).toEqual(at('10'));
  });

  test('stays gone while the cache shows something older of it', () => {
    expectations.deleted('k', at('10'));
    expect(expectations.observe('k', at('9'))).toBe(false);
    expect(expectations.current('k', at('9'))).toBeUndefined();
  });

  test('is forgotten when the cache has no object of that UID any more', () => {
    expectations.deleted('k', at('10'));
    expect(expectations.current('k', undefined)).toBeUndefined();
    vi.advanceTimersByTime(expectationMs + 1);
    expect(expired).toEqual([]);
  });

  test('of a server that tells no version is not taken instead of what the cache has', () => {
    expectations.wrote('k', { metadata: { name: 'x' } });
    expect(expectations.current('k', at('1'))).toEqual(at('1'));
  });

  test('counts again after all was forgotten', () => {
    expectations.wrote('k', at('10'));
    expectations.clear();
    expect(expectations.current('k', undefined)).toBeUndefined();
    expectations.wrote('k', at('12'));
    vi.advanceTimersByTime(expectationMs + 1);
    expect(expired).toEqual(['k']);
  });
});

/** Two ends of a connection: what the one writes the kernel has at once. */
async function connected(): Promise<{ readonly client: Socket; readonly server: Socket }> {
  const listening = createServer().listen(0, '127.0.0.1');
  await once(listening, 'listening');
  const accepted = once(listening, 'connection') as Promise<[Socket]>;
  const client = connect((listening.address() as AddressInfo).port, '127.0.0.1');
  const [[server]] = await Promise.all([accepted, once(client, 'connect')]);
  listening.close();
  onTestFinished(() => [client, server].forEach((end) => end.destroy()));
  return { client, server };
}

test('what the server has said before the process had its turn again counts first: only then is a write late', async () => {
  const expired: string[] = [];
  const expectations = createExpectations<KubeObject>((key) => expired.push(key), 20);
  const watch = await connected();
  const heard = once(watch.client, 'data').then(() => expectations.observe('k', at('10')));
  expectations.wrote('k', at('10'));
  expectations.wrote('l', at('11'));
  // As on a machine that has much else to do: the answer of the watch lies there, and the time is over.
  watch.server.write('an event');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  expect(await heard).toBe(true);
  await expect.poll(() => expired).toEqual(['l']);
});
