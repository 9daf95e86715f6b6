import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { backoffDelay } from '../../src/backoff.ts';

const times = { baseMs: 100, maxMs: 1_000 } as const;
const delays = (jitter: number, random: number) =>
  [1, 2, 3, 4, 5, 60].map((failures) => backoffDelay(failures, { ...times, jitter }, () => random));

test.each<[what: string, jitter: number, random: number, expected: number[]]>([
  ['without jitter it doubles up to its maximum', 0, 0.3, [100, 200, 400, 800, 1_000, 1_000]],
  ['with half of it at random it is no less than half', 0.5, 0, [50, 100, 200, 400, 500, 500]],
  ['with half of it at random it is the whole at most', 0.5, 1, [100, 200, 400, 800, 1_000, 1_000]],
  ['with all of it at random it may be nothing', 1, 0, [0, 0, 0, 0, 0, 0]],
  ['with all of it at random it is the whole at most', 1, 1, [100, 200, 400, 800, 1_000, 1_000]],
  ['a quarter at random is a quarter of the way', 0.25, 0.5, [87.5, 175, 350, 700, 875, 875]],
])('%s', (_what, jitter, random, expected) => {
  expect(delays(jitter, random)).toEqual(expected);
});

test('it is within its bounds for any number of failures', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 10_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.constantFrom(0, 0.5, 1),
      (failures, random, jitter) => {
        const full = Math.min(300_000, 100 * 2 ** Math.min(failures - 1, 30));
        const delay = backoffDelay(failures, { baseMs: 100, maxMs: 300_000, jitter }, () => random);
        return delay >= full * (1 - jitter) && delay <= full;
      },
    ),
  );
});

test('it is another one each time, unless nothing of it is random', () => {
  const random = vi.spyOn(Math, 'random').mockReturnValueOnce(0).mockReturnValueOnce(1);
  expect([1, 1].map((failures) => backoffDelay(failures, { ...times, jitter: 0.5 }))).toEqual([50, 100]);
  random.mockRestore();
});
