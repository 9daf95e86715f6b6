import { isNotNewer } from '../kube/reflector.ts';
import type { KubeObject } from '../api/object.ts';

/** How long a write may be missing from the cache before the cache counts again, in milliseconds. */
export const expectationMs = 2_000;

/**
 * What this process has written and its cache does not show yet. Without it a pass that begins too early would take the
 * old object for the present one and write again.
 */
export interface Expectations<T extends KubeObject> {
  /** `object` is what the server answered to a write. */
  wrote(key: string, object: T): void;
  deleted(key: string, object: T): void;
  /**
   * Forgets what the cache has caught up with; to be called with every change of the cache. True when the change is the
   * very write that was expected, so that nothing is new.
   */
  observe(key: string, object: T): boolean;
  /** The newer one of the cached object and the one that was written. */
  current(key: string, cached: T | undefined): T | undefined;
  forget(key: string): void;
  /** Forgets all. */
  clear(): void;
}

interface Expectation<T> {
  readonly object: T;
  readonly isDeleted: boolean;
  /** When it ends, by the clock of `performance`. */
  readonly due: number;
}

function versionOf(object: KubeObject): string {
  return object.metadata?.resourceVersion ?? '0';
}

/**
 * @param onExpired - called with a key whose write the cache has not shown in time: a watch was cut
 * @param forMs - how long that is, in milliseconds
 */
export function createExpectations<T extends KubeObject>(
  onExpired: (key: string) => void = () => undefined,
  forMs = expectationMs,
): Expectations<T> {
  /** In the order of their ends: one timer, for the first, does for all. */
  const known = new Map<string, Expectation<T>>();
  let timer: NodeJS.Timeout | undefined;
  let turn: NodeJS.Immediate | undefined;

  function expire(): void {
    timer = undefined;
    const now = performance.now();
    const expired: string[] = [];
    for (const [key, { due }] of known) {
      if (due > now) break;
      known.delete(key);
      expired.push(key);
    }
    arm();
    for (const key of expired) onExpired(key);
  }

  function arm(): void {
    const [first] = known.values();
    if (timer !== undefined || first === undefined) return;
    // A process that did not run for a while has its timers called before it reads what the watch has brought meanwhile.
    const afterReading = () => void (turn = setImmediate(expire));
    timer = setTimeout(afterReading, Math.max(1, first.due - performance.now())).unref();
  }

  function expect(key: string, object: T, isDeleted: boolean): void {
    known.delete(key);
    known.set(key, { object, isDeleted, due: performance.now() + forMs });
    arm();
  }

  function isCaughtUp({ object, isDeleted }: Expectation<T>, cached: T | undefined): boolean {
    if (isDeleted) return cached?.metadata?.uid !== object.metadata?.uid;
    return cached !== undefined && isNotNewer(versionOf(object), versionOf(cached));
  }

  return {
    wrote: (key, object) => expect(key, object, false),
    deleted: (key, object) => expect(key, object, true),
    observe(key, object) {
      const expectation = known.get(key);
      if (expectation === undefined || !isNotNewer(versionOf(expectation.object), versionOf(object)))
        return false;
      known.delete(key);
      return !expectation.isDeleted && versionOf(object) === versionOf(expectation.object);
    },
    current(key, cached) {
      const expectation = known.get(key);
      if (expectation === undefined) return cached;
      if (isCaughtUp(expectation, cached)) {
        known.delete(key);
        return cached;
      }
      return expectation.isDeleted ? undefined : expectation.object;
    },
    forget: (key) => known.delete(key),
    clear() {
      clearTimeout(timer);
      clearImmediate(turn);
      timer = undefined;
      known.clear();
    },
  };
}
