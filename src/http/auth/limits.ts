import { Svc3Error } from '../../errors.ts';

/** Counts what runs now per identity; beyond the limit a request is refused with TooManyRequests. */
export class ConcurrencyLimit {
  readonly #running = new Map<string, number>();
  readonly #limit: number;
  readonly #what: string;
  #total = 0;

  constructor(limit: number, what: string) {
    this.#limit = limit;
    this.#what = what;
  }

  get total(): number {
    return this.#total;
  }

  /** Takes a place and returns what gives it back (once). */
  take(key: string): () => void {
    const running = this.#running.get(key) ?? 0;
    if (running >= this.#limit)
      throw new Svc3Error(
        'TooManyRequests',
        `more than ${this.#limit} ${this.#what} at the same time, try again later`,
        {
          details: { retryAfterSeconds: 1 },
        },
      );
    this.#running.set(key, running + 1);
    this.#total += 1;
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.#total -= 1;
      const left = (this.#running.get(key) as number) - 1;
      if (left === 0) this.#running.delete(key);
      else this.#running.set(key, left);
    };
  }
}
