import { backoffDelay, type BackoffTimes } from '../backoff.ts';

/** Times of a backoff by key, in milliseconds; half of each is random. */
export interface BackoffOptions {
  /** After the first failure. Default 100. */
  baseMs?: number;
  /** At most. Default 5 minutes. */
  maxMs?: number;
  random?: () => number;
}

/** Failures in a row by key, and when each may be tried again. In memory only: a new leader tries at once. */
export class Backoff {
  readonly #entries = new Map<string, { readonly failures: number; readonly retryAt: number }>();
  readonly #now: () => number;
  readonly #times: BackoffTimes;
  readonly #random: (() => number) | undefined;

  /** `now`: milliseconds; what `retryAt` returns is by this clock. */
  constructor(now: () => number, { baseMs = 100, maxMs = 300_000, random }: BackoffOptions = {}) {
    this.#now = now;
    this.#times = { baseMs, maxMs, jitter: 0.5 };
    this.#random = random;
  }

  /** Counts a failure. Returns the milliseconds to wait before the next try. */
  failed(key: string): number {
    const failures = this.failures(key) + 1;
    const delayMs = backoffDelay(failures, this.#times, this.#random);
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
