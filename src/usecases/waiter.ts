import type { KubeObject, Resource } from '../api/object.ts';

/** How long a power verb is waited for at most, in milliseconds (docs/http.md). */
export const powerTimeoutMs = 120_000;
/** How long a change of a VM is waited for at most, in milliseconds (docs/http.md). */
export const changeTimeoutMs = 30_000;

/** How a wait for one object ended. */
export type Waited<T> =
  | { readonly kind: 'done'; readonly object: T }
  /** The object was deleted; another one of its name is not it. */
  | { readonly kind: 'gone' }
  /** `object` is what was seen last. `interrupted`: the process drains, or its caller is away. */
  | { readonly kind: 'timeout' | 'interrupted'; readonly object: T };

export interface Wait<T> {
  readonly timeoutMs: number;
  /** Called with every state that is seen; true ends the wait. */
  done(object: T): boolean;
  /** The object was created a moment ago: a cache that does not have it yet does not mean that it is gone. */
  readonly isNew?: boolean;
}

/** Waits for a state of an object, from the one that is given on: the api by its caches, the CLI by asking kube-apiserver. */
export type Waiter = <T extends KubeObject>(
  resource: Resource<T>,
  start: T,
  wait: Wait<T>,
) => Promise<Waited<T>>;
