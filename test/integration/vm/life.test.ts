import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nodes, pods, vmConfigs, vms } from '../../../src/api/resources.ts';
import { finalizer } from '../../../src/api/meta.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { messageOf } from '../../../src/errors.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { type Write, withFaults } from '../../support/faultclient.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let writes: Write[];

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('life');
  await world.kubelet.addNode({ name: 'n1' });
  const counted = withFaults(world.client, () => 'none');
  writes = counted.writes;
  operator = await startVmOperator(counted.client);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

describe('the life of a VM', () => {
  test('from apply to Ready to deleted, in six writes with events, two more where its start is slow', async () => {
    const before = writes.length;
    await space.deploy('plain');
    await space.untilReady('plain');
    const { status } = await space.vm('plain');
    expect(status).toMatchObject({
      powerState: 'Running',
      node: 'n1',
      podName: 'svc3-vm-plain',
      ports: { ssh: 8822, screenshare: 5900 },
      effective: { architecture: 'amd64', cpu: 1, memory: '256Mi', gpuPassthrough: 'Disabled' },
      accelerator: 'tcg',
    });
    expect(status?.ip).toMatch(/^192\.0\./);
    expect(status?.conditions?.map(({ type, status: value }) => `${type}=${value}`).sort()).toEqual([
      'Booted=True',
      'Prepared=True',
      'Ready=True',
      'Scheduled=True',
    ]);
    await expect.poll(() => space.events('plain'), slow).toContain('Booted');
    await space.remove('plain');
    const made = writes
      .slice(before)
      .map(({ verb, plural, subresource = '' }) => [verb, plural, subresource].join(' ').trim());
    const tells = ['apply vms status', 'create events'];
    // The finalizer comes and goes.
    expect(made.filter((write) => !tells.includes(write)).sort()).toEqual([
      'create pods',
      'delete pods',
      'patch vms',
      'patch vms',
    ]);
    // A start that is quick is told in one write of status, another in two; each has its Event.
    const [statuses = 0, told] = tells.map((tell) => made.filter((write) => write === tell).length);
    expect(told).toBe(statuses);
    expect(statuses).toBeLessThanOrEqual(2);
  });

  test('a VM that fits nowhere says why and starts by itself when it fits', async () => {
    await space.deploy('waits', { tag: 'ci', tagRequired: true });
    await space.until('waits', 'Scheduled', {
      status: 'False',
      reason: 'Unschedulable',
      message: "0/1 nodes are available: 1 node(s) didn't have tag ci.",
    });
    await expect.poll(() => space.events('waits'), slow).toEqual(['Unschedulable']);
    const body = { metadata: { labels: { 'tag.svc3.dev/ci': 'true' } } };
    await world.client.patch(nodes, { name: 'n1' }, { type: 'merge', body });
    await space.untilReady('waits');
    await space.remove('waits');
  });

  test('a VM that comes with the finalizer gets no write for it', async () => {
    const before = writes.length;
    const spec = { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi' };
    const metadata = { name: 'finalized', namespace: space.name, finalizers: [finalizer] };
    await world.client.create(vms, { metadata, spec } as Vm);
    await space.untilReady('finalized');
    await space.remove('finalized');
    const patched = writes
      .slice(before)
      .flatMap(({ verb, plural, name }) => (verb === 'patch' && plural === 'vms' ? [name] : []));
    expect(patched).toEqual(['finalized']);
  });

  test('a VM is deleted when its guest has ended, and can then be made again under the same name', async () => {
    const first = await space.deploy('again');
    await space.untilReady('again');
    world.kubelet.loseNode('n1');
    await space.delete('again');
    await expect.poll(async () => (await space.pod('again'))?.metadata.deletionTimestamp, slow).toBeDefined();
    expect((await space.vm('again')).metadata.deletionTimestamp).toBeDefined();
    await world.kubelet.returnNode('n1');
    await space.untilGone('again');
    await space.deploy('again');
    await space.untilReady('again');
    const pod = await space.pod('again');
    expect(pod?.metadata.ownerReferences?.[0]?.uid).not.toBe(first.metadata.uid);
    await space.remove('again');
  });

  test('a pod that somebody deletes comes back', async () => {
    await space.deploy('resilient');
    await space.untilReady('resilient');
    const old = await space.pod('resilient');
    await world.client.delete(pods, { name: 'svc3-vm-resilient', namespace: space.name });
    await space.untilReplaced('resilient', old);
    await space.untilReady('resilient');
    await space.remove('resilient');
  });

  test('a VM whose start takes too long is deleted with its reason in an event', async () => {
    world.kubelet.behave(() => ({ kind: 'pending' }));
    await space.deploy('late', { startDeadlineSeconds: 1 });
    await expect.poll(() => space.vm('late').catch(messageOf), slow).toMatch(/not found/);
    await expect.poll(() => space.pod('late'), slow).toBeUndefined();
    await expect.poll(() => space.events('late'), slow).toContain('StartDeadlineExceeded');
    world.kubelet.behave(() => ({ kind: 'run' }));
  });

  test('a changed VMConfig never touches a VM that is deployed', async () => {
    const { client } = world;
    const config = {
      metadata: { name: 'web', namespace: space.name },
      spec: { image: 'r.example.com/a:1', cpu: 2 },
    };
    await client.create(vmConfigs, config);
    await space.deploy('frozen', { config: 'web', cpu: undefined });
    await space.untilReady('frozen');
    const patch = { type: 'merge' as const, body: { spec: { cpu: 4, image: 'r.example.com/a:2' } } };
    await client.patch(vmConfigs, { name: 'web', namespace: space.name }, patch);
    const old = await space.pod('frozen');
    await client.delete(pods, { name: 'svc3-vm-frozen', namespace: space.name });
    await space.untilReplaced('frozen', old);
    await space.untilReady('frozen');
    expect((await space.vm('frozen')).status?.effective).toMatchObject({
      cpu: 2,
      image: 'r.example.com/a:1',
    });
    await space.remove('frozen');
  });

  test('a converged system writes nothing, whatever events come', async () => {
    await space.deploy('calm');
    await space.untilReady('calm');
    await expect.poll(() => space.events('calm'), slow).toContain('Booted');
    const before = writes.length;
    const merge = (body: object) => ({ type: 'merge' as const, body });
    const { client } = world;
    const labelled = { metadata: { labels: { seen: '1' } } };
    // A label of the VM would be its pod's as well.
    const annotated = { metadata: { annotations: { seen: '1' } } };
    await client.patch(pods, { name: 'svc3-vm-calm', namespace: space.name }, merge(labelled));
    await client.patch(vms, { name: 'calm', namespace: space.name }, merge(annotated));
    await client.patch(nodes, { name: 'n1' }, merge(labelled));
    // A VM made after these events has been through the same queue behind them.
    await space.deploy('after');
    await space.untilReady('after');
    const others = writes.slice(before).filter(({ name }) => name === 'calm' || name === 'svc3-vm-calm');
    expect(others).toEqual([]);
    await space.remove('after');
    await space.remove('calm');
  });
});
