import { FairQueue, hasShare } from '../fairqueue.ts';

export interface CallLimits {
  /** Calls under way at the same time, whoever makes them. */
  readonly total: number;
  /** Of them to one host. */
  readonly perHost: number;
}

interface Call {
  readonly namespace: string;
  readonly host: string;
  start(): void;
}

/**
 * Calls to hosts that somebody in a namespace has named, and that may be silent: no more than a number at the same time, in all and
 * to each host. Namespaces take turns, and none holds more of either number than is left free.
 */
export class CallLimiter {
  readonly #limits: CallLimits;
  readonly #waiting = new FairQueue<Call>();
  readonly #underWay = new Set<Call>();

  constructor(limits: CallLimits) {
    this.#limits = limits;
  }

  /**
   * Makes the call when it is its turn. Rejects with the signal's reason when that comes first; a call that has begun
   * is the caller's to end.
   */
  async run<T>(namespace: string, host: string, signal: AbortSignal, make: () => Promise<T>): Promise<T> {
    const call = await this.#turn(namespace, host, signal);
    try {
      return await make();
    } finally {
      this.#underWay.delete(call);
      this.#serve();
    }
  }

  #turn(namespace: string, host: string, signal: AbortSignal): Promise<Call> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        if (this.#waiting.delete(namespace, call)) reject(signal.reason as Error);
      };
      const start = (): void => {
        signal.removeEventListener('abort', giveUp);
        resolve(call);
      };
      const call: Call = { namespace, host, start };
      this.#waiting.add(namespace, call);
      signal.addEventListener('abort', giveUp, { once: true });
      if (signal.aborted) giveUp();
      this.#serve();
    });
  }

  #serve(): void {
    while (this.#underWay.size < this.#limits.total) {
      const call = this.#waiting.take(
        (namespace) => this.#hasShareOfAll(namespace),
        (waiting) => this.#hasShareOfHost(waiting),
      );
      if (call === undefined) return;
      this.#underWay.add(call);
      call.start();
    }
  }

  #hasShareOfAll(namespace: string): boolean {
    const held = this.#count((call) => call.namespace === namespace);
    return hasShare(held, this.#underWay.size, this.#limits.total);
  }

  #hasShareOfHost({ namespace, host }: Call): boolean {
    const atHost = this.#count((call) => call.host === host);
    const held = this.#count((call) => call.host === host && call.namespace === namespace);
    return hasShare(held, atHost, this.#limits.perHost);
  }

  /** There are never more than `total`: not worth an index. */
  #count(isMeant: (call: Call) => boolean): number {
    let count = 0;
    for (const call of this.#underWay) if (isMeant(call)) count += 1;
    return count;
  }
}
