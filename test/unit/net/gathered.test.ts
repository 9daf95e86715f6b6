import { expect, test } from 'vitest';
import { Gathered } from '../../../src/net/gathered.ts';

const kibibyte = 1024;
const piece = (length: number, of = 'a') => Buffer.alloc(length, of);

test('one piece is kept as it is', () => {
  const gathered = new Gathered();
  const only = piece(3);
  expect(gathered.growthFor(only)).toBe(3);
  gathered.add(only);
  expect(gathered.length).toBe(3);
  const bytes = gathered.take();
  expect([bytes.buffer, bytes.byteOffset, bytes.length]).toEqual([only.buffer, only.byteOffset, 3]);
});

test('nothing is an empty piece', () => {
  expect(new Gathered().take()).toEqual(Buffer.alloc(0));
});

test('pieces come one behind the other, and are copied', () => {
  const gathered = new Gathered();
  const first = new Uint8Array([1, 2]);
  const second = Buffer.from([3]);
  for (const each of [first, second, Buffer.alloc(0), Buffer.from([4, 5])]) gathered.add(each);
  first.fill(9);
  second.fill(9);
  expect(gathered.length).toBe(5);
  expect([...gathered.take()]).toEqual([1, 2, 3, 4, 5]);
});

test('nothing is kept of what was taken', () => {
  const gathered = new Gathered();
  gathered.add(piece(2));
  gathered.add(piece(2));
  gathered.take();
  expect([gathered.length, gathered.take().length]).toEqual([0, 0]);
  gathered.add(piece(1, 'b'));
  expect(gathered.take().toString()).toBe('b');
});

/** What each of the pieces would take, as they come. */
function growths(gathered: Gathered, lengths: readonly number[]): number[] {
  return lengths.map((length) => {
    const next = piece(length);
    const growth = gathered.growthFor(next);
    gathered.add(next);
    return growth;
  });
}

test('memory is taken for twice what has come, and says so before', () => {
  const k = kibibyte;
  expect(growths(new Gathered(), [1, 1, 16 * k - 2, 1, 16 * k - 1, 40 * k])).toEqual([
    1,
    16 * k - 1,
    0,
    16 * k,
    0,
    40 * k,
  ]);
});

test('no more is taken than will come', () => {
  expect(growths(new Gathered(100), [1, 1, 98])).toEqual([1, 99, 0]);
  // Whoever sends more than was said has to be refused by whoever reads.
  expect(growths(new Gathered(100), [60, 60])).toEqual([60, 60]);
});
