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
  /** By reader; who has just had a turn comes last. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #reading = new Set<string>();
  readonly #most: number;

  /** @param most - how many pages are read at the same time */
  constructor(most: number) {
    this.#most = most;
  }

  /** @param reader - who takes turns with others; the page is what `read` has left of it when it resolves */
  async read<T>(reader: string, read: () => Promise<T>): Promise<T> {
    if (this.#reading.size < this.#most && !this.#reading.has(reader)) this.#reading.add(reader);
    else await new Promise<void>((resolve) => this.#wait(reader, resolve));
    try {
      return await read();
    } finally {
      this.#reading.delete(reader);
      this.#next();
    }
  }

  #wait(reader: string, resolve: () => void): void {
    const calls = this.#waiting.get(reader) ?? [];
    calls.push(resolve);
    this.#waiting.set(reader, calls);
  }

  /** One place is free: no more than one of those who wait can have it. */
  #next(): void {
    for (const [reader, calls] of this.#waiting) {
      if (this.#reading.has(reader)) continue;
      const [first, ...others] = calls;
      this.#waiting.delete(reader);
      if (others.length > 0) this.#waiting.set(reader, others);
      this.#reading.add(reader);
      first?.();
      return;
    }
  }
}
