import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, pods } from '../../../src/api/resources.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('imagepolicy');
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startVmOperator(world.client);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const versionOf = (letter: string) =>
  `registry.example.com/svc3/imagepolicy/base@sha256:${letter.repeat(64)}`;

/** What the operator of images says of a version that is in the store. */
async function store(letter: string): Promise<void> {
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'Stored',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  const status = {
    observedGeneration: 1,
    digest: `sha256:${letter.repeat(64)}`,
    reference: versionOf(letter),
    architecture: 'amd64',
    conditions: [ready],
  };
  await world.client.patch(
    images,
    { name: 'base', namespace: space.name },
    { type: 'merge', body: { status } },
    { subresource: 'status' },
  );
}

const diskOf = async (vm: string) =>
  (await space.pod(vm))?.spec.volumes?.find(({ name }) => name === 'image')?.image;

describe('the version of an image that a VM runs from', () => {
  test('is the one of its first placement, whatever comes later, and is pulled where it is missing only', async () => {
    const { client } = world;
    await client.create(images, {
      metadata: { name: 'base', namespace: space.name },
      spec: { source: { blank: { size: '1Gi' } } },
    });
    await store('a');
    await space.deploy('first', { image: 'base' });
    await space.untilReady('first');
    const pinned = { reference: versionOf('a'), pullPolicy: 'IfNotPresent' };
    expect(await diskOf('first')).toEqual(pinned);
    await store('b');
    // One that starts knows of it.
    await operator.stop();
    operator = await startVmOperator(client);
    const old = await space.pod('first');
    await client.delete(pods, { name: 'svc3-vm-first', namespace: space.name });
    await space.untilReplaced('first', old);
    await space.untilReady('first');
    expect(await diskOf('first')).toEqual(pinned);
    expect((await space.vm('first')).status?.effective?.image).toBe(versionOf('a'));
    await space.deploy('second', { image: 'base' });
    await space.untilReady('second');
    expect((await diskOf('second'))?.reference).toBe(versionOf('b'));
  });
});
