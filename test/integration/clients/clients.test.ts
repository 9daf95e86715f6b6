import { CoreV1Api, CustomObjectsApi, KubeConfig } from '@kubernetes/client-node';
import { GenericKind, K8s, RegisterKind } from 'kubernetes-fluent-client';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { Vm } from '../../../src/api/vm.ts';
import { vms } from '../../../src/api/resources.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

/** A VM as other TypeScript programs see it: a custom resource that their client registers. */
class ForeignVm extends GenericKind {
  declare spec: { image: string; cpu?: number; memory?: string };
}
RegisterKind(ForeignVm, { group: 'svc3.dev', version: 'v1', kind: 'VM', plural: 'vms' });

describe('clients of others', () => {
  let cluster: TestCluster;
  let namespace: string;

  beforeAll(async () => {
    cluster = await testCluster();
    namespace = await uniqueNamespace(cluster.client, 'clients');
    vi.stubEnv('KUBECONFIG', cluster.kubeconfigPath);
  });

  it('a VM applied with kubernetes-fluent-client is the VM that svc3 reads', async () => {
    const applied = await K8s(ForeignVm).Apply({
      metadata: { name: 'fluent', namespace },
      spec: { image: 'registry.example/debian:12', cpu: 2 },
    });
    expect(applied.metadata?.uid).toBeDefined();
    const vm: Vm = await cluster.client.get(vms, 'fluent', namespace);
    expect(vm.spec).toMatchObject({ image: 'registry.example/debian:12', cpu: 2, powerState: 'Running' });
  });

  it('a VM made by svc3 is read, changed and refused through @kubernetes/client-node', async () => {
    const config = new KubeConfig();
    config.loadFromFile(cluster.kubeconfigPath);
    await cluster.client.create(vms, {
      metadata: { name: 'typed', namespace },
      spec: { image: 'registry.example/debian:12', powerState: 'Running' },
    });
    const api = config.makeApiClient(CustomObjectsApi);
    const where = { group: 'svc3.dev', version: 'v1', namespace, plural: 'vms' };
    const list = (await api.listNamespacedCustomObject(where)) as { items: Vm[] };
    expect(list.items.map((vm) => vm.metadata?.name)).toContain('typed');
    await expect(
      api.createNamespacedCustomObject({
        ...where,
        body: {
          apiVersion: 'svc3.dev/v1',
          kind: 'VM',
          metadata: { name: 'none' },
          spec: { image: 'a/b', cpu: 0 },
        },
      }),
    ).rejects.toThrow(/spec\.cpu/);
  });

  it('a kubeconfig that svc3 reads is one that @kubernetes/client-node reads, with the same identity', async () => {
    const config = new KubeConfig();
    config.loadFromFile(cluster.kubeconfigPath);
    const found = await config.makeApiClient(CoreV1Api).readNamespace({ name: namespace });
    expect(found.metadata?.name).toBe(namespace);
  });
});
