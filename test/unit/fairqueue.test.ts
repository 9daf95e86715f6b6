import { describe, expect, test } from 'vitest';
import { FairQueue, hasShare } from '../../src/fairqueue.ts';

function queueOf(...items: string[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const item of items) queue.add(item.slice(0, 1), item);
  return queue;
}

function drain(queue: FairQueue<string>): string[] {
  return Array.from({ length: queue.size }, () => queue.take() ?? '');
}

describe('a fair queue', () => {
  test('lets groups take turns, and is first in first out within each', () => {
    expect(drain(queueOf('a1', 'a2', 'a3', 'b1', 'c1', 'b2'))).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  test('holds an item once', () => {
    expect(drain(queueOf('a1', 'a1'))).toEqual(['a1']);
  });

  test('passes over a group that may have no turn, which keeps its place', () => {
    const queue = queueOf('a1', 'b1', 'b2');
    expect(queue.take((group) => group !== 'a')).toBe('b1');
    expect(drain(queue)).toEqual(['a1', 'b2']);
    expect(queueOf('a1').take(() => false)).toBeUndefined();
  });

  test('passes over an item that may not be taken', () => {
    const queue = queueOf('a1', 'a2');
    expect(
      queue.take(
        () => true,
        (item) => item !== 'a1',
      ),
    ).toBe('a2');
    expect(drain(queue)).toEqual(['a1']);
  });

  test('forgets what is taken out of it', () => {
    const queue = queueOf('a1', 'a2', 'b1');
    expect(queue.delete('a', 'a1')).toBe(true);
    expect(queue.delete('a', 'a1')).toBe(false);
    expect(queue.size).toBe(2);
    queue.clear();
    expect(queue.size).toBe(0);
    expect(queue.take()).toBeUndefined();
  });
});

test.each([
  [1, 8, [4]],
  [2, 8, [4, 2]],
  [3, 8, [4, 2, 1]],
  [1, 1, [1]],
  [1, 48, [24]],
])('%i groups that want all of %i places get %j', (groups, places, expected) => {
  const held = Array.from({ length: groups }, () => 0);
  const sum = () => held.reduce((one, other) => one + other, 0);
  for (let group = 0; group < groups; group += 1)
    while (hasShare(held[group] ?? 0, sum(), places)) held[group] = (held[group] ?? 0) + 1;
  expect(held).toEqual(expected);
});
