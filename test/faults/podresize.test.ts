/** CPU and memory of a VM whose disk is in its pod change with the next start, in the same pod. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KubeObject, Resource } from '../../src/api/object.ts';
import { vms } from '../../src/api/resources.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { RunnerStandIn } from '../support/runnerstandin.ts';

const limitRanges: Resource<KubeObject & { spec?: object }> = {
  group: '',
  version: 'v1',
  plural: 'limitranges',
  kind: 'LimitRange',
  namespaced: true,
};

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
const runner = new RunnerStandIn(() => world.kubelet);
const timeout = 120_000;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('resizes');
  await world.kubelet.addNode({ name: 'n1' });
  runner.become({});
  operator = await startVmOperator(world.client, {}, runner.parts);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const patch = (spec: object) =>
  world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: { spec } });
const effective = async () => (await space.vm('vm')).status?.effective;
const resources = async () => (await space.pod('vm'))?.spec.containers[0]?.resources;
const restartRequired = () => space.condition('vm', 'RestartRequired');

/** The guest's memory and what QEMU and the runner need beside it; without hardware virtualisation. */
const small = { requests: { cpu: '1', memory: '715Mi' }, limits: { memory: '715Mi' } };
const large = { requests: { cpu: '3', memory: '1486Mi' }, limits: { memory: '1486Mi' } };

async function restarted(request: string): Promise<void> {
  await patch({ restartRequest: request });
  await expect.poll(async () => (await space.vm('vm')).status?.restartRequest, slow).toBe(request);
}

test(
  'the pod is of the size of what waits, and the guest has it after its next start',
  { timeout },
  async () => {
    await space.deploy('vm', { cpu: 1, memory: '256Mi' });
    await space.untilReady('vm');
    const pod = await space.pod('vm');
    expect(await resources()).toMatchObject(small);

    await patch({ cpu: 3, memory: '1Gi' });
    await expect.poll(resources, slow).toMatchObject(large);
    await expect.poll(restartRequired, slow).toMatchObject({
      reason: 'SpecChanged',
      message: 'spec.cpu, spec.memory apply when the guest is started next',
    });
    expect(await effective()).toMatchObject({ cpu: 1, memory: '256Mi' });

    runner.forget();
    await restarted('larger');
    expect(runner.settings?.values).toMatchObject({ cpu: 3, memoryMiB: 1024 });
    await expect.poll(effective, slow).toMatchObject({ cpu: 3, memory: '1Gi' });
    await expect.poll(restartRequired, slow).toEqual({});
    expect(runner.verbs).toEqual(['restart']);
    expect((await space.pod('vm'))?.metadata.uid).toBe(pod?.metadata.uid);
  },
);

test('a change and a restart at once are one restart, with the change', { timeout }, async () => {
  runner.forget();
  await patch({ cpu: 4, restartRequest: 'with-four' });
  await expect.poll(async () => (await space.vm('vm')).status?.restartRequest, slow).toBe('with-four');
  expect(runner.settings?.values).toMatchObject({ cpu: 4, memoryMiB: 1024 });
  expect(runner.verbs).toEqual(['restart']);
});

test('a guest that has become smaller gives back what it does not need', { timeout }, async () => {
  await patch({ cpu: 1, memory: '256Mi' });
  await expect.poll(restartRequired, slow).toMatchObject({ reason: 'SpecChanged' });
  expect(await resources()).toMatchObject({ requests: { cpu: '4' } });
  await restarted('smaller');
  expect(runner.settings?.values).toMatchObject({ cpu: 1, memoryMiB: 256 });
  await expect.poll(resources, slow).toMatchObject(small);
  expect(await effective()).toMatchObject({ cpu: 1, memory: '256Mi' });
});

test('what waits and is taken back leaves the pod as it was', { timeout }, async () => {
  await patch({ cpu: 3 });
  await expect.poll(resources, slow).toMatchObject({ requests: { cpu: '3' } });
  await patch({ cpu: 1 });
  await expect.poll(resources, slow).toMatchObject(small);
  await expect.poll(restartRequired, slow).toEqual({});
});

test('a node without room is said, and a restart has everything else', { timeout }, async () => {
  await patch({ memory: '64Gi', systemSerial: 'A1' });
  await expect.poll(restartRequired, slow).toMatchObject({
    reason: 'ResizeRefused',
    message:
      'spec.memory, spec.systemSerial apply when the guest is started next; spec.memory only once the pod can be resized: node n1 has no room: Insufficient memory',
  });
  expect(await resources()).toMatchObject(small);
  await restarted('no-room');
  expect(runner.settings?.values).toMatchObject({ cpu: 1, memoryMiB: 256, systemSerial: 'A1' });
  await expect.poll(effective, slow).toMatchObject({ memory: '256Mi', systemSerial: 'A1' });
  await expect.poll(restartRequired, slow).toMatchObject({ reason: 'ResizeRefused' });
  await patch({ memory: '256Mi' });
  await expect.poll(restartRequired, slow).toEqual({});
});

test('what the namespace does not allow is said', { timeout }, async () => {
  const key = { name: 'small', namespace: space.name };
  const limits = [{ type: 'Container', max: { memory: '1Gi' } }];
  await world.client.create(limitRanges, { metadata: key, spec: { limits } });
  const memory = '2Gi';
  const tried = () => space.tryPod({ requests: { memory }, limits: { memory } });
  await expect.poll(tried, slow).toMatch('maximum memory usage per Container is 1Gi');
  await patch({ memory });
  await expect.poll(restartRequired, slow).toMatchObject({
    reason: 'ResizeRefused',
    message: expect.stringContaining('maximum memory usage per Container is 1Gi'),
  });
  await world.client.delete(limitRanges, key);
  await patch({ memory: '256Mi' });
  await expect.poll(restartRequired, slow).toEqual({});
});

test('what the kubelet puts off waits, and a guest that has to go is not held up', { timeout }, async () => {
  runner.resize = { reason: 'Deferred', message: "Node didn't have enough resource: memory" };
  runner.become({});
  await patch({ memory: '512Mi' });
  await expect.poll(restartRequired, slow).toMatchObject({
    reason: 'ResizeRefused',
    message: expect.stringContaining("Node didn't have enough resource: memory"),
  });
  await restarted('deferred');
  expect(runner.settings?.values).toMatchObject({ memoryMiB: 256 });
  runner.resize = undefined;
  runner.become({});
  await expect.poll(restartRequired, slow).toMatchObject({ reason: 'SpecChanged' });
  await restarted('room');
  await expect.poll(effective, slow).toMatchObject({ memory: '512Mi' });
});

test('what the node can never give is asked for no longer', { timeout }, async () => {
  runner.resize = { reason: 'Infeasible', message: 'not on this node' };
  runner.become({});
  await patch({ memory: '768Mi' });
  await expect.poll(restartRequired, slow).toMatchObject({
    reason: 'ResizeRefused',
    message: expect.stringContaining('not on this node'),
  });
  await expect.poll(resources, slow).toMatchObject({ limits: { memory: '972Mi' } });
});
