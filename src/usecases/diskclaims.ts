import type { PersistentVolumeClaim } from '../api/core.ts';
import { diskClaimSelector } from '../api/diskimage.ts';
import { persistentVolumeClaims } from '../api/resources.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';

/**
 * The claims of a namespace that have disks of VMs, which whoever deletes an Image has to know: the operator keeps such an Image, but its deletion cannot be
 * taken back, and no VM is placed from it any more.
 *
 * @throws Svc3Error Forbidden that says why no Image is deleted where whoever asks may not list them
 */
export async function diskClaims(
  client: Pick<KubeClient, 'list'>,
  namespace: string,
): Promise<readonly PersistentVolumeClaim[]> {
  try {
    const options = { namespace, labelSelector: diskClaimSelector };
    return (await client.list(persistentVolumeClaims, options)).items;
  } catch (error) {
    if (!isSvc3Error(error, 'Forbidden')) throw error;
    const why = 'no image is deleted by who may not see which disks of deleted VMs need it';
    throw new Svc3Error('Forbidden', `${why}: ${error.message}`, { details: error.details, cause: error });
  }
}
