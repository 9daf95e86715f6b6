import type { PersistentVolumeClaim } from '../api/core.ts';
import { diskClaimSelector } from '../api/diskimage.ts';
import { persistentVolumeClaims } from '../api/resources.ts';
import { isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';

/** The claims of a namespace that have disks of VMs; none where whoever asks may not list them: the operator looks at them before an Image goes. */
export async function diskClaims(
  client: Pick<KubeClient, 'list'>,
  namespace: string,
): Promise<readonly PersistentVolumeClaim[]> {
  try {
    const options = { namespace, labelSelector: diskClaimSelector };
    return (await client.list(persistentVolumeClaims, options)).items;
  } catch (error) {
    if (!isSvc3Error(error, 'Forbidden')) throw error;
    return [];
  }
}
