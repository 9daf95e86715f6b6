import { otherFinalizers } from '../api/finalizer.ts';
import { finalizer } from '../api/meta.ts';
import type { KubeObject, Resource } from '../api/object.ts';
import type { KubeClient } from '../kube/types.ts';
import type { Expectations } from './expectations.ts';
import { ignoring } from './ignoring.ts';

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
 * Lets go of the object, which is gone when nobody else holds it. The cache shows it for a while as it was: a pass over that would
 * write again, so what has become of it is expected under `key`.
 *
 * @throws Conflict where the object is not the one that was seen any more.
 */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  { expected, key }: { readonly expected: Pick<Expectations<T>, 'wrote' | 'deleted'>; readonly key: string },
): Promise<void> {
  const others = otherFinalizers(object);
  const written = await ignoring(['NotFound'], setFinalizers(client, resource, object, others));
  if (written === undefined || others.length === 0) expected.deleted(key, object);
  else expected.wrote(key, written);
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
