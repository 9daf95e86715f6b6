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

/** @param isWritten - whether what is found of the object is what was written, or came after it */
async function waitFor<T extends KubeObject>(
  changes: Watchers<T>,
  { metadata }: T,
  isWritten: (found: NonNullable<T['metadata']>) => boolean,
  signal: AbortSignal,
): Promise<void> {
  const { name = '', namespace = '', uid } = metadata ?? {};
  const seen = (found: T | undefined): boolean =>
    found?.metadata !== undefined && found.metadata.uid === uid && isWritten(found.metadata);
  await quietly(
    changes.until({ name, namespace }, seen, AbortSignal.any([signal, AbortSignal.timeout(visibleMs)])),
  );
}

/**
 * Resolves when the cache shows the object as it was written (its generation, or a later one), after a second at most, and when the signal is aborted. Never
 * rejects: the write is done.
 */
export function waitSeen<T extends KubeObject>(
  changes: Watchers<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> {
  const { generation = 0 } = object.metadata ?? {};
  return waitFor(changes, object, (found) => (found.generation ?? 0) >= generation, signal);
}

/** For a write of an annotation: no generation tells of it. */
export function waitAnnotated<T extends KubeObject>(
  changes: Watchers<T>,
  object: T,
  annotation: string,
  signal: AbortSignal,
): Promise<void> {
  const written = object.metadata?.annotations?.[annotation];
  return waitFor(changes, object, (found) => found.annotations?.[annotation] === written, signal);
}

/** The same for a deletion: until the cache shows no such object, or one that is being deleted. */
export async function waitGone<T extends KubeObject>(
  changes: Watchers<T>,
  key: { name: string; namespace: string },
  signal: AbortSignal,
): Promise<void> {
  const gone = (found: T | undefined): boolean =>
    found === undefined || found.metadata?.deletionTimestamp !== undefined;
  await quietly(changes.until(key, gone, AbortSignal.any([signal, AbortSignal.timeout(visibleMs)])));
}
