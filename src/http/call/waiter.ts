import type { KubeObject, Resource } from '../../api/object.ts';
import { isSvc3Error } from '../../errors.ts';
import type { KubeClient } from '../../kube/types.ts';
import type { Waiter } from '../../usecases/waiter.ts';
import type { Call } from './route.ts';
import type { Watchers } from './watchers.ts';

/**
 * Waits by the caches of the api, until this process drains or the client has hung up. What a cache has never had, kube-apiserver is asked
 * for once: another replica may have made it a moment ago.
 */
export function waiterOf({
  services,
  drain,
  signal,
}: Pick<Call<unknown, unknown, unknown>, 'services' | 'drain' | 'signal'>): Waiter {
  return async (resource, start, { timeoutMs, done, isNew }) => {
    type T = typeof start;
    const { changes } = services.caches[resource.plural as 'vms' | 'images'] as unknown as {
      readonly changes: Watchers<T & KubeObject>;
    };
    const { name = '', namespace = '', uid } = start.metadata ?? {};
    let last = start;
    let isKnown = false;
    const isOver = (object: T | undefined): boolean => {
      if (object?.metadata?.uid !== uid) return isKnown;
      isKnown = true;
      last = object as T;
      return done(last);
    };
    const timeout = AbortSignal.timeout(timeoutMs);
    const gone = new AbortController();
    try {
      const until = AbortSignal.any([timeout, drain, signal, gone.signal]);
      // What comes and goes while kube-apiserver is asked is seen, too.
      const waiting = changes.until({ name, namespace }, isOver, until);
      if (!isKnown && isNew !== true)
        void isGone(services.client, resource, start).then((isSo) => isSo && gone.abort());
      const object = await waiting;
      return object !== undefined && object.metadata?.uid === uid
        ? { kind: 'done', object }
        : { kind: 'gone' };
    } catch {
      if (gone.signal.aborted) return { kind: 'gone' };
      return { kind: timeout.aborted ? 'timeout' : 'interrupted', object: last };
    }
  };
}

/** Whether kube-apiserver says that it is; where there is no answer nobody knows. */
async function isGone<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { metadata }: T,
): Promise<boolean> {
  try {
    const object = await client.get(resource, metadata?.name ?? '', metadata?.namespace);
    return object.metadata?.uid !== metadata?.uid;
  } catch (error) {
    return isSvc3Error(error, 'NotFound');
  }
}
