/** What a soak says of memory: each process that lived long enough by its trend, after a warm-up. */
import type { Role, Series } from './memory.ts';
import { allowedGrowth, isFlat, type Sample, type Trend, trendOf } from './slope.ts';

export interface Row {
  readonly role: Role;
  readonly pid: number;
  /** Of what is in use. */
  readonly trend: Trend;
  /** Of the proportional set size. */
  readonly resident: Trend;
  readonly isFlat: boolean;
}

/** Caches fill, code is compiled, the heap finds its size: none of that is growth. */
export function warmUpMs(soakMs: number): number {
  return Math.min(10 * 60_000, soakMs / 3);
}

/**
 * By what is in use after a collection of garbage, of what came after the warm-up. Processes that lived for less than half of that time say
 * nothing: a short slope is no slope.
 */
export function judgeMemory(all: readonly Series[], began: number, soakMs: number): Row[] {
  const from = began + warmUpMs(soakMs);
  const enoughMs = (soakMs - warmUpMs(soakMs)) / 2;
  return all.flatMap(({ role, pid, inUse, pss }) => {
    const samples = inUse.filter(({ at }) => at >= from);
    const trend = lasted(samples) < enoughMs ? undefined : trendOf(samples);
    const resident = trendOf(pss.filter(({ at }) => at >= from));
    return trend === undefined || resident === undefined
      ? []
      : [{ role, pid, trend, resident, isFlat: isFlat(trend) }];
  });
}

function lasted(samples: readonly Sample[]): number {
  const [first, last] = [samples[0], samples.at(-1)];
  return first === undefined || last === undefined ? 0 : last.at - first.at;
}

/** Roles of which no process lived long enough to be judged. */
export function unjudged(rows: readonly Row[], wanted: readonly Role[]): Role[] {
  return wanted.filter((role) => !rows.some((row) => row.role === role));
}

const MiB = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
const interval = ({ slope, least, most }: Trend): string => `${MiB(slope)} (${MiB(least)} to ${MiB(most)})`;

export function table(rows: readonly Row[]): string {
  const lines = rows.map(
    ({ role, pid, trend, resident, isFlat }) =>
      `  ${role.padEnd(12)} ${String(pid).padEnd(8)} ${MiB(trend.median).padStart(8)} ${interval(trend).padStart(26)} ${MiB(allowedGrowth(trend)).padStart(9)}  ${(isFlat ? 'flat' : 'GROWS').padEnd(6)} ${MiB(resident.median).padStart(8)} ${interval(resident).padStart(26)}`,
  );
  return [
    '',
    'memory (MiB) in use after collections of garbage, since the warm-up; slopes by Theil–Sen with their 95 % interval; a process',
    'grows where the lower end of the interval is above what is allowed: a tenth of its median in an hour, or 4 MiB; beside it',
    'its proportional set size, with what V8 keeps for itself',
    `  ${'process'.padEnd(12)} ${'pid'.padEnd(8)} ${'in use'.padStart(8)} ${'per hour'.padStart(26)} ${'allowed'.padStart(9)}  ${''.padEnd(6)} ${'PSS'.padStart(8)} ${'per hour'.padStart(26)}`,
    ...lines,
    '',
  ].join('\n');
}
