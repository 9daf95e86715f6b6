import { FairQueue, hasShare } from '../fairqueue.ts';
import { Backoff, type BackoffOptions } from './backoff.ts';

/**
 * `low` keys are handed out while no `normal` key waits, as those that controller-runtime's priority queue takes in with
 * `LowPriority`; but only for `lowPriorityMs`: after that they get three of four turns, the one that waits longest first.
 */
export type Priority = 'normal' | 'low';

/**
 * Milliseconds after which a key of low priority counts as normal. Half of the two seconds that a VM may wait for its
 * status: the other half is for the pass and its write on a busy control plane.
 */
export const lowPriorityMs = 1_000;

/** While aged keys of low priority wait, one turn in so many is for normal keys: neither kind starves the other. */
const turnsOfNormal = 4;

export interface WorkqueueOptions extends BackoffOptions {
  /** Keys worked on at the same time. Default: no limit, and none for a namespace either. */
  workers?: number;
  /**
   * Asked whenever a key is queued, also by a timer; for one that was added during its pass when the pass is done, because
   * what the pass did may have changed the answer. Default `normal`.
   */
  priorityOf?: (key: string) => Priority;
  /** Seconds that a key has waited, when it is handed out. */
  onTaken?: (seconds: number) => void;
  /** Seconds that a key was worked on, when it is done. */
  onDone?: (seconds: number) => void;
}

/** What the metrics of a workqueue are read from, with the meanings of client-go's of these names. */
export interface WorkqueueState {
  /** Keys that wait for a worker now. */
  depth(): number;
  /** Keys that were queued since the start; one that waits already is not queued again. */
  adds(): number;
  /** Keys that were added for later, backoff included. */
  retries(): number;
  /** When each key that is worked on was taken, in milliseconds of `performance.now()`. */
  takenAt(): Iterable<number>;
}

export interface Workqueue extends WorkqueueState {
  /**
   * Queues the key, once, however often it is added; a key being worked on is queued again when it is done. One that waits
   * with low priority is lifted when it is normal by now, the other way round changes nothing.
   */
  add(key: string): void;
  /** Adds the key after a time; of several the earliest counts. */
  addAfter(key: string, delayMs: number): void;
  /** Adds the key after its own backoff, which doubles with every call until `forget`; never sooner than `atLeastMs`. */
  addBackoff(key: string, atLeastMs?: number): void;
  forget(key: string): void;
  /** The next key, which then belongs to the caller until `done`; undefined once the queue is shut down. */
  take(): Promise<string | undefined>;
  done(key: string): void;
  /** Keys being worked on. */
  active(): number;
  failures(key: string): number;
  /** Hands out nothing more; keys that wait are dropped. */
  shutDown(): void;
}

/** Longest time a timer of Node can be set to. */
const longestTimerMs = 2 ** 31 - 1;

/** The namespace of a key; keys without one are a group of their own, which no limit applies to. */
function groupOf(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf('/')));
}

/** Keys that wait for a worker, by priority, namespaces taking turns within each. */
class WaitingKeys {
  readonly #normal = new FairQueue<string>();
  readonly #low = new FairQueue<string>();
  /** Keys of low priority that have waited for `lowPriorityMs`. */
  readonly #aged = new FairQueue<string>();
  readonly #since = new Map<string, number>();
  /** Since when keys of low priority wait, in milliseconds of `performance.now()`; the oldest first. */
  readonly #lowSince = new Map<string, number>();
  #turn = 0;

  get size(): number {
    return this.#since.size;
  }

  /** Returns whether the key is new; one that waits with low priority is lifted where it is normal by now. */
  add(key: string, priority: Priority): boolean {
    const isNew = !this.#since.has(key);
    const now = performance.now();
    if (isNew) this.#since.set(key, now);
    if (priority === 'normal') {
      if (isNew || this.#leaveLow(key)) this.#normal.add(groupOf(key), key);
    } else if (isNew) {
      this.#lowSince.set(key, now);
      this.#low.add(groupOf(key), key);
    }
    return isNew;
  }

  /** The next key of a namespace that may have a turn, with the milliseconds that it has waited. */
  take(mayTakeTurn: (group: string) => boolean): { key: string; waitedMs: number } | undefined {
    this.#age();
    this.#turn = (this.#turn + 1) % turnsOfNormal;
    const first = this.#turn === 0 ? this.#normal : this.#aged;
    const second = this.#turn === 0 ? this.#aged : this.#normal;
    const key = first.take(mayTakeTurn) ?? second.take(mayTakeTurn) ?? this.#low.take(mayTakeTurn);
    if (key === undefined) return undefined;
    const since = this.#since.get(key) as number;
    this.#since.delete(key);
    this.#lowSince.delete(key);
    return { key, waitedMs: performance.now() - since };
  }

  clear(): void {
    for (const queue of [this.#normal, this.#low, this.#aged]) queue.clear();
    this.#since.clear();
    this.#lowSince.clear();
  }

  #age(): void {
    const before = performance.now() - lowPriorityMs;
    for (const [key, since] of this.#lowSince) {
      if (since > before) return;
      this.#leaveLow(key);
      this.#aged.add(groupOf(key), key);
    }
  }

  #leaveLow(key: string): boolean {
    this.#lowSince.delete(key);
    return this.#low.delete(groupOf(key), key);
  }
}

/** Keys that are worked on, and how many of each namespace. */
class ActiveKeys {
  readonly #takenAt = new Map<string, number>();
  readonly #byGroup = new Map<string, number>();

