import { expect, test } from 'vitest';
import { PageTurns } from '../../../src/kube/pages.ts';

/** Pages that end when they are told to; the readers of those that have begun, in order. */
function reading(most: number) {
  const turns = new PageTurns(most);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  return {
    begun,
    read: (reader: string) =>
      turns.read(reader, () => {
        begun.push(reader);
        return new Promise<void>((resolve) => ends.push(resolve));
      }),
    async endOne(): Promise<void> {
      ends.shift()?.();
      // The place is handed on in microtasks.
      await new Promise((resolve) => setImmediate(resolve));
    },
    turns,
  };
}

test('readers take turns, however many pages of one wait', async () => {
  const { begun, read, endOne } = reading(1);
  const all = ['a', 'a', 'a', 'b', 'c'].map((reader) => read(reader));
  for (let ended = 0; ended < all.length; ended += 1) await endOne();
  await Promise.all(all);
  expect(begun).toEqual(['a', 'a', 'b', 'c', 'a']);
});

test('one reader has one place, whoever waits: a page that does not come holds up its own reader alone', async () => {
  const { begun, read, endOne } = reading(2);
  const all = ['a', 'a', 'b', 'a', 'b'].map((reader) => read(reader));
  expect(begun).toEqual(['a', 'b']);
  for (let ended = 0; ended < all.length; ended += 1) await endOne();
  await Promise.all(all);
  expect(begun).toEqual(['a', 'b', 'a', 'b', 'a']);
});

test('as many are read at the same time as may be, and as many again afterwards', async () => {
  const { begun, read, endOne } = reading(2);
  const all = ['a', 'b', 'c'].map((reader) => read(reader));
  expect(begun).toEqual(['a', 'b']);
  for (let ended = 0; ended < all.length; ended += 1) await endOne();
  await Promise.all(all);
  void read('d');
  void read('e');
  void read('f');
  expect(begun).toEqual(['a', 'b', 'c', 'd', 'e']);
});

test('a page that cannot be read leaves its place to the next', async () => {
  const { turns } = reading(1);
  const failed = turns.read('a', () => Promise.reject(new Error('no')));
  const next = turns.read('b', () => Promise.resolve('read'));
  await expect(failed).rejects.toThrow('no');
  expect(await next).toBe('read');
});

test('who gives up while it waits leaves its turn to others', async () => {
  const { begun, read, endOne, turns } = reading(1);
  const first = read('a');
  const giveUp = new AbortController();
  const given = turns.read('b', () => Promise.resolve('read'), giveUp.signal);
  const last = read('c');
  giveUp.abort(new Error('given up'));
  await expect(given).rejects.toThrow('given up');
  await endOne();
  await endOne();
  await Promise.all([first, last]);
  expect(begun).toEqual(['a', 'c']);
});
