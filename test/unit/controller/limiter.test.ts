import { describe, expect, test, vi } from 'vitest';
import { CallLimiter } from '../../../src/controller/limiter.ts';

const never = new AbortController().signal;

/** Calls that end when they are told to. */
function calls(limiter: CallLimiter) {
  const underWay: { name: string; end(): void }[] = [];
  return {
    names: () => underWay.map(({ name }) => name),
    start(namespace: string, host: string, signal = never): Promise<void> {
      return limiter.run(namespace, host, signal, async () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        const call = { name: `${namespace}@${host}`, end: resolve };
        underWay.push(call);
        await promise;
        underWay.splice(underWay.indexOf(call), 1);
      });
    },
    end: (name: string) => underWay.find((call) => call.name === name)?.end(),
  };
}

describe('calls to hosts', () => {
  test('are limited by host and namespace, and leave places to others', async () => {
    const made = calls(new CallLimiter({ total: 8, perHost: 4 }));
    for (let i = 0; i < 10; i += 1) void made.start('a', 'silent');
    for (let i = 0; i < 10; i += 1) void made.start('a', `host-${i}`);
    await vi.waitFor(() => expect(made.names()).toHaveLength(4));
    expect(made.names().filter((name) => name === 'a@silent')).toHaveLength(2);
    void made.start('b', 'silent');
    await vi.waitFor(() => expect(made.names()).toContain('b@silent'));
  });

  test('of a namespace to one host take nothing of what it may have to another', async () => {
    const made = calls(new CallLimiter({ total: 100, perHost: 2 }));
    for (const host of ['x', 'y', 'z']) for (let i = 0; i < 2; i += 1) void made.start('a', host);
    await vi.waitFor(() => expect(made.names()).toEqual(['a@x', 'a@y', 'a@z']));
  });

  test('of other namespaces have their turn when a place is free', async () => {
    const made = calls(new CallLimiter({ total: 2, perHost: 2 }));
    for (let i = 0; i < 10; i += 1) void made.start('a', 'x');
    void made.start('b', 'x');
    await vi.waitFor(() => expect(made.names()).toEqual(['a@x', 'b@x']));
    void made.start('c', 'y');
    made.end('b@x');
    await vi.waitFor(() => expect(made.names()).toEqual(['a@x', 'c@y']));
  });

  test('are given up while they wait, and not once they have begun', async () => {
    const made = calls(new CallLimiter({ total: 2, perHost: 2 }));
    const giveUp = new AbortController();
    const begun = made.start('a', 'x', giveUp.signal);
    await vi.waitFor(() => expect(made.names()).toEqual(['a@x']));
    const waits = made.start('a', 'x', giveUp.signal);
    giveUp.abort(new Error('too late'));
    await expect(waits).rejects.toThrow('too late');
    await expect(made.start('a', 'x', giveUp.signal)).rejects.toThrow('too late');
    made.end('a@x');
    await expect(begun).resolves.toBeUndefined();
    void made.start('a', 'x');
    await vi.waitFor(() => expect(made.names()).toEqual(['a@x']));
  });
});
