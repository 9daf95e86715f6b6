import { expect, test } from 'vitest';
import { AdmissionQueue } from '../../../../src/http/auth/admissionqueue.ts';

/** Work that ends when it is told to; the names of what has begun, in order. */
function workshop(limits: { running: number; waitingPerKey: number; waiting: number }) {
  const queue = new AdmissionQueue({ ...limits, what: 'calls' });
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  let names = 0;
  return {
    begun,
    run(key: string): Promise<void> {
      const name = `${key}${(names += 1)}`;
      return queue.run(key, () => {
        begun.push(name);
        return new Promise((resolve) => ends.push(resolve));
      });
    },
    async endOne(): Promise<void> {
      ends.shift()?.();
      // The place is handed on in microtasks.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('keys take turns, however many of one wait', async () => {
  const { begun, run, endOne } = workshop({ running: 1, waitingPerKey: 10, waiting: 100 });
  const all = ['a', 'a', 'a', 'a', 'b', 'b', 'c'].map((key) => run(key));
  for (let ended = 0; ended < all.length; ended += 1) await endOne();
  await Promise.all(all);
  expect(begun).toEqual(['a1', 'a2', 'b5', 'c7', 'a3', 'b6', 'a4']);
});

test('as many run at the same time as may', async () => {
  const { begun, run, endOne } = workshop({ running: 2, waitingPerKey: 10, waiting: 100 });
  const all = ['a', 'a', 'a', 'a', 'a'].map((key) => run(key));
  expect(begun).toHaveLength(2);
  await endOne();
  expect(begun).toHaveLength(3);
  for (let ended = 0; ended < 4; ended += 1) await endOne();
  await Promise.all(all);
  const next = run('b');
  expect(begun.at(-1)).toBe('b6');
  await endOne();
  await next;
});

test('one key that has too many waiting is refused, others are not', async () => {
  const { run } = workshop({ running: 1, waitingPerKey: 2, waiting: 100 });
  void ['a', 'a', 'a'].map((key) => run(key));
  await expect(run('a')).rejects.toMatchObject({
    reason: 'TooManyRequests',
    message: 'more than 2 calls from one address wait, try again later',
    details: { retryAfterSeconds: 1 },
  });
  void run('b');
});

test('of a key that has had its turns as many may wait again', async () => {
  const { begun, run, endOne } = workshop({ running: 1, waitingPerKey: 2, waiting: 100 });
  const first = ['a', 'a', 'a'].map((key) => run(key));
  await endOne();
  // One of the two has begun: there is room for another, and for no more.
  first.push(run('a'));
  await expect(run('a')).rejects.toMatchObject({ reason: 'TooManyRequests' });
  for (let ended = 0; ended < 3; ended += 1) await endOne();
  await Promise.all(first);
  const again = ['a', 'a', 'a'].map((key) => run(key));
  await expect(run('a')).rejects.toMatchObject({ reason: 'TooManyRequests' });
  for (let ended = 0; ended < 3; ended += 1) await endOne();
  await Promise.all(again);
  expect(begun).toHaveLength(7);
});

test('nobody waits where too many do', async () => {
  const { run } = workshop({ running: 1, waitingPerKey: 2, waiting: 3 });
  void ['a', 'a', 'a', 'b'].map((key) => run(key));
  await expect(run('c')).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
});

test('work that fails leaves its place', async () => {
  const queue = new AdmissionQueue({ running: 1, waitingPerKey: 1, waiting: 1, what: 'calls' });
  const failing = queue.run('a', () => Promise.reject(new Error('no')));
  const next = queue.run('a', () => Promise.resolve('served'));
  await expect(failing).rejects.toThrow('no');
  expect(await next).toBe('served');
});
