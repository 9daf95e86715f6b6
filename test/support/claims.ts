import { persistentVolumeClaims } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';

/** Stands in for kube-controller-manager's volume controller; a claim that is bound for real: test/life/drain.test.ts. */
export async function bindClaim(client: KubeClient, namespace: string, name: string): Promise<void> {
  const { metadata, spec } = await client.get(persistentVolumeClaims, name, namespace);
  const storage = spec?.resources?.requests?.['storage'] ?? '';
  const volumeName = `${namespace}-${name}`;
  const body = {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: volumeName },
    spec: {
      capacity: { storage },
      accessModes: spec?.accessModes,
      storageClassName: spec?.storageClassName,
      hostPath: { path: '/none' },
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, namespace, uid: metadata.uid },
    },
  };
  await client.request({ method: 'POST', path: '/api/v1/persistentvolumes', body });
  const merge = (part: object, subresource?: string) =>
    client.patch(
      persistentVolumeClaims,
      { name, namespace },
      { type: 'merge', body: part },
      subresource === undefined ? {} : { subresource },
    );
  await merge({
    metadata: { annotations: { 'pv.kubernetes.io/bind-completed': 'yes' } },
    spec: { volumeName },
  });
  await merge({ status: { phase: 'Bound', capacity: { storage } } }, 'status');
}
