/** Times of an exponential backoff, in milliseconds. */
export interface BackoffOptions {
  /** After the first failure. Default 100. */
  baseMs?: number;
  /** At most. Default 5 minutes. */
  maxMs?: number;
  random?: () => number;
}

/** Milliseconds to wait after the nth failure in a row (from 1): half of the exponential value for sure, half random. */
export function backoffDelay(failures: number, options: BackoffOptions = {}): number {
  const { baseMs = 100, maxMs = 300_000, random = Math.random } = options;
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return full / 2 + (random() * full) / 2;
}

/** Failures in a row by key, and when each may be tried again. In memory only: a new leader tries at once. */
export class Backoff {
  readonly #entries = new Map<string, { readonly failures: number; readonly retryAt: number }>();
  readonly #now: () => number;
  readonly #options: BackoffOptions;

  /** `now`: milliseconds; what `retryAt` returns is by this clock. */
  constructor(now: () => number, options: BackoffOptions = {}) {
    this.#now = now;
    this.#options = options;
  }

  /** Counts a failure. Returns the milliseconds to wait before the next try. */
  failed(key: string): number {
    const failures = this.failures(key) + 1;
    const delayMs = backoffDelay(failures, this.#options);
    this.#entries.set(key, { failures, retryAt: this.#now() + delayMs });
    return delayMs;
  }

  failures(key: string): number {
    return this.#entries.get(key)?.failures ?? 0;
  }

  /** When the next try is due; 0 where there was no failure. */
  retryAt(key: string): number {
    return this.#entries.get(key)?.retryAt ?? 0;
  }

  /** Milliseconds until the next try is due; 0: now. */
  waitMs(key: string): number {
    return Math.max(0, this.retryAt(key) - this.#now());
  }

  /** Something has changed that may help: the next try is due, and the failures count on. */
  hurry(key: string): void {
    if (this.failures(key) > 0) this.#entries.set(key, { failures: this.failures(key), retryAt: 0 });
  }

  clear(key: string): void {
    this.#entries.delete(key);
  }
}
