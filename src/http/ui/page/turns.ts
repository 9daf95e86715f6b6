import { givenUp } from './sending.ts';

/** Lets so many pieces of work at a time run; the others follow in the order in which they came. */
export class Turns {
  readonly #waiting = new Set<() => void>();
  #left: number;

  constructor(most: number) {
    this.#left = most;
  }

  /** @throws where the signal is aborted before the turn has come, at once */
  async run(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    await this.#turn(signal);
    try {
      await work();
    } finally {
      this.#next();
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (this.#left > 0) {
      this.#left -= 1;
      resolve();
      return promise;
    }
    const stop = (): void => {
      if (this.#waiting.delete(begin)) reject(givenUp());
    };
    const begin = (): void => {
      signal.removeEventListener('abort', stop);
      resolve();
    };
    this.#waiting.add(begin);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    return promise;
  }

  #next(): void {
    const [begin] = this.#waiting;
    if (begin === undefined) {
      this.#left += 1;
      return;
    }
    this.#waiting.delete(begin);
    begin();
  }
}
