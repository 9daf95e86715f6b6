import { CoreV1Api, KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { K8s } from 'kubernetes-fluent-client';
import { VM } from 'svc3/sdk/fluent';
import { resources, type VM as TypedVm } from 'svc3/sdk';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { Vm } from '../../../src/api/vm.ts';
import { vms } from '../../../src/api/resources.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

describe('clients of others', () => {
  let cluster: TestCluster;
  let namespace: string;

  beforeAll(async () => {
    cluster = await testCluster();
    namespace = await uniqueNamespace(cluster.client, 'clients');
    vi.stubEnv('KUBECONFIG', cluster.kubeconfigPath);
  });

  it('a VM applied with kubernetes-fluent-client is the VM that svc3 reads', async () => {
    const applied = await K8s(VM).Apply({
      metadata: { name: 'fluent', namespace },
      spec: { image: 'registry.example/debian:12', cpu: 2 },
    });
    expect(applied.metadata?.uid).toBeDefined();
    const vm: Vm = await cluster.client.get(vms, 'fluent', namespace);
    expect(vm.spec).toMatchObject({ image: 'registry.example/debian:12', cpu: 2, powerState: 'Running' });
  });

  it('what svc3 says of a VM is watched with kubernetes-fluent-client, and the VM deleted', async () => {
    const seen: (string | undefined)[] = [];
    const watcher = K8s(VM, { name: 'watched', namespace }).Watch((vm) => {
      seen.push(vm.status?.powerState);
    });
    await watcher.start();
    await K8s(VM).Apply({
      metadata: { name: 'watched', namespace },
      spec: { image: 'registry.example/debian:12' },
    });
    await cluster.client.patch(
      vms,
      { name: 'watched', namespace },
      { type: 'merge', body: { status: { powerState: 'Running' } } },
      { subresource: 'status' },
    );
    await expect.poll(() => seen).toContain('Running');
    watcher.close();
    await K8s(VM, { namespace }).Delete('watched');
    await expect(K8s(VM, { namespace }).Get('watched')).rejects.toMatchObject({ status: 404 });
  });

  it('a VM made by svc3 is read, changed and refused through @kubernetes/client-node', async () => {
    const config = new KubeConfig();
    config.loadFromFile(cluster.kubeconfigPath);
    await cluster.client.create(vms, {
      metadata: { name: 'typed', namespace },
      spec: { image: 'registry.example/debian:12', powerState: 'Running' },
    });
    const api = KubernetesObjectApi.makeApiClient(config);
    const { apiVersion, kind } = resources.VM;
    const header = { apiVersion, kind };
    const vm = await api.read<TypedVm & { metadata: object }>({
      ...header,
      metadata: { name: 'typed', namespace },
    });
    expect(vm.spec.image).toBe('registry.example/debian:12');
    await expect(
      api.create({
        ...header,
        metadata: { name: 'none', namespace },
        spec: { image: 'a/b', cpu: 0 },
      } as TypedVm as never),
    ).rejects.toThrow(/spec\.cpu/);
  });

  it('a kubeconfig that svc3 reads is one that @kubernetes/client-node reads, with the same identity', async () => {
    const config = new KubeConfig();
    config.loadFromFile(cluster.kubeconfigPath);
    const found = await config.makeApiClient(CoreV1Api).readNamespace({ name: namespace });
    expect(found.metadata?.name).toBe(namespace);
  });
});
