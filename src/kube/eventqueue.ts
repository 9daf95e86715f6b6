import { backoffDelay } from '../backoff.ts';
import { errorTable, isSvc3Error, messageOf } from '../errors.ts';
import { FairQueue } from '../fairqueue.ts';
import { isOfWebhook } from './errors.ts';
import type { Log } from './types.ts';

/** What is given up first where there are too many: counts of repeats, then what is good to know, then failures and starts. */
const eventRanks = ['count', 'information', 'important'] as const;
export type EventRank = (typeof eventRanks)[number];

/**
 * Why an Event was not written: too many waited; too many about one object (`flood`); kube-apiserver refused it, as where the
 * namespace is gone or a webhook does not let it through; or could not be reached.
 */
export type EventDropReason = 'queue' | 'flood' | 'refused' | 'unreachable';

export interface EventWrite {
  readonly namespace: string;
  readonly rank: EventRank;
  /** Memory that it takes, roughly. */
  readonly bytes: number;
  send(): Promise<unknown>;
  /** Told when it was given up. */
  onDropped?(reason: EventDropReason): void;
}

export interface EventQueueOptions {
  readonly log: Log;
  /** Memory for what waits. Default 32 MiB: the Events of more than 10,000 VMs that start at once. */
  readonly limitBytes?: number;
  onDropped?(reason: EventDropReason): void;
}

const defaultLimitBytes = 32 * 2 ** 20;

/** client-go tries an Event as often, always ten seconds apart. */
const attempts = 12;
/** The agents of all nodes write Events, and wait for the same kube-apiserver. */
const times = { baseMs: 400, maxMs: 8_000, jitter: 0.5 } as const;

/** A flood of drops is one line of the log in this time. */
const tellMs = 10_000;

/** A namespace's writes that wait, by rank. */
type Queued = Record<EventRank, Set<EventWrite>> & { bytes: number };

/**
 * Writes Events one after the other, namespaces taking turns, in order within each. Where what waits takes too much memory the least
 * worthy are dropped, of the namespace that has most; drops are counted and told.
 */
export class EventQueue {
  readonly #options: EventQueueOptions;
  readonly #waiting = new FairQueue<EventWrite>();
  readonly #namespaces = new Map<string, Queued>();
  #bytes = 0;
  #working: Promise<void> | undefined;
  #isEnding = false;
  #untold = 0;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(options: EventQueueOptions) {
    this.#options = options;
  }

  add(write: EventWrite): void {
    const { limitBytes = defaultLimitBytes } = this.#options;
    this.#waiting.add(write.namespace, write);
    const queued = this.#queuedOf(write.namespace);
    queued[write.rank].add(write);
    queued.bytes += write.bytes;
    this.#bytes += write.bytes;
    while (this.#bytes > limitBytes) this.#dropLeast();
    if (this.#waiting.size > 0) this.#working ??= this.#work();
  }

  dropped(reason: EventDropReason): void {
    this.#options.onDropped?.(reason);
    this.#untold += 1;
    if (performance.now() - this.#toldAt >= tellMs) this.#tell(reason);
  }

  #tell(reason: EventDropReason): void {
    this.#options.log.warn({ count: this.#untold, reason }, 'events dropped');
    this.#untold = 0;
    this.#toldAt = performance.now();
  }

  #drop(write: EventWrite, reason: EventDropReason): void {
    this.dropped(reason);
    write.onDropped?.(reason);
  }

  /**
   * Resolves when all that waits has been written or given up, after `limitMs` at the latest: what waits then is dropped. What cannot
   * be written now is not tried again.
   */
  async drain(limitMs?: number): Promise<void> {
    const working = this.#working;
    if (working === undefined) return;
    this.#isEnding = true;
    if (limitMs === undefined) return working;
    const limit = Promise.withResolvers<void>();
    const timer = setTimeout(limit.resolve, limitMs);
    await Promise.race([working, limit.promise]);
    clearTimeout(timer);
    this.#dropAll();
  }

  async #work(): Promise<void> {
    for (let write = this.#take(); write !== undefined; write = this.#take()) await this.#send(write);
    this.#working = undefined;
    this.#isEnding = false;
  }

  #take(): EventWrite | undefined {
    const write = this.#waiting.take();
    if (write !== undefined) this.#forget(write);
    return write;
  }

  async #send(write: EventWrite): Promise<void> {
    for (let attempt = 1; ; attempt += 1)
      try {
        await write.send();
        return;
      } catch (error) {
        // The first answer got lost.
        if (isSvc3Error(error, 'AlreadyExists')) return;
        // What waits behind it is mostly of others; client-go, too, gives up what was answered.
        if (!isPassing(error) || isOfWebhook(error)) return this.#refused(write, error);
        if (attempt >= attempts || this.#isEnding) return this.#drop(write, 'unreachable');
        await sleep(backoffDelay(attempt, times));
      }
  }

  /**
   * Nothing to warn of: nearly always its namespace is being deleted, and with it whatever the Event is about; a webhook that fails is
   * for its owner to see.
   */
  #refused(write: EventWrite, error: unknown): void {
    const { log, onDropped } = this.#options;
    onDropped?.('refused');
    log.debug({ err: messageOf(error) }, 'event could not be written');
    write.onDropped?.('refused');
  }

  #dropAll(): void {
    for (let write = this.#take(); write !== undefined; write = this.#take())
      this.#drop(write, 'unreachable');
    if (this.#untold > 0) this.#tell('unreachable');
  }

  #dropLeast(): void {
    for (const rank of eventRanks) {
      let most: Queued | undefined;
      for (const queued of this.#namespaces.values())
        if (queued[rank].size > 0 && queued.bytes > (most?.bytes ?? 0)) most = queued;
      const [write] = most?.[rank] ?? [];
      if (write === undefined) continue;
      this.#waiting.delete(write.namespace, write);
      this.#forget(write);
      this.#drop(write, 'queue');
      return;
    }
  }

  #forget(write: EventWrite): void {
    const queued = this.#queuedOf(write.namespace);
    queued[write.rank].delete(write);
    queued.bytes -= write.bytes;
    this.#bytes -= write.bytes;
    if (eventRanks.every((rank) => queued[rank].size === 0)) this.#namespaces.delete(write.namespace);
  }

  #queuedOf(namespace: string): Queued {
    let queued = this.#namespaces.get(namespace);
    if (queued === undefined) {
      queued = { count: new Set(), information: new Set(), important: new Set(), bytes: 0 };
      this.#namespaces.set(namespace, queued);
    }
    return queued;
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

function isPassing(error: unknown): boolean {
  return isSvc3Error(error) && errorTable[error.reason].retry;
}
