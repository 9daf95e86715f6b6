import type { KubeObject } from '../../api/object.ts';
import type { Informer } from '../../kube/types.ts';

/** Waits for single objects of an informer. */
export interface Watchers<T extends KubeObject> {
  /**
   * Resolves with the object (undefined: it is gone) as soon as `done` says so, at once if it says so now. Rejects
   * with the signal's reason. `done` sees every state that the cache shows from now on.
   */
  until(
    key: { name: string; namespace: string },
    done: (object: T | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<T | undefined>;
  /** Calls back with every object that changed or went, after that, until the returned function is called. */
  follow(listener: (object: T) => void): () => void;
}

type Listener<T> = (object: T | undefined) => void;

/** Hears every change of the informer from now on, in one handler of it, however many wait. */
export function createWatchers<T extends KubeObject>(informer: Informer<T>): Watchers<T> {
  const listeners = new Map<string, Set<Listener<T>>>();
  const followers = new Set<(object: T) => void>();
  informer.onChange((change) => {
    for (const follower of followers) follower(change.object);
    const { name = '', namespace = '' } = change.object.metadata ?? {};
    const waiting = listeners.get(`${namespace}/${name}`);
    if (waiting === undefined) return;
    for (const listener of waiting) listener(change.kind === 'deleted' ? undefined : change.object);
  });

  return {
    follow(listener) {
      followers.add(listener);
      return () => void followers.delete(listener);
    },
    until({ name, namespace }, done, signal) {
      const key = `${namespace}/${name}`;
      return new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(signal.reason as Error);
          return;
        }
        const current = informer.get(name, namespace);
        if (done(current)) {
          resolve(current);
          return;
        }
        const waiting = listeners.get(key) ?? new Set();
        const end = (): void => {
          waiting.delete(listener);
          if (waiting.size === 0) listeners.delete(key);
          signal.removeEventListener('abort', onAbort);
        };
        const listener: Listener<T> = (object) => {
          if (!done(object)) return;
          end();
          resolve(object);
        };
        const onAbort = (): void => {
          end();
          reject(signal.reason as Error);
        };
        waiting.add(listener);
        listeners.set(key, waiting);
        signal.addEventListener('abort', onAbort, { once: true });
      });
    },
  };
}
