/** Pods of VMs that were deployed from a pool, after their first one. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { effectiveAnnotation, podNameOf } from '../../src/controllers/vm/names.ts';
import { pods } from '../../src/api/resources.ts';
import { poolWorld } from '../integration/vm/poolworld.ts';
import { slow, type VmWorld, vmWorld } from '../integration/vm/harness.ts';

let world: VmWorld;
const { operate, stopAll, aPool, claim, idle, podsOf } = poolWorld(() => world);
const claims: string[] = [];

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1', allocatable: { cpu: '64', memory: '128Gi' } });
});
afterEach(stopAll);
afterAll(() => world?.stop());

const start = () =>
  operate(world.client, {
    claims: { claimed: (_pool: string, outcome: string) => void claims.push(outcome), told: () => undefined },
  });

/**
 * The order to make a pod may reach kube-apiserver after whoever gave it has given up, and has claimed a guest instead: both pods were the
 * VM's for as long as it lived, and Services led to both.
 */
test('a VM that has claimed a guest keeps no second pod that was made for it all the same', async () => {
  const space = await world.namespace('late-order');
  await start();
  await aPool(space, { minIdle: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  await claim(space, 'job');
  await space.untilReady('job');
  const claimed = (await podsOf(space)).find(({ metadata }) => metadata.labels?.['svc3.dev/vm'] === 'job');
  expect(claimed?.metadata.name).toMatch(/^svc3-pool-ci-/);
  const { metadata, spec } = claimed as NonNullable<typeof claimed>;
  const { nodeName: _bound, ...asked } = spec;
  const { ownerReferences, labels, annotations } = metadata;
  const late = podNameOf('job');
  await world.client.create(pods, {
    metadata: { name: late, namespace: space.name, ownerReferences, labels, annotations },
    spec: { ...asked, hostname: late },
  } as never);
  await expect
    .poll(async () => (await podsOf(space)).map((pod) => pod.metadata.name), slow)
    .not.toContain(late);
  const { status } = await space.vm('job');
  expect(status?.podName).toBe(metadata.name);
  expect((await world.client.get(pods, metadata.name, space.name)).metadata).toMatchObject({
    uid: metadata.uid,
  });
  expect(annotations?.[effectiveAnnotation]).toBeDefined();
});

test('a VM that has lost the guest it claimed is no claim of the pool again', async () => {
  const space = await world.namespace('drained');
  await start();
  await aPool(space, { minIdle: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  claims.length = 0;
  await claim(space, 'job');
  await space.untilReady('job');
  const { podName = '' } = (await space.vm('job')).status ?? {};
  expect(podName).toMatch(/^svc3-pool-ci-/);
  await world.client.delete(pods, { name: podName, namespace: space.name });
  await expect.poll(async () => (await space.vm('job')).status?.podName, slow).toBe(podNameOf('job'));
  await space.untilReady('job');
  expect(claims).toEqual(['warm']);
});
