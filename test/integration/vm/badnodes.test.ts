/** What nodes claim, against the real control plane: at most one GPU VM per node, KVM where it is about to be there, and a sentence for each that waits. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nodes, pods } from '../../../src/api/resources.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

const gpu = 'svc3.dev/gpu-passthrough';
const onGpu = { gpuPassthrough: 'Enabled' } as const;
const inUse = '0/1 nodes are available: 1 GPU passthrough in use.';
const notReady = '0/1 nodes are available: 1 GPU passthrough device not ready.';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;

/** Of the node agents. */
const agents = 'svc3-node';

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('claims');
  await world.namespace(agents);
  operator = await startVmOperator(world.client, { gpuPassthroughEnabled: true });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const addNode = (bundles: string, labels: Record<string, string> = { [gpu]: 'enabled' }) =>
  world.kubelet.addNode({
    name: 'n1',
    labels,
    allocatable: { cpu: '8', memory: '32Gi', pods: '110', [gpu]: bundles },
  });

/** As the kubelet does when its device plugin says something else. */
const advertise = (devices: string, resource = gpu) =>
  world.client.patch(
    nodes,
    { name: 'n1' },
    {
      type: 'merge',
      body: { status: { capacity: { [resource]: devices }, allocatable: { [resource]: devices } } },
    },
    { subresource: 'status' },
  );

/** As the node agent does, by which a node is known to have hardware virtualisation. */
const reportOf = (found: object) => ({ 'svc3.dev/hardware': JSON.stringify({ version: 1, ...found }) });
const kvm = { kvm: { gid: 104 } };

const says = (name: string, message: string) =>
  space.until(name, 'Scheduled', { status: 'False', reason: 'Unschedulable', message });

describe('a node', { timeout: 180_000 }, () => {
  test('that claims 1,000 cards takes one GPU VM', async () => {
    await addNode('1000');
    await space.deploy('first', onGpu);
    await space.untilReady('first');
    await space.deploy('second', onGpu);
    await says('second', inUse);
    await space.remove('first');
    await space.untilReady('second');
    await space.remove('second');
    await world.kubelet.removeNode('n1');
  });

  test('whose capacity goes from 1 to 0 while a VM runs keeps that VM and takes no other', async () => {
    await addNode('1');
    await space.deploy('runs', onGpu);
    await space.untilReady('runs');
    const pod = await space.pod('runs');
    await advertise('0');
    await space.deploy('waits', onGpu);
    await says('waits', notReady);
    expect(await space.condition('runs', 'Ready')).toMatchObject({ status: 'True' });
    expect((await space.pod('runs'))?.metadata.uid).toBe(pod?.metadata.uid);
    await advertise('1');
    await says('waits', inUse);
    await space.remove('runs');
    await space.untilReady('waits');
    await space.remove('waits');
    await world.kubelet.removeNode('n1');
  });

  test('that was made anew under the same name is believed only what it says now', async () => {
    await addNode('1');
    await space.deploy('before', onGpu);
    await space.untilReady('before');
    await world.kubelet.removeNode('n1');
    // Until the operator has heard of it: a VM that comes before that is placed by what the node said.
    await space.deploy('after', onGpu);
    await says('after', 'no nodes available to schedule pods');
    await addNode('1', {});
    await space.remove('before');
    await says('after', '0/1 nodes are available: 1 not enabled for GPU passthrough.');
    await world.client.patch(
      nodes,
      { name: 'n1' },
      { type: 'merge', body: { metadata: { labels: { [gpu]: 'true' } } } },
    );
    await space.deploy('mislabelled', onGpu);
    await says('mislabelled', '0/1 nodes are available: 1 not enabled for GPU passthrough.');
    await world.client.patch(
      nodes,
      { name: 'n1' },
      { type: 'merge', body: { metadata: { labels: { [gpu]: 'enabled' } } } },
    );
    await expect
      .poll(async () => {
        const ready = await Promise.all(
          ['after', 'mislabelled'].map(async (name) => (await space.condition(name, 'Ready')).status),
        );
        return ready.filter((status) => status === 'True').length;
      }, slow)
      .toBe(1);
    const waiting = (await space.condition('after', 'Ready')).status === 'True' ? 'mislabelled' : 'after';
    await says(waiting, inUse);
    await space.remove('after');
    await space.remove('mislabelled');
    await world.kubelet.removeNode('n1');
  });
});

describe('hardware virtualisation', { timeout: 180_000 }, () => {
  test('of a node whose device plugin is not there yet, as after a reboot, is waited for', async () => {
    await world.kubelet.addNode({ name: 'n1', annotations: reportOf(kvm) });
    await space.deploy('rebooted');
    await says('rebooted', '0/1 nodes are available: 1 hardware virtualisation device not ready.');
    await advertise('110', 'svc3.dev/kvm');
    await space.untilReady('rebooted');
    expect((await space.vm('rebooted')).status).toMatchObject({ node: 'n1', accelerator: 'kvm' });
    await space.remove('rebooted');
    await world.kubelet.removeNode('n1');
  });

  test.each([
    ['kvm', kvm],
    ['tcg', {}],
  ])('of a new node is what its agent reports: %s', async (accelerator, found) => {
    const agent = { name: `agent-${accelerator}`, namespace: agents };
    await world.client.create(pods, {
      metadata: { ...agent, labels: { 'app.kubernetes.io/component': 'node-agent' } },
      spec: { nodeName: 'n1', containers: [{ name: 'node-agent', image: 'a' }] },
    });
    await world.kubelet.addNode({ name: 'n1' });
    await space.deploy('new');
    await says('new', '0/1 nodes are available: 1 hardware virtualisation not reported yet.');
    if (accelerator === 'kvm') await advertise('110', 'svc3.dev/kvm');
    const body = { metadata: { annotations: reportOf(found) } };
    await world.client.patch(nodes, { name: 'n1' }, { type: 'merge', body });
    await space.untilReady('new');
    expect((await space.vm('new')).status).toMatchObject({ node: 'n1', accelerator });
    await space.remove('new');
    await world.client.delete(pods, agent, { gracePeriodSeconds: 0 });
    await world.kubelet.removeNode('n1');
  });
});
