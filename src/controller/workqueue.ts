/** Times of the per-key backoff, in milliseconds. */
export interface BackoffOptions {
  /** After the first failure. Default 100. */
  baseMs?: number;
  /** At most. Default 5 minutes. */
  maxMs?: number;
  random?: () => number;
}

export interface Workqueue {
  /** Queues the key, once, however often it is added; a key being worked on is queued again when it is done. */
  add(key: string): void;
  /** Adds the key after a time; of several the earliest counts. */
  addAfter(key: string, delayMs: number): void;
  /** Adds the key after its own backoff, which doubles with every call until `forget`; never sooner than `atLeastMs`. */
  addBackoff(key: string, atLeastMs?: number): void;
  forget(key: string): void;
  /** The next key, which then belongs to the caller until `done`; undefined once the queue is shut down. */
  take(): Promise<string | undefined>;
  done(key: string): void;
  /** Keys that wait for a worker now. */
  depth(): number;
  /** Keys being worked on. */
  active(): number;
  failures(key: string): number;
  /** Hands out nothing more; keys that wait are dropped. */
  shutDown(): void;
}

/** Milliseconds to wait after the nth failure in a row (from 1): half of the exponential value for sure, half random. */
export function backoffDelay(failures: number, options: BackoffOptions = {}): number {
  const { baseMs = 100, maxMs = 300_000, random = Math.random } = options;
  const full = Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 30));
  return full / 2 + (random() * full) / 2;
}

/** Longest time a timer of Node can be set to. */
const longestTimerMs = 2 ** 31 - 1;

/**
 * A queue of keys as controllers need it: no key twice, no key with two workers, first in first out.
 * The contract is that of client-go's workqueue.
 */
export function createWorkqueue(
  options: BackoffOptions & { onDepth?: (depth: number) => void } = {},
): Workqueue {
  const waiting = new Set<string>();
  const active = new Set<string>();
  /** Added while being worked on. */
  const dirty = new Set<string>();
  const timers = new Map<string, { due: number; timer: NodeJS.Timeout }>();
  const failed = new Map<string, number>();
  let takers: ((key: string | undefined) => void)[] = [];
  let closed = false;

  const tellDepth = (): void => options.onDepth?.(waiting.size);

  function add(key: string): void {
    if (closed) {
      return;
    }
    if (active.has(key)) {
      dirty.add(key);
      return;
    }
    const taker = waiting.size === 0 ? takers.shift() : undefined;
    if (taker === undefined) {
      waiting.add(key);
      tellDepth();
    } else {
      active.add(key);
      taker(key);
    }
  }

  function addAfter(key: string, delayMs: number): void {
    if (closed) {
      return;
    }
    if (delayMs <= 0) {
      add(key);
      return;
    }
    const due = performance.now() + delayMs;
    const earlier = timers.get(key);
    if (earlier !== undefined && earlier.due <= due) {
      return;
    }
    clearTimeout(earlier?.timer);
    const timer = setTimeout(
      () => {
        timers.delete(key);
        addAfter(key, due - performance.now() < 1 ? 0 : due - performance.now());
      },
      Math.min(delayMs, longestTimerMs),
    );
    timers.set(key, { due, timer });
  }

  return {
    add,
    addAfter,
    addBackoff(key, atLeastMs = 0) {
      const failures = (failed.get(key) ?? 0) + 1;
      failed.set(key, failures);
      addAfter(key, Math.max(atLeastMs, backoffDelay(failures, options)));
    },
    forget: (key) => failed.delete(key),
    take() {
      if (closed) {
        return Promise.resolve(undefined);
      }
      const [key] = waiting;
      if (key === undefined) {
        return new Promise((resolve) => {
          takers.push(resolve);
        });
      }
      waiting.delete(key);
      active.add(key);
      tellDepth();
      return Promise.resolve(key);
    },
    done(key) {
      active.delete(key);
      if (dirty.delete(key)) {
        add(key);
      }
    },
    depth: () => waiting.size,
    active: () => active.size,
    failures: (key) => failed.get(key) ?? 0,
    shutDown() {
      closed = true;
      timers.forEach(({ timer }) => clearTimeout(timer));
      timers.clear();
      waiting.clear();
      dirty.clear();
      takers.forEach((taker) => taker(undefined));
      takers = [];
      tellDepth();
    },
  };
}
