import { afterAll, beforeAll, expect, test } from 'vitest';
import { images } from '../../src/api/resources.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { slow, type VmWorld, vmWorld } from '../integration/vm/harness.ts';

/** An Image that is being deleted is still Ready: a VM was placed from it, and its disk went away under the pull. */
let world: VmWorld;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startVmOperator(world.client);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const finalizers = ['example.com/test'];

const anImage = (namespace: string) =>
  world.client.create(images, {
    metadata: { name: 'debian', namespace, finalizers },
    spec: { source: { upload: {} } },
  });

async function becomesReady(namespace: string): Promise<void> {
  const key = { name: 'debian', namespace };
  const now = '2026-11-01T10:00:00Z';
  const status = {
    reference: `registry.example.com/${namespace}/debian@sha256:${'a'.repeat(64)}`,
    architecture: 'amd64',
    conditions: [{ type: 'Ready', status: 'True', reason: 'Stored', message: '', lastTransitionTime: now }],
  };
  await world.client.patch(images, key, { type: 'merge', body: { status } }, { subresource: 'status' });
}

test('no VM is placed from an Image that is being deleted, and from the next one of its name it is', async () => {
  const space = await world.namespace('deletedimage');
  const key = { name: 'debian', namespace: space.name };
  await anImage(space.name);
  // In this order: the operator may not have heard of the last change when it hears of the VM.
  await world.client.delete(images, key);
  await becomesReady(space.name);
  await space.deploy('vm', { image: 'debian' });
  await space.until('vm', 'Scheduled', {
    status: 'False',
    reason: 'ImageTerminating',
    message: 'Image debian is being deleted',
  });
  expect(await space.pod('vm')).toBeUndefined();

  await world.client.patch(images, key, { type: 'merge', body: { metadata: { finalizers: null } } });
  await space.until('vm', 'Scheduled', { reason: 'ImageNotFound' });
  await anImage(space.name);
  await becomesReady(space.name);
  await expect.poll(() => space.pod('vm'), slow).toBeDefined();
  await space.untilReady('vm');
});
