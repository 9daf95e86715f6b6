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
 * Writes the status of exactly this version of the object. A cache may be behind by as long as kube-apiserver was away, also that of a
 * replica that has just become leader: what such a pass has found out says nothing of the object as it is.
 *
 * @returns the object as it is then; undefined where it is gone: nobody reads the status of one that was deleted
 * @throws Svc3Error Conflict where the object has changed since it was seen
 */
export function applyStatus<T extends KubeObject & { status?: object }>(
  client: KubeClient,
  resource: Resource<T>,
  { metadata }: T,
  status: NonNullable<T['status']>,
): Promise<T | undefined> {
  const { name = '', namespace = '', uid = '', resourceVersion } = metadata ?? {};
  const object = {
    ...typeMeta(resource),
    metadata: { name, namespace, uid, resourceVersion },
    status,
  } as unknown as Submitted<T>;
  return ignoring(['NotFound'], client.apply(resource, object, { subresource: 'status' }));
}
