import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The smallest value that is not below the given share of all: `of` 0.5 is the median. */
export function percentile(values: readonly number[], of: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

export function rounded(value: number, digits = 2): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}

/** One figure, with what is demanded of it; without a limit it only tells. */
export interface Budget {
  readonly what: string;
  readonly value: number;
  readonly atMost?: number;
  readonly atLeast?: number;
}

/** What a benchmark found: rows of raw figures, and those that something is demanded of. */
export interface Outcome {
  readonly rows: readonly object[];
  readonly figures: readonly Budget[];
}

export interface Benchmark {
  /** One line for `--help`. */
  readonly about: string;
  /** Variables of the environment that shrink or widen it, each with its default and meaning. */
  readonly settings?: Readonly<Record<string, string>>;
  measure(): Promise<Outcome>;
}

/** A size from the environment. */
export function size(variable: string, otherwise: number): number {
  const text = process.env[variable];
  if (text === undefined || text === '') return otherwise;
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`${variable} is a number of at least 0, not ${text}`);
}

/** Where and when a benchmark was run. */
export interface Setting {
  /** When it began. */
  readonly at: string;
  readonly commit: string;
  readonly processors: number;
  /** Of the minute before it. */
  readonly load: number;
  /** How long it took. */
  readonly seconds: number;
}

/** Prints tables, writes `bench-results/<name>.json`, and says whether every limit is kept. */
export function report(name: string, { rows, figures }: Outcome, setting: Setting): boolean {
  const { at, commit, processors, load } = setting;
  console.log(`\n${name}: ${at}, ${commit}, ${processors} processors, load ${load.toFixed(1)} before it`);
  console.table(rows);
  console.table(figures.map(({ what, value, ...limits }) => line(what, value, limits)));
  const dir = join(import.meta.dirname, '../../bench-results');
  mkdirSync(dir, { recursive: true });
  const result = { name, ...setting, rows, figures };
  writeFileSync(join(dir, `${name}.json`), `${JSON.stringify(result, undefined, 2)}\n`);
  return figures.every(isKept);
}

function isKept({ value, atMost, atLeast }: Omit<Budget, 'what'>): boolean {
  // A value that is not a number keeps no limit.
  return (atMost === undefined || value <= atMost) && (atLeast === undefined || value >= atLeast);
}

function line(figure: string, value: number, limits: Omit<Budget, 'what' | 'value'>): object {
  const { atMost, atLeast } = limits;
  const parts = [atMost === undefined ? '' : `≤ ${atMost}`, atLeast === undefined ? '' : `≥ ${atLeast}`];
  const limit = parts.filter((part) => part !== '').join(', ');
  const verdict = limit === '' ? '' : isKept({ value, ...limits }) ? 'kept' : 'MISSED';
  return { figure, value: Number(value.toPrecision(4)), limit, verdict };
}
