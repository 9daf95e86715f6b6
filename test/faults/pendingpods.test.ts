import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pod } from '../../src/api/core.ts';
import { configMaps, namespaces, pods, vms } from '../../src/api/resources.ts';
import { explain } from '../../src/usecases/explanation.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator } from '../support/operator.ts';
import type { Submitted } from '../../src/api/object.ts';

/**
 * A tenant's pod that names a node by matchFields and that kube-scheduler never binds took the node's memory, GPUs and
 * host ports in the operator's books: the VMs of everybody else were Unschedulable.
 */
let world: VmWorld;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({
    name: 'n1',
    labels: { 'svc3.dev/gpu-passthrough': 'enabled' },
    allocatable: { cpu: '4', memory: '20Gi', 'svc3.dev/gpu-passthrough': '1' },
  });
});

afterAll(() => world?.stop());

async function withOperator(
  work: () => Promise<void>,
  settings: Parameters<typeof startVmOperator>[1] = {},
): Promise<void> {
  const operator = await startVmOperator(world.client, { gpuPassthroughEnabled: true, ...settings });
  try {
    await work();
  } finally {
    await operator.stop();
  }
}

/** A pod that names n1 by a field, as the operator's own do, and asks for a label that no node has. */
function pinnedPod(namespace: string, container: object, metadata: object = {}): Submitted<Pod> {
  return {
    metadata: { name: 'squatter', namespace, ...metadata },
    spec: {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] }],
          },
        },
      },
      nodeSelector: { 'example.com/nowhere': 'true' },
      containers: [{ name: 'a', image: 'b', ...container }],
    },
  };
}

const devices = { limits: { 'svc3.dev/gpu-passthrough': '1' } };
const hostPort = { ports: [{ containerPort: 80, hostPort: 20000 }] };

describe('an unbound pod of a tenant takes nothing of the node that it names', () => {
  test.each<[what: string, container: object, spec: Parameters<VmNamespace['deploy']>[1]]>([
    ['memory', { resources: { requests: { memory: '17Gi' } } }, { memory: '4Gi' }],
    ['the GPUs', { resources: devices }, { gpuPassthrough: 'Enabled', architecture: 'amd64' }],
    ['a host port', hostPort, { ports: [{ nodePort: 20000, guestPort: 80 }] }],
  ])('%s', async (what, container, spec) => {
    const tenant = await world.namespace(`squatter-${what.replaceAll(/\W/g, '').toLowerCase()}`);
    const other = await world.namespace(`victim-${what.replaceAll(/\W/g, '').toLowerCase()}`);
    await world.client.create(pods, pinnedPod(tenant.name, container));
    await withOperator(async () => {
      await other.deploy('vm', spec);
      await other.untilReady('vm');
      expect((await other.vm('vm')).status?.node).toBe('n1');
      await other.remove('vm');
    });
    await world.client.delete(pods, { name: 'squatter', namespace: tenant.name });
  });

  test('also where it says that it belongs to a VM', async () => {
    const tenant = await world.namespace('forger');
    const other = await world.namespace('forged');
    await tenant.deploy('mine');
    const { metadata } = await tenant.vm('mine');
    const owner = {
      apiVersion: 'svc3.dev/v1',
      kind: 'VM',
      name: 'mine',
      uid: metadata.uid,
      controller: true,
    };
    const labels = { 'svc3.dev/vm': 'mine', 'app.kubernetes.io/part-of': 'svc3' };
    const container = { resources: { requests: { memory: '17Gi' } } };
    const forged = { ownerReferences: [owner], labels };
    await world.client.create(pods, pinnedPod(tenant.name, container, forged));
    await withOperator(async () => {
      await other.deploy('vm', { memory: '4Gi' });
      await other.untilReady('vm');
      await other.remove('vm');
      await tenant.untilReady('mine');
      await tenant.remove('mine');
    });
  });

  test('and vm explain says that the node fits', async () => {
    const tenant = await world.namespace('explained');
    const container = { resources: { requests: { memory: '17Gi' } } };
    await world.client.create(pods, pinnedPod(tenant.name, container));
    await tenant.deploy('vm', { memory: '4Gi' });
    const { client } = world;
    await client.create(namespaces, { metadata: { name: 'svc3-system' } });
    await client.create(configMaps, {
      metadata: { name: 'svc3-settings', namespace: 'svc3-system' },
      data: { SVC3_RUNNER_IMAGE: 'r.example.com/runner:1' },
    });
    const { nodes: verdicts } = await explain(client, tenant.name, 'vm');
    expect(verdicts).toMatchObject([{ node: 'n1', fits: true }]);
    await client.delete(vms, { name: 'vm', namespace: tenant.name });
    await client.delete(pods, { name: 'squatter', namespace: tenant.name });
  });
});

describe("a VM's own pod takes the node that it names before it is bound", () => {
  test('also for an operator that has just started, until the VM is gone', async () => {
    const space = await world.namespace('own');
    await withOperator(async () => {
      world.kubelet.behave(() => ({ kind: 'pending' }));
      await space.deploy('first', { cpu: 3 });
      await expect.poll(() => space.pod('first'), slow).toBeDefined();
    });
    const unbound = await unbind(space, 'first');
    await withOperator(async () => {
      await space.deploy('second', { cpu: 3 });
      await space.until('second', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
      expect((await space.pod('first'))?.metadata.uid).toBe(unbound);
      await space.delete('first');
      world.kubelet.behave(() => ({ kind: 'run' }));
      await space.untilReady('second');
      await space.remove('second');
    });
  });
});

/** Puts an unbound twin in the place of a VM's pod, with a scheduler that does not exist. */
async function unbind(space: VmNamespace, vm: string): Promise<string | undefined> {
  const bound = (await space.pod(vm))!;
  const { nodeName: _node, ...spec } = bound.spec;
  const { name, namespace, labels, annotations, ownerReferences } = bound.metadata;
  const key = { name: name, namespace: namespace };
  await world.client.delete(pods, key, { gracePeriodSeconds: 0 });
  await expect.poll(() => space.pod(vm), slow).toBeUndefined();
  const twin = await world.client.create(pods, {
    metadata: { ...key, labels, annotations, ownerReferences },
    spec: { ...spec, schedulerName: 'nobody' },
  } as Pod);
  return twin.metadata.uid;
}
