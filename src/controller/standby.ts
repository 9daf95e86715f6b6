import type { Informers } from './informers.ts';
import type { LeaderElector } from './leader.ts';

/**
 * Takes part in an election until the signal, once the caches are full: who led without them could do nothing, and would keep the lease
 * from those who can. Rejects as the elector does.
 */
export async function electWithCaches(
  elector: Pick<LeaderElector, 'run'>,
  informers: Pick<Informers, 'synced'>,
  signal: AbortSignal,
): Promise<void> {
  const stopped = Promise.withResolvers<void>();
  const stop = (): void => stopped.resolve();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  await Promise.race([informers.synced(), stopped.promise]);
  signal.removeEventListener('abort', stop);
  if (!signal.aborted) await elector.run(signal);
}
