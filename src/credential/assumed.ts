import type { KubeObject } from '../kube/types.ts';

/** How long a write may be missing from the cache before the cache is believed again. */
export const assumedMs = 2_000;

/**
 * What this process has written and its cache does not show yet. Without it a pass that begins too early would take the
 * old object for the present one and write again.
 */
export interface Assumptions<T extends KubeObject> {
  /** `object` is what the server answered to a write. */
  wrote(key: string, object: T): void;
  deleted(key: string, object: T): void;
  /**
   * Forgets what the cache has caught up with; to be called with every change of the cache. True when the change is the
   * very write that was assumed, so that nothing is new.
   */
  observe(key: string, object: T): boolean;
  /** The newer one of the cached object and the one that was written. */
  current(key: string, cached: T | undefined): T | undefined;
  /** Forgets all. */
  clear(): void;
}

interface Assumption<T> {
  readonly object: T;
  readonly isDeleted: boolean;
  readonly timer: NodeJS.Timeout;
}

/** Resource versions of one resource can be compared as numbers (guaranteed from Kubernetes 1.35). */
function versionOf(object: KubeObject): bigint {
  return BigInt(object.metadata?.resourceVersion ?? '0');
}

/** @param onExpired - called with a key whose write the cache has not shown in time: a watch was cut. */
export function createAssumptions<T extends KubeObject>(
  onExpired: (key: string) => void = () => undefined,
): Assumptions<T> {
  const known = new Map<string, Assumption<T>>();

  function forget(key: string): void {
    clearTimeout(known.get(key)?.timer);
    known.delete(key);
  }

  function assume(key: string, object: T, isDeleted: boolean): void {
    forget(key);
    const expire = (): void => {
      known.delete(key);
      onExpired(key);
    };
    known.set(key, { object, isDeleted, timer: setTimeout(expire, assumedMs).unref() });
  }

  function isCaughtUp({ object, isDeleted }: Assumption<T>, cached: T | undefined): boolean {
    if (isDeleted) return cached?.metadata?.uid !== object.metadata?.uid;
    return cached !== undefined && versionOf(cached) >= versionOf(object);
  }

  return {
    wrote: (key, object) => assume(key, object, false),
    deleted: (key, object) => assume(key, object, true),
    observe(key, object) {
      const assumption = known.get(key);
      if (assumption === undefined || versionOf(object) < versionOf(assumption.object)) return false;
      forget(key);
      return !assumption.isDeleted && versionOf(object) === versionOf(assumption.object);
    },
    current(key, cached) {
      const assumption = known.get(key);
      if (assumption === undefined) return cached;
      if (isCaughtUp(assumption, cached)) {
        forget(key);
        return cached;
      }
      return assumption.isDeleted ? undefined : assumption.object;
    },
    clear() {
      for (const key of known.keys()) forget(key);
    },
  };
}
