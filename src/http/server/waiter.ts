import type { KubeObject } from '../../api/object.ts';
import type { Waiter } from '../../usecases/waiter.ts';
import type { Call } from './route.ts';
import type { Watchers } from './watchers.ts';

/** Waits by the caches of the api, until this process drains or the client has hung up. */
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
    let isKnown = isNew !== true;
    const isOver = (object: T | undefined): boolean => {
      if (object?.metadata?.uid !== uid) return isKnown;
      isKnown = true;
      last = object as T;
      return done(last);
    };
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const until = AbortSignal.any([timeout, drain, signal]);
      const object = await changes.until({ name, namespace }, isOver, until);
      return object !== undefined && object.metadata?.uid === uid
        ? { kind: 'done', object }
        : { kind: 'gone' };
    } catch {
      return { kind: timeout.aborted ? 'timeout' : 'interrupted', object: last };
    }
  };
}
