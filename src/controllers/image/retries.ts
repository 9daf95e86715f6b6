import { backoffDelay } from '../../controller/workqueue.ts';

const times = { baseMs: 2_000, maxMs: 300_000 } as const;

/** Exponential backoff between tries of one piece of work. Kept in memory: a new leader tries at once. */
export class Retries {
  readonly #entries = new Map<string, { count: number; at: number; attempt: string }>();

  /** Of one attempt only the first call counts. Returns when to try again. */
  failed(id: string, attempt: string, now: number): number {
    const known = this.#entries.get(id);
    if (known?.attempt === attempt) return known.at;
    const count = (known?.count ?? 0) + 1;
    const at = now + backoffDelay(count, times);
    this.#entries.set(id, { count, at, attempt });
    return at;
  }

  retryAt(id: string): number {
    return this.#entries.get(id)?.at ?? 0;
  }

  /** Something has changed that may help: try at once, with the count as it was. */
  hurry(id: string): void {
    const known = this.#entries.get(id);
    if (known !== undefined) this.#entries.set(id, { ...known, at: 0 });
  }

  clear(id: string): void {
    this.#entries.delete(id);
  }
}