  get size(): number {
    return this.#takenAt.size;
  }

  has(key: string): boolean {
    return this.#takenAt.has(key);
  }

  ofGroup(group: string): number {
    return this.#byGroup.get(group) ?? 0;
  }

  add(key: string): void {
    const group = groupOf(key);
    this.#takenAt.set(key, performance.now());
    this.#byGroup.set(group, this.ofGroup(group) + 1);
  }

  /** The milliseconds that it was worked on; undefined where it was not. */
  delete(key: string): number | undefined {
    const at = this.#takenAt.get(key);
    if (at === undefined) return undefined;
    this.#takenAt.delete(key);
    const group = groupOf(key);
    const left = this.ofGroup(group) - 1;
    if (left === 0) this.#byGroup.delete(group);
    else this.#byGroup.set(group, left);
    return performance.now() - at;
  }

  times(): Iterable<number> {
    return this.#takenAt.values();
  }
}

/**
 * A queue of keys as controllers need it: no key twice, no key with two workers. The contract is that of client-go's
 * workqueue with the priorities of controller-runtime's; namespaces take turns within a priority, and none of them gets
 * more workers than are left free, so that one whose passes take long leaves some to the others
 * (docs/adr/0017-fair-workqueues.md).
 */
export function createWorkqueue(options: WorkqueueOptions = {}): Workqueue {
  return new KeyQueue(options);
}

class KeyQueue implements Workqueue {
  readonly #options: WorkqueueOptions;
  readonly #waiting = new WaitingKeys();
  readonly #active = new ActiveKeys();
  /** Added while being worked on. */
  readonly #dirty = new Set<string>();
  readonly #timers = new Map<string, { due: number; timer: NodeJS.Timeout }>();
  readonly #backoff: Backoff;
  #takers: ((key: string | undefined) => void)[] = [];
  #isClosed = false;
  #adds = 0;
  #retries = 0;

  constructor(options: WorkqueueOptions) {
    this.#options = options;
    this.#backoff = new Backoff(() => performance.now(), options);
  }

  add(key: string): void {
    if (this.#isClosed) return;
    if (this.#active.has(key)) {
      this.#dirty.add(key);
      return;
    }
    const priority = this.#options.priorityOf?.(key) ?? 'normal';
    if (this.#waiting.add(key, priority)) this.#adds += 1;
    this.#serveTakers();
  }

  addAfter(key: string, delayMs: number): void {
    this.#retries += 1;
    this.#schedule(key, delayMs);
  }

  addBackoff(key: string, atLeastMs = 0): void {
    this.addAfter(key, Math.max(atLeastMs, this.#backoff.failed(key)));
  }

  forget(key: string): void {
    this.#backoff.clear(key);
  }

  take(): Promise<string | undefined> {
    if (this.#isClosed) return Promise.resolve(undefined);
    const key = this.#next();
    if (key !== undefined) return Promise.resolve(key);
    return new Promise((resolve) => {
      this.#takers.push(resolve);
    });
  }

  done(key: string): void {
    const workedMs = this.#active.delete(key);
    if (workedMs !== undefined) this.#options.onDone?.(workedMs / 1000);
    if (this.#dirty.delete(key)) this.add(key);
    // One more worker is free: also a namespace that had its share may have a turn now.
    this.#serveTakers();
  }

  depth(): number {
    return this.#waiting.size;
  }

  active(): number {
    return this.#active.size;
  }

  adds(): number {
    return this.#adds;
  }

  retries(): number {
    return this.#retries;
  }

  takenAt(): Iterable<number> {
    return this.#active.times();
  }

  failures(key: string): number {
    return this.#backoff.failures(key);
  }

  shutDown(): void {
    this.#isClosed = true;
    this.#timers.forEach(({ timer }) => clearTimeout(timer));
    this.#timers.clear();
    this.#waiting.clear();
    this.#dirty.clear();
    this.#takers.forEach((taker) => taker(undefined));
    this.#takers = [];
  }

  #next(): string | undefined {
    const { workers = Infinity, onTaken } = this.#options;
    const taken = this.#waiting.take(
      (group) => group === '' || hasShare(this.#active.ofGroup(group), this.#active.size, workers),
    );
    if (taken === undefined) return undefined;
    this.#active.add(taken.key);
    onTaken?.(taken.waitedMs / 1000);
    return taken.key;
  }

  #serveTakers(): void {
    while (this.#takers.length > 0 && this.#waiting.size > 0) {
      const key = this.#next();
      if (key === undefined) return;
      this.#takers.shift()?.(key);
    }
  }

  #schedule(key: string, delayMs: number): void {
    if (this.#isClosed) return;
    if (delayMs <= 0) {
      this.add(key);
      return;
    }
    const due = performance.now() + delayMs;
    const earlier = this.#timers.get(key);
    if (earlier !== undefined && earlier.due <= due) return;
    clearTimeout(earlier?.timer);
    const timer = setTimeout(
      () => {
        this.#timers.delete(key);
        // Timers of Node may be a millisecond early.
        this.#schedule(key, due - performance.now() < 1 ? 0 : due - performance.now());
      },
      Math.min(delayMs, longestTimerMs),
    );
    this.#timers.set(key, { due, timer });
  }
}
