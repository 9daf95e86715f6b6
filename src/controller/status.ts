import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, Resource, Submitted } from '../api/object.ts';
import { typeMeta } from '../api/resources.ts';
import { isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { ignoring } from './ignoring.ts';

/** Whether there is nothing to write; the order of fields does not count. */
export function isSameStatus<S extends object>(before: S | undefined, after: S | undefined): boolean {
  return isDeepStrictEqual(before, after);
}

/**
 * Writes the status of exactly this object, in place of exactly this status. A cache may be behind by as long as kube-apiserver was away,
 * also that of a replica that has just become leader: what such a pass has found out says nothing of the object as it is. A change of
 * anything else, a label or the spec, takes nothing from what was found out.
 *
 * @returns the object as it is then; undefined where it is gone: nobody reads the status of one that was deleted
 * @throws Svc3Error Conflict where the status is not the one that was seen any more
 */
export async function applyStatus<T extends KubeObject & { status?: object }>(
  client: KubeClient,
  resource: Resource<T>,
  seen: T,
  status: NonNullable<T['status']>,
): Promise<T | undefined> {
  const { name = '', namespace = '', uid = '', resourceVersion } = seen.metadata ?? {};
  const write = (version: string | undefined) => {
    const metadata = { name, namespace, uid, resourceVersion: version };
    const object = { ...typeMeta(resource), metadata, status } as unknown as Submitted<T>;
    return ignoring(['NotFound'], client.apply(resource, object, { subresource: 'status' }));
  };
  try {
    return await write(resourceVersion);
  } catch (error) {
    if (!isSvc3Error(error, 'Conflict')) throw error;
    const now = await ignoring(['NotFound'], client.get(resource, name, namespace));
    if (now === undefined) return undefined;
    if (now.metadata?.uid !== uid || !isSameStatus(seen.status, now.status)) throw error;
    return write(now.metadata.resourceVersion);
  }
}
