import { describe, expect, test } from 'vitest';
import type { Role, Series } from '../../chaos/soak/memory.ts';
import { judgeMemory, table, unjudged } from '../../chaos/soak/verdict.ts';

const MiB = 2 ** 20;
const minute = 60_000;
const soakMs = 45 * minute;

/** A process from one minute to another, sampled four times a minute. */
function aProcess(role: Role, from: number, until: number, bytesAt: (minutes: number) => number): Series {
  const inUse = Array.from({ length: (until - from) * 4 }, (_, index) => {
    const at = from + index / 4;
    return { at: at * minute, bytes: bytesAt(at) };
  });
  return { role, pid: from, startTime: '1', inUse, pss: inUse };
}

const verdict = (series: Series): boolean | undefined => judgeMemory([series], 0, soakMs)[0]?.isFlat;

describe('the memory of a process', () => {
  test('may grow while it warms up', () => {
    const series = aProcess('operator', 0, 45, (at) => 60 * MiB + Math.min(at, 10) * 5 * MiB);
    expect(verdict(series)).toBe(true);
  });

  test('must not grow after that', () => {
    expect(verdict(aProcess('operator', 0, 45, (at) => 60 * MiB + at * 0.3 * MiB))).toBe(false);
  });

  test('is not judged by a short life', () => {
    expect(verdict(aProcess('runner', 20, 30, (at) => at * 5 * MiB))).toBeUndefined();
  });

  test('says of which parts nothing is known', () => {
    const rows = judgeMemory([aProcess('api', 0, 45, () => 60 * MiB)], 0, soakMs);
    expect(unjudged(rows, ['api', 'runner'])).toEqual(['runner']);
    expect(table(rows)).toContain('flat');
  });
});
