import type { KubeObject } from '../../api/object.ts';
import type { Watchers } from './watchers.ts';

/** Lists come from the cache: a write waits this long at most until the cache shows it, so that clients read what they wrote. */
const visibleMs = 1_000;

async function quietly(wait: Promise<unknown>): Promise<void> {
  try {
    await wait;
  } catch {
    // The write is done; that this process has not seen it yet is no failure of it.
  }
}

export async function waitSeen<T extends KubeObject>(
  changes: Watchers<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> {
  const { name = '', namespace = '', uid, generation = 0 } = object.metadata ?? {};
  const seen = (found: T | undefined): boolean =>
    found?.metadata?.uid === uid && (found?.metadata?.generation ?? 0) >= generation;
  await quietly(
    changes.until({ name, namespace }, seen, AbortSignal.any([signal, AbortSignal.timeout(visibleMs)])),
  );
}

export async function waitGone<T extends KubeObject>(
  changes: Watchers<T>,
  key: { name: string; namespace: string },
  signal: AbortSignal,
): Promise<void> {
  const gone = (found: T | undefined): boolean =>
    found === undefined || found.metadata?.deletionTimestamp !== undefined;
  await quietly(changes.until(key, gone, AbortSignal.any([signal, AbortSignal.timeout(visibleMs)])));
}
