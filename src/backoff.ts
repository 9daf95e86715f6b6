/** Times of an exponential backoff. */
export interface BackoffTimes {
  /** After the first failure, in milliseconds. */
  readonly baseMs: number;
  /** At most, in milliseconds. */
  readonly maxMs: number;
  /**
   * How much of each time is random, from 0 (nothing) to 1 (all of it: "full jitter"). Where many wait for the same server some of it has to be: they
   * would all return at the same moment.
   */
  readonly jitter: number;
}

/** Milliseconds to wait after the nth failure in a row (from 1): twice as long after each, of which the jitter takes its share at random. */
export function backoffDelay(
  failures: number,
  { baseMs, maxMs, jitter }: BackoffTimes,
  random: () => number = Math.random,
): number {
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return full * (1 - jitter) + random() * full * jitter;
}
