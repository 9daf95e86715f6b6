import { isSvc3Error, Svc3Error } from '../../../errors.ts';
import type { KubeObject, Resource } from '../../../api/object.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { sleep } from '../../sleep.ts';

const pollMs = 500;

/** How long an object is looked at, and what ends it. */
export interface WaitOptions<T> {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called with every version that was seen; true ends the wait. */
  done(object: T): boolean;
}

/**
 * Polls one object until `done`. The end of the time returns what was seen last with `done: false`; the object gone, or
 * another in its place, returns `undefined`. Short troubles of the server are waited out.
 * @throws Svc3Error Timeout when the signal is aborted
 */
export async function waitFor<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  start: T,
  options: WaitOptions<T>,
): Promise<{ readonly object: T; readonly done: boolean } | undefined> {
  const { name = '', namespace, uid } = start.metadata ?? {};
  const end = performance.now() + options.timeoutMs;
  let last = start;
  for (;;) {
    if (options.signal.aborted)
      throw new Svc3Error('Timeout', `stopped waiting for ${resource.kind} ${name}`);
    try {
      last = await client.get(resource, name, namespace);
      if (last.metadata?.uid !== uid) return undefined;
      if (options.done(last)) return { object: last, done: true };
    } catch (error) {
      if (isSvc3Error(error, 'NotFound')) return undefined;
      if (!isSvc3Error(error, 'ServiceUnavailable', 'Timeout', 'TooManyRequests')) throw error;
    }
    if (performance.now() > end) return { object: last, done: false };
    await sleep(pollMs, options.signal);
  }
}
