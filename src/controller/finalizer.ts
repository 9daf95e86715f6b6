import { otherFinalizers } from '../api/finalizer.ts';
import { finalizer } from '../api/meta.ts';
import type { KubeObject, Resource } from '../api/object.ts';
import type { KubeClient } from '../kube/types.ts';

/**
 * The object with our finalizer, as kube-apiserver has written it.
 *
 * @throws Conflict where the object is not the one that was seen any more.
 */
export function addFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
): Promise<T> {
  return setFinalizers(client, resource, object, [...(object.metadata?.finalizers ?? []), finalizer]);
}

/**
 * Lets go of the object: it is gone when nobody else holds it.
 *
 * @throws Conflict where the object is not the one that was seen any more; NotFound.
 */
export function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
): Promise<T> {
  return setFinalizers(client, resource, object, otherFinalizers(object));
}

/** A merge patch replaces the whole list, so it names the version that was seen. */
function setFinalizers<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  { metadata }: T,
  finalizers: readonly string[],
): Promise<T> {
  const { name = '', namespace = '', uid, resourceVersion } = metadata ?? {};
  const body = { metadata: { uid, resourceVersion, finalizers } };
  return client.patch(resource, { name, namespace }, { type: 'merge', body });
}
