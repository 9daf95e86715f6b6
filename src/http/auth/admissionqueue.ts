import { Svc3Error } from '../../errors.ts';
import { FairQueue } from '../../fairqueue.ts';

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
  readonly #waiting = new FairQueue<() => void>();
  readonly #waitingByKey = new Map<string, number>();
  readonly #limits: AdmissionQueueLimits;
  #running = 0;

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

  /** Resolves when work that has ended leaves its turn to this one. */
  #turn(key: string): Promise<void> {
    const { waitingPerKey, waiting, what } = this.#limits;
    const ofKey = this.#waitingByKey.get(key) ?? 0;
    if (ofKey >= waitingPerKey)
      throw tooMany('TooManyRequests', `more than ${waitingPerKey} ${what} from one address wait`);
    if (this.#waiting.size >= waiting)
      throw tooMany('ServiceUnavailable', `more than ${waiting} ${what} wait`);
    this.#waitingByKey.set(key, ofKey + 1);
    return new Promise((resolve) => {
      this.#waiting.add(key, () => {
        this.#leave(key);
        resolve();
      });
    });
  }

  #leave(key: string): void {
    const left = (this.#waitingByKey.get(key) ?? 0) - 1;
    if (left > 0) this.#waitingByKey.set(key, left);
    else this.#waitingByKey.delete(key);
  }

  #next(): void {
    const begin = this.#waiting.take();
    if (begin === undefined) this.#running -= 1;
    else begin();
  }
}

function tooMany(reason: 'TooManyRequests' | 'ServiceUnavailable', message: string): Svc3Error {
  return new Svc3Error(reason, `${message}, try again later`, { details: { retryAfterSeconds: 1 } });
}
