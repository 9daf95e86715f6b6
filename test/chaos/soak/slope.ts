/** Whether memory grows: a slope over all samples, never one sample. */

export interface Sample {
  /** Milliseconds. */
  readonly at: number;
  readonly bytes: number;
}

export interface Trend {
  /** Bytes per hour. */
  readonly slope: number;
  /** The slopes between which the true one lies with a probability of 95 %. */
  readonly least: number;
  readonly most: number;
  readonly median: number;
  readonly samples: number;
}

const hourMs = 3_600_000;
/** Of the standard normal distribution: 95 % lie within. */
const z95 = 1.96;

/**
 * Theil–Sen: the median of the slopes between all pairs of samples, which up to 29 % of samples that are off do not move. Its
 * interval is Sen's: the slopes whose ranks lie z·σ/2 around the middle, σ² = n(n−1)(2n+5)/18 being the variance of
 * Kendall's S. Fewer than 10 samples make no trend.
 */
export function trendOf(samples: readonly Sample[]): Trend | undefined {
  const n = samples.length;
  if (n < 10) return undefined;
  const slopes = samples.flatMap((one, index) =>
    samples
      .slice(index + 1)
      .filter(({ at }) => at !== one.at)
      .map((other) => ((other.bytes - one.bytes) / (other.at - one.at)) * hourMs),
  );
  slopes.sort((a, b) => a - b);
  const half = (z95 * Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18)) / 2;
  const middle = slopes.length / 2;
  const rank = (position: number): number => Math.min(slopes.length - 1, Math.max(0, Math.round(position)));
  return {
    slope: medianOf(slopes),
    least: slopes[rank(middle - half - 1)] ?? 0,
    most: slopes[rank(middle + half)] ?? 0,
    median: medianOf(samples.map(({ bytes }) => bytes).sort((a, b) => a - b)),
    samples: n,
  };
}

/** @param sorted - from the least to the most */
function medianOf(sorted: readonly number[]): number {
  const middle = sorted.length / 2;
  const above = sorted[Math.floor(middle)] ?? 0;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? above) + above) / 2 : above;
}

/** What a process may grow by in an hour: a tenth of what it has, and never less than 4 MiB. */
export function allowedGrowth({ median }: Trend): number {
  return Math.max(4 * 2 ** 20, median / 10);
}

/**
 * Memory is flat unless it is sure that it grows by more than is allowed: the lower end of the interval counts, so that a
 * noisy series of few samples condemns nothing that a longer one would clear.
 */
export function isFlat(trend: Trend): boolean {
  return trend.least <= allowedGrowth(trend);
}
