import { Readable } from 'node:stream';

/** The same bytes; known is for how long their sender has been waited for, and that can be ended. */
export class WatchedContent implements AsyncIterable<Buffer> {
  readonly #isStream: boolean;
  readonly #pieces: AsyncIterator<Buffer>;
  #askedAt: number | undefined;
  #refuse: ((reason: Error) => void) | undefined;
  #isEnded = false;

  constructor(content: AsyncIterable<Buffer>) {
    this.#isStream = content instanceof Readable;
    // The socket stays open for the answer, also where not all of it is read.
    this.#pieces =
      content instanceof Readable
        ? content.iterator({ destroyOnReturn: false })
        : content[Symbol.asyncIterator]();
  }

  /** 0 while a piece is being worked on, and after the end. */
  get idleForMs(): number {
    return this.#askedAt === undefined || this.#isEnded ? 0 : performance.now() - this.#askedAt;
  }

  /** Whoever waits for the next piece gets this error instead. */
  end(reason: Error): void {
    this.#isEnded = true;
    this.#refuse?.(reason);
  }

  /** Lets go of a stream, at once or when the piece that was asked for has come. */
  async leave(): Promise<void> {
    if (!this.#isStream) return;
    const left = this.#pieces.return?.().catch(() => undefined);
    if (this.#askedAt === undefined) await left;
  }

  /** Without `return`: its reader may end in the middle, and what is left is not for the reader to throw away. */
  [Symbol.asyncIterator](): AsyncIterator<Buffer> {
    return { next: () => this.#next() };
  }

  #next(): Promise<IteratorResult<Buffer>> {
    const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<Buffer>>();
    this.#askedAt = performance.now();
    this.#refuse = reject;
    const come = this.#pieces.next().finally(() => {
      this.#askedAt = undefined;
    });
    come.then(resolve, reject);
    return promise;
  }
}
