/** One measured number. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** What it has to be at least or at most; without one it is only told. */
  readonly target?: { readonly atLeast: number } | { readonly atMost: number };
}

/** What a file of this folder exports as `benchmark`. */
export interface Benchmark {
  readonly summary: string;
  /** Says on stderr what it is doing. */
  run(progress: (line: string) => void): Promise<readonly Figure[]>;
}

export function isMet({ value, target }: Figure): boolean | undefined {
  if (target === undefined) return undefined;
  return 'atLeast' in target ? value >= target.atLeast : value <= target.atMost;
}

/** The value below which so much of the sorted values lies; `share` between 0 and 1. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Runs `work` for every item, so many at once. */
export async function inParallel<T>(
  items: readonly T[],
  workers: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: workers }, async () => {
      for (const item of queue) await work(item);
    }),
  );
}
