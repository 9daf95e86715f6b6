import type { Pod } from '../../../api/core.ts';
import { annotations } from '../../../api/meta.ts';
import { pods } from '../../../api/resources.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import type { KubeClient } from '../../../kube/types.ts';

/**
 * Gives a pod the public control keys as they are now: by them its runner knows the operator, also after a rotation. No write where it has
 * them. One that is gone, or another of its name, needs none.
 *
 * @param keys - '' where they are not known
 */
export async function renewControlKeys(
  client: Pick<KubeClient, 'patch'>,
  { metadata: { name, namespace, uid, annotations: has = {} } }: Pod,
  keys: string,
): Promise<void> {
  if (keys === '' || has[annotations.controlKeys] === keys) return;
  const body = { metadata: { uid, annotations: { [annotations.controlKeys]: keys } } };
  await ignoring(['NotFound', 'Conflict'], client.patch(pods, { name, namespace }, { type: 'merge', body }));
}
