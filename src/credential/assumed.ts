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
  /** Forgets what the cache has caught up with; to be called with every change of the cache. */
  observe(key: string, object: T): void;
  /** The newer one of the cached object and the one that was written. */
  current(key: string, cached: T | undefined): T | undefined;
}

interface Assumption<T> {
  readonly object: T;
  readonly isDeleted: boolean;
  readonly at: number;
}

/** Resource versions of one resource can be compared as numbers (guaranteed from Kubernetes 1.35). */
function versionOf(object: KubeObject): bigint {
  return BigInt(object.metadata?.resourceVersion ?? '0');
}

export function createAssumptions<T extends KubeObject>(
  now: () => number = () => performance.now(),
): Assumptions<T> {
  const known = new Map<string, Assumption<T>>();

  function isOver(assumption: Assumption<T>, cached: T | undefined): boolean {
    const { object, isDeleted, at } = assumption;
    if (isDeleted) {
      return cached?.metadata?.uid !== object.metadata?.uid || now() - at > assumedMs;
    }
    return cached === undefined ? now() - at > assumedMs : versionOf(cached) >= versionOf(object);
  }

  return {
    wrote: (key, object) => known.set(key, { object, isDeleted: false, at: now() }),
    deleted: (key, object) => known.set(key, { object, isDeleted: true, at: now() }),
    observe(key, object) {
      const assumption = known.get(key);
      if (assumption !== undefined && versionOf(object) >= versionOf(assumption.object)) known.delete(key);
    },
    current(key, cached) {
      const assumption = known.get(key);
      if (assumption === undefined) return cached;
      if (isOver(assumption, cached)) {
        known.delete(key);
        return cached;
      }
      return assumption.isDeleted ? undefined : assumption.object;
    },
  };
}
