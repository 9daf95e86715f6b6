import { CallLimiter } from '../../controller/limiter.ts';
import { Svc3Error } from '../../errors.ts';
import { WatchedContent } from './watchedcontent.ts';

export interface UploadTurnLimits {
  /** Uploads under way at the same time: each holds up to 8 MiB in memory, and a process has 512 MiB for everything. */
  readonly total: number;
  /** How long an upload waits for its turn: less than what proxies allow a request without an answer. */
  readonly waitMs: number;
  /** An upload of which nothing has come for so long leaves its turn to one that waits. */
  readonly idleMs: number;
}

const usualLimits: UploadTurnLimits = { total: 16, waitMs: 30_000, idleMs: 60_000 };
/** How often one that waits looks for one that is idle. */
const lookEveryMs = 1_000;

/** What somebody uploads. */
export interface UploadedContent {
  readonly content: AsyncIterable<Buffer>;
  readonly identity: string;
  /** Aborted when its client hangs up. */
  readonly signal: AbortSignal;
}

/**
 * Lets a number of uploads at a time be read; the bodies of the others stay with their clients. Identities take turns, and none holds more
 * of the places than are left free: half of them where nobody else uploads.
 */
export class UploadTurns {
  readonly #limits: UploadTurnLimits;
  readonly #limiter: CallLimiter;
  readonly #underWay = new Set<WatchedContent>();

  constructor(limits: Partial<UploadTurnLimits> = {}) {
    this.#limits = { ...usualLimits, ...limits };
    const { total } = this.#limits;
    this.#limiter = new CallLimiter({ total, perHost: total });
  }

  /**
   * Runs the work when it is its turn, with the content, which nobody reads before.
   *
   * @throws Svc3Error TooManyRequests when its turn has not come in time, or nothing comes while others wait
   */
  async run<T>(
    { content, identity, signal }: UploadedContent,
    work: (content: AsyncIterable<Buffer>) => Promise<T>,
  ): Promise<T> {
    const waiting = this.#beginWaiting(signal);
    try {
      // All go to the same place, the memory of this process.
      return await this.#limiter.run(identity, '', waiting.signal, () => {
        waiting.end();
        return this.#watched(content, work);
      });
    } finally {
      waiting.end();
    }
  }

  #beginWaiting(hungUp: AbortSignal): { readonly signal: AbortSignal; end(): void } {
    const over = new AbortController();
    const hangUp = (): void => over.abort(hungUp.reason);
    // What had come of one that broke off before is kept by who reads it.
    hungUp.addEventListener('abort', hangUp, { once: true });
    const late = (): void => over.abort(tooMany('as many uploads as may are under way'));
    const timer = setTimeout(late, this.#limits.waitMs);
    const looking = setInterval(() => this.#endIdle(), lookEveryMs);
    return {
      signal: over.signal,
      end: () => {
        hungUp.removeEventListener('abort', hangUp);
        clearTimeout(timer);
        clearInterval(looking);
      },
    };
  }

  async #watched<T>(
    content: AsyncIterable<Buffer>,
    work: (content: AsyncIterable<Buffer>) => Promise<T>,
  ): Promise<T> {
    const watched = new WatchedContent(content);
    this.#underWay.add(watched);
    try {
      return await work(watched);
    } finally {
      this.#underWay.delete(watched);
      await watched.leave();
    }
  }

  /** A connection that died unnoticed would hold its place without end. */
  #endIdle(): void {
    const { idleMs } = this.#limits;
    const idle = [...this.#underWay].find(({ idleForMs }) => idleForMs >= idleMs);
    idle?.end(tooMany(`nothing has come for ${idleMs / 1000} seconds, and other uploads wait`));
  }
}

function tooMany(message: string): Svc3Error {
  return new Svc3Error('TooManyRequests', `${message}; try again later`, {
    details: { retryAfterSeconds: 1 },
  });
}
