import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function percentile(values: readonly number[], of: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))] ?? Number.NaN;
}

/** One demand on a figure. */
export interface Budget {
  readonly what: string;
  readonly value: number;
  readonly atMost: number;
}

/** Prints a table, writes `dist/bench/<name>.json`, and says whether every budget is kept. */
export function report(name: string, rows: readonly object[], budgets: readonly Budget[]): boolean {
  console.log(`\n${name}`);
  console.table(rows);
  console.table(budgets.map((budget) => ({ ...budget, kept: budget.value <= budget.atMost })));
  const dir = join(import.meta.dirname, '../../dist/bench');
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, `${name}.json`), `${JSON.stringify({ rows, budgets }, undefined, 2)}\n`);
  return budgets.every(({ value, atMost }) => value <= atMost);
}
