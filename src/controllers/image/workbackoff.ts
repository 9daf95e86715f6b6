import { Backoff } from '../../controller/backoff.ts';

const times = { baseMs: 2_000, maxMs: 300_000 } as const;

/** Exponential backoff between tries of one piece of work, by its id; `now` is in milliseconds since 1970. */
export class WorkBackoff {
  readonly #backoff: Backoff;
  /** The try that failed last: a worker pod is seen in many passes. */
  readonly #counted = new Map<string, string>();

  constructor(now: () => number = Date.now) {
    this.#backoff = new Backoff(now, times);
  }

  /** Of one try only the first call counts. Returns when to try again. */
  failed(id: string, attempt: string): number {
    if (!this.isCounted(id, attempt)) {
      this.#counted.set(id, attempt);
      this.#backoff.failed(id);
    }
    return this.retryAt(id);
  }

  /** Whether `failed` has been called for this try, the last one. */
  isCounted(id: string, attempt: string): boolean {
    return this.#counted.get(id) === attempt;
  }

  retryAt(id: string): number {
    return this.#backoff.retryAt(id);
  }

  /** Something has changed that may help: try at once, with the count as it was. */
  hurry(id: string): void {
    this.#backoff.hurry(id);
  }

  clear(id: string): void {
    this.#counted.delete(id);
    this.#backoff.clear(id);
  }
}
