import { expect, test } from 'vitest';
import { milliAmount, wholeAmount } from '../../../src/placement/amount.ts';

test.each([
  [undefined, 0, 0],
  [{}, 0, 0],
  [{ memory: '1Gi' }, 0, 0],
  [{ cpu: '2' }, 2_000, 2],
  [{ cpu: '1500m' }, 1_500, 2],
  [{ cpu: '1m' }, 1, 1],
  [{ cpu: '1k' }, 1_000_000, 1_000],
  [{ cpu: 'many' }, 0, 0],
])('of %o is %i thousandths, and whole units rounded up: %i', (list, milli, whole) => {
  // Twice: the second time it is remembered.
  for (let i = 0; i < 2; i++)
    expect([milliAmount(list, 'cpu'), wholeAmount(list, 'cpu')]).toEqual([milli, whole]);
});
