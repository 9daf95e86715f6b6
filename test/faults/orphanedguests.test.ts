/**
 * Where a VM was deleted with `--cascade=orphan`, the garbage collector took its pod's owner away: the VM was gone, its guest ran on for ever, and its claim was
 * said to be free.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { KubeObject, Resource } from '../../src/api/object.ts';
import { vmPools, vms } from '../../src/api/resources.ts';
import { poolWorld } from '../integration/vm/poolworld.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';

let world: VmWorld;
const { operate, stopAll, aPool, claim, idle, podsOf } = poolWorld(() => world);

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1', allocatable: { cpu: '64', memory: '128Gi' } });
});
afterEach(stopAll);
afterAll(() => world?.stop());

async function orphan(resource: Resource<KubeObject>, name: string, { name: namespace }: VmNamespace) {
  await world.client.delete(resource, { name, namespace }, { propagationPolicy: 'Orphan' });
}

/** The collector hears of new kinds every 30 seconds. */
const collected = { ...slow, timeout: 120_000 };
const owners = async (space: VmNamespace) =>
  (await podsOf(space)).flatMap(({ metadata }) => metadata.ownerReferences ?? []);

test('the guest of a VM ends with it, also where nobody looked while its pod lost its owner', async () => {
  const space = await world.namespace('orphaned');
  const operator = await operate(world.client);
  await space.deploy('web');
  await space.untilReady('web');
  await operator.stop();
  await orphan(vms, 'web', space);
  await expect.poll(() => owners(space), collected).toEqual([]);

  world.kubelet.loseNode('n1');
  await operate(world.client);
  await expect.poll(async () => (await space.pod('web'))?.metadata.deletionTimestamp, slow).toBeDefined();
  // Its name, and its claim, are no other's before that.
  expect((await space.vm('web')).metadata.finalizers).toEqual(['svc3.dev/cleanup']);
  await world.kubelet.returnNode('n1');
  await space.untilGone('web');
});

test('so does the guest of a pool that a VM has', async () => {
  const space = await world.namespace('orphaned-guest');
  const operator = await operate(world.client);
  await aPool(space, { minIdle: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  await claim(space, 'job');
  await space.untilReady('job');
  await operator.stop();
  const { podName } = (await space.vm('job')).status ?? {};
  expect(podName).toMatch(/^svc3-pool-ci-/);
  const itsOwners = async () =>
    (await podsOf(space)).find(({ metadata }) => metadata.name === podName)?.metadata.ownerReferences ?? [];
  await orphan(vms, 'job', space);
  await expect.poll(itsOwners, collected).toEqual([]);
  await operate(world.client);
  await space.untilGone('job');
  expect((await podsOf(space)).map(({ metadata }) => metadata.name)).not.toContain(podName);
});

test('and so do the guests of a pool that wait, which no VM could have any more', async () => {
  const space = await world.namespace('orphaned-pool');
  const operator = await operate(world.client);
  await aPool(space, { minIdle: 2 });
  await expect.poll(() => idle(space), slow).toBe(2);
  await operator.stop();
  await orphan(vmPools, 'ci', space);
  await expect.poll(() => owners(space), collected).toEqual([]);
  await operate(world.client);
  await expect.poll(() => podsOf(space), slow).toEqual([]);
});
