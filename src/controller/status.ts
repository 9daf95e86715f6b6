import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, Resource, Submitted } from '../api/object.ts';
import { typeMeta } from '../api/resources.ts';
import type { KubeClient } from '../kube/types.ts';
import { ignoring } from './ignoring.ts';

/** Whether there is nothing to write; the order of fields does not count. */
export function isSameStatus<S extends object>(before: S | undefined, after: S): boolean {
  return isDeepStrictEqual(before, after);
}

/**
 * Writes the status of exactly this object. The object as it is then; undefined where it is gone: nobody reads the status of
 * one that was deleted.
 */
export function applyStatus<T extends KubeObject & { status?: object }>(
  client: KubeClient,
  resource: Resource<T>,
  { metadata }: T,
  status: NonNullable<T['status']>,
): Promise<T | undefined> {
  const { name = '', namespace = '', uid = '' } = metadata ?? {};
  const object = {
    ...typeMeta(resource),
    metadata: { name, namespace, uid },
    status,
  } as unknown as Submitted<T>;
  return ignoring(['NotFound'], client.apply(resource, object, { subresource: 'status' }));
}
