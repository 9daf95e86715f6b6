import type { KubeObject, Resource } from '../../../api/object.ts';
import type { Informer, InformerOptions, KubeClient } from '../../../kube/types.ts';
import { retryWhileUnreachable } from '../../unreachable.ts';
import { aborted, sleep } from '../../sleep.ts';

/** Makes caches that lists and watches of kube-apiserver keep true. */
export type Informers = <T extends KubeObject>(options: InformerOptions<T>) => Informer<T>;

/** A list with the caches that keep it true. */
export interface Followed<T> {
  /** Read once at the start and now and then, so that a lost right ends it with the server's words. */
  list(): Promise<readonly T[]>;
  /** Not running yet. */
  readonly informers: readonly Pick<Informer<KubeObject>, 'onChange' | 'run' | 'synced'>[];
  /** What the caches say now. */
  items(): readonly T[];
}

/** Longest time without asking the server whether it still answers. */
const proofMs = 60_000;

/**
 * The list as it is, and again whenever a watch tells a change, until the signal.
 *
 * @throws what the list threw: the first time at once, later as `retryWhileUnreachable` does
 */
export async function* follow<T>(
  { list, informers, items }: Followed<T>,
  signal: AbortSignal,
): AsyncGenerator<readonly T[]> {
  yield await list();
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  let changed = Promise.withResolvers<'changed'>();
  for (const informer of informers) informer.onChange(() => changed.resolve('changed'));
  const running = informers.map((informer) => informer.run(until));
  try {
    await Promise.race([Promise.all(informers.map((informer) => informer.synced())), aborted(until)]);
    while (!until.aborted) {
      changed = Promise.withResolvers();
      yield items();
      const news = await Promise.race([changed.promise, sleep(proofMs, until)]);
      if (news !== 'changed' && !until.aborted) yield await retryWhileUnreachable(list, until);
    }
  } finally {
    ended.abort();
    await Promise.allSettled(running);
  }
}

/** kube-apiserver with what follows its changes. */
export interface Followable {
  readonly client: KubeClient;
  readonly informers: Informers;
}

/** Follows the objects of one kind in a namespace, as items. */
export function followObjects<T extends KubeObject, I>(
  { client, informers }: Followable,
  { resource, namespace, toItem }: { resource: Resource<T>; namespace: string; toItem: (object: T) => I },
  signal: AbortSignal,
): AsyncGenerator<readonly I[]> {
  const informer = informers<T>({ client, resource, namespace });
  const followed: Followed<I> = {
    list: async () => (await client.list(resource, { namespace })).items.map(toItem),
    informers: [informer],
    items: () => byName(informer.list()).map(toItem),
  };
  return follow(followed, signal);
}

/** In the order of lists of kube-apiserver. */
export function byName<T extends KubeObject>(objects: readonly T[]): T[] {
  return [...objects].sort((a, b) => ((a.metadata?.name ?? '') < (b.metadata?.name ?? '') ? -1 : 1));
}
