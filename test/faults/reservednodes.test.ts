import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nodes, pods, vmPools } from '../../src/api/resources.ts';
import type { VmPool } from '../../src/api/vmpool.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { slow, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { template } from '../integration/vm/poolworld.ts';

/** With `placement.whenFull: Pod` kube-scheduler put VMs on nodes that were reserved for another namespace, and pools kept guests there. */
let world: VmWorld;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'full', allocatable: { cpu: '1' } });
  operator = await startVmOperator(world.client, { whenFull: 'Pod' });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

describe('a pod that is left to kube-scheduler', () => {
  test("waits where only nodes of others have room, and takes its own namespace's", async () => {
    const space = await world.namespace('mine');
    await space.deploy('vm', { cpu: 2 });
    await expect.poll(() => space.pod('vm'), slow).toBeDefined();
    const uid = (await space.pod('vm'))?.metadata.uid;
    // As a cluster autoscaler adds it.
    await world.kubelet.addNode({ name: 'theirs', labels: { 'svc3.dev/namespace': 'others' } });
    await expect
      .poll(async () => (await space.condition('vm', 'Scheduled')).message, slow)
      .toMatch(/^0\/2 nodes are available: .*1 node\(s\) didn't match Pod's node affinity/);
    await world.kubelet.addNode({ name: 'ours', labels: { 'svc3.dev/namespace': 'mine' } });
    await space.untilReady('vm');
    expect((await space.vm('vm')).status?.node).toBe('ours');
    expect((await space.pod('vm'))?.metadata.uid).toBe(uid);
    await space.remove('vm');
    for (const name of ['ours', 'theirs']) await world.kubelet.removeNode(name);
  });

  test.each<[what: string, labels: Record<string, string>]>([
    ['no label', {}],
    ['an empty one, which reserves nothing', { 'svc3.dev/namespace': '' }],
  ])('takes a node with %s', async (what, labels) => {
    const space = await world.namespace(`free-${what.length}`);
    await space.deploy('vm', { cpu: 2 });
    await expect.poll(() => space.pod('vm'), slow).toBeDefined();
    await world.kubelet.addNode({ name: 'free', labels });
    await space.untilReady('vm');
    expect((await space.vm('vm')).status?.node).toBe('free');
    await space.remove('vm');
    await world.kubelet.removeNode('free');
  });
});

test('guests of a pool leave a node that is reserved for another namespace, and wait elsewhere', async () => {
  const { name: namespace } = await world.namespace('pooled');
  const pool = { name: 'ci', namespace };
  await world.kubelet.addNode({ name: 'shared' });
  await world.client.create(vmPools, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VMPool',
    metadata: pool,
    spec: { template: { ...template, cpu: 2 }, minIdle: 1 } as VmPool['spec'],
  });
  const whereGuestsAre = async () =>
    (await world.client.list(pods, { namespace })).items.map(({ spec }) => spec.nodeName);
  await expect.poll(whereGuestsAre, slow).toEqual(['shared']);
  await world.kubelet.addNode({ name: 'free' });
  const labels = { 'svc3.dev/namespace': 'others' };
  await world.client.patch(nodes, { name: 'shared' }, { type: 'merge', body: { metadata: { labels } } });
  await expect.poll(whereGuestsAre, slow).toEqual(['free']);
  await world.client.delete(vmPools, pool);
  for (const name of ['shared', 'free']) await world.kubelet.removeNode(name);
});
