import { describe, expect, test } from 'vitest';
import { FairQueue } from '../../src/fairqueue.ts';

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
