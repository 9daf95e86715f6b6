import { Svc3Error } from '../../errors.ts';

export interface AdmissionQueueLimits {
  /** How many run at the same time. */
  readonly running: number;
  /** How many of one key may wait. */
  readonly waitingPerKey: number;
  /** How many may wait in all. */
  readonly waiting: number;
  /** What they are, in a refusal. */
  readonly what: string;
}

/** Runs a few pieces of work at a time and lets those that wait in by turns between their keys: many of one key delay no other. */
export class AdmissionQueue {
  /** Those who wait, by key; the first key is served next. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #limits: AdmissionQueueLimits;
  #running = 0;
  #waitingInAll = 0;

  constructor(limits: AdmissionQueueLimits) {
    this.#limits = limits;
  }

  /** @throws Svc3Error TooManyRequests when too many of the key wait, ServiceUnavailable when too many wait in all */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#limits.running) this.#running += 1;
    else await this.#turn(key);
    try {
      return await work();
    } finally {
      this.#next();
    }
  }

  /** Resolves when somebody who has ended leaves their place. */
  #turn(key: string): Promise<void> {
    const { waitingPerKey, waiting, what } = this.#limits;
    const others = this.#waiting.get(key) ?? [];
    if (others.length >= waitingPerKey)
      throw tooMany('TooManyRequests', `more than ${waitingPerKey} ${what} from one address wait`);
    if (this.#waitingInAll >= waiting)
      throw tooMany('ServiceUnavailable', `more than ${waiting} ${what} wait`);
    return new Promise((resolve) => {
      others.push(resolve);
      this.#waiting.set(key, others);
      this.#waitingInAll += 1;
    });
  }

  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#running -= 1;
      return;
    }
    const [key, others] = first;
    const resolve = others.shift();
    this.#waitingInAll -= 1;
    this.#waiting.delete(key);
    // Behind all other keys.
    if (others.length > 0) this.#waiting.set(key, others);
    resolve?.();
  }
}

function tooMany(reason: 'TooManyRequests' | 'ServiceUnavailable', message: string): Svc3Error {
  return new Svc3Error(reason, `${message}, try again later`, { details: { retryAfterSeconds: 1 } });
}
