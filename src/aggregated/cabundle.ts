import { actionsGroup, version } from '../api/meta.ts';
import { apiServices } from '../api/resources.ts';
import { isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';

const name = `${version}.${actionsGroup}`;

/** Tells kube-apiserver which certificate to trust; nothing is written when it knows. False: there is no APIService. */
export async function writeCaBundle(client: KubeClient, certificatePem: string): Promise<boolean> {
  const caBundle = Buffer.from(certificatePem).toString('base64');
  try {
    const { spec } = await client.get(apiServices, name);
    if ((spec as { caBundle?: string }).caBundle === caBundle) return true;
    await client.patch(
      apiServices,
      { name },
      { type: 'merge', body: { spec: { caBundle, insecureSkipTLSVerify: null } } },
      { fieldManager: 'svc3-api' },
    );
    return true;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return false;
    throw error;
  }
}
