/** A page of a list, as kube-apiserver answers. */
export interface ListPage<T> {
  items: T[] | null;
  metadata: { resourceVersion?: string; continue?: string };
}

/**
 * Objects of a page of a list. One may have 1.5 MB, and to read a page takes five to six times its text: 20 of them are 170 MB of the
 * 512 that api and operator may have.
 */
export const defaultPageSize = 20;

/**
 * Lets in a few at a time of those who read pages of lists, one page of each: a page that kube-apiserver keeps somebody waiting for, or
 * many lists of one, keep no other's from going on.
 */
export class PageTurns {
  /** By reader, in the order of their turns. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #reading = new Set<string>();
  readonly #most: number;

  /** @param most - how many pages are read at the same time */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Reads a page when it is the reader's turn.
   *
   * @param reader - who takes turns with others
   * @param signal - gives up while it waits, with the signal's reason
   */
  async read<T>(reader: string, read: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#reading.size < this.#most && !this.#reading.has(reader)) this.#reading.add(reader);
    else await this.#turn(reader, signal);
    try {
      return await read();
    } finally {
      this.#reading.delete(reader);
      this.#next();
    }
  }

  async #turn(reader: string, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = (): void => {
      this.#keepWaiting(
        reader,
        (this.#waiting.get(reader) ?? []).filter((call) => call !== resolve),
      );
      reject(signal?.reason as Error);
    };
    this.#keepWaiting(reader, [...(this.#waiting.get(reader) ?? []), resolve]);
    signal?.addEventListener('abort', giveUp, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  /** A reader keeps its place among the others. */
  #keepWaiting(reader: string, calls: (() => void)[]): void {
    if (calls.length > 0) this.#waiting.set(reader, calls);
    else this.#waiting.delete(reader);
  }

  /** One place is free: no more than one of those who wait can have it. */
  #next(): void {
    for (const [reader, calls] of this.#waiting) {
      if (this.#reading.has(reader)) continue;
      const [first, ...others] = calls;
      // Who has just had a turn comes last.
      this.#waiting.delete(reader);
      this.#keepWaiting(reader, others);
      this.#reading.add(reader);
      first?.();
      return;
    }
  }
}
