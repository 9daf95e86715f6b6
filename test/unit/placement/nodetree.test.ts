import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Entry, NodeTree } from '../../../src/placement/nodetree.ts';
import {
  CPU,
  emptyVector,
  GPU,
  missing,
  needOf,
  type ResourceVector,
} from '../../../src/placement/resources.ts';

function vector(cpu: number, gpu: number): ResourceVector {
  const amounts = emptyVector();
  amounts[CPU] = cpu;
  amounts[GPU] = gpu;
  return amounts;
}

const entry = fc
  .record({
    name: fc.integer({ min: 0, max: 60 }).map((i) => `n${i}`),
    score: fc.constantFrom(0, 0.25, 0.5, 1),
    cpu: fc.integer({ min: 0, max: 3 }),
    gpu: fc.integer({ min: 0, max: 1 }),
  })
  .map(({ name, score, cpu, gpu }): Entry => ({ name, score, free: vector(cpu, gpu) }));

const entries = fc.uniqueArray(entry, { maxLength: 40, size: 'max', selector: ({ name }) => name });

/** The freest first, then by name. */
const inOrder = (list: readonly Entry[]): Entry[] =>
  list.toSorted((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1));

describe('the nodes of a class', () => {
  test('are found and counted as in a sorted list, after any of them were added and taken out', () => {
    fc.assert(
      fc.property(
        entries,
        fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
        fc.boolean(),
        fc.integer({ min: 0, max: 3 }),
        fc.integer({ min: 0, max: 1 }),
        (all, isTaken, packed, cpu, gpu) => {
          const tree = new NodeTree<Entry>();
          for (const each of all) tree.insert(each);
          for (const [i, each] of all.entries()) if (isTaken[i]) tree.remove(each);
          const left = inOrder(all.filter((_, i) => !isTaken[i]));
          const need = needOf(vector(cpu, gpu));
          const looked: Entry[] = [];
          const refuseAll = (each: Entry): boolean => (looked.push(each), false);
          expect(tree.first(need, packed, refuseAll)).toBeUndefined();
          const fitting = left.filter(({ free }) => missing(free, need) === 0);
          expect(looked).toEqual(packed ? fitting.toReversed() : fitting);
          expect(tree.first(need, packed, () => true)).toBe(looked[0]);
          expect(tree.size).toBe(left.length);
          const counts = new Map<number, number>();
          tree.countMissing(need, counts);
          const expected = Map.groupBy(left, ({ free }) => missing(free, need));
          expect(counts).toEqual(new Map([...expected].map(([mask, some]) => [mask, some.length])));
        },
      ),
      { numRuns: 500 },
    );
  });

  /** Entries that count how often somebody looks where they stand. */
  function counting(count: number): { entries: Entry[]; looks: () => number } {
    let looks = 0;
    const entries = Array.from({ length: count }, (_, i) => ({
      name: `node-${String(i).padStart(5, '0')}`,
      get score() {
        looks++;
        return 0.5;
      },
      free: vector(i === count - 1 ? 8 : 1, 0),
    }));
    return {
      entries,
      looks: () => {
        const seen = looks;
        looks = 0;
        return seen;
      },
    };
  }

  test('are kept at the cost of a logarithm, also when they come in order', () => {
    const { entries, looks } = counting(4_096);
    const tree = new NodeTree<Entry>();
    for (const each of entries) tree.insert(each);
    // A balanced tree is 12 deep, a treap about 2.3 times that; two reads for a comparison. A list would take 4,096.
    expect(looks() / entries.length).toBeLessThan(12 * 2.3 * 2);
    for (const each of entries) tree.remove(each);
    expect(looks() / entries.length).toBeLessThan(12 * 2.3 * 2);
  });

  test('are found and counted without looking at each', () => {
    const tree = new NodeTree<Entry>();
    let reads = 0;
    const { entries } = counting(4_096);
    for (const each of entries)
      tree.insert({
        name: each.name,
        score: 0.5,
        get free() {
          reads++;
          return each.free;
        },
      });
    reads = 0;
    expect(tree.first(needOf(vector(8, 0)), false, () => true)?.name).toBe('node-04095');
    const counts = new Map<number, number>();
    tree.countMissing(needOf(vector(8, 0)), counts);
    expect(counts).toEqual(
      new Map([
        [1 << CPU, 4_095],
        [0, 1],
      ]),
    );
    expect(reads).toBeLessThan(100);
  });
});
