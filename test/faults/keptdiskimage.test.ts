import { afterAll, beforeAll, expect, test } from 'vitest';
import { images, persistentVolumeClaims, vmConfigs, vms } from '../../src/api/resources.ts';
import type { KubeObject, Resource } from '../../src/api/object.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { VmConfig } from '../../src/api/vmconfig.ts';
import { findCondition } from '../../src/controller/conditions.ts';
import { ifFound } from '../../src/errors.ts';
import type { RegistryClient } from '../../src/registry/client.ts';
import { bindClaim } from '../support/claims.ts';
import { anImage, becomesReady, readyOf, soon } from '../integration/image/harness.ts';
import { type SavingWorld, savingWorld, startOperator } from './savingworld.ts';

/** The disk of a deleted VM is nothing without the image that it was made on, which was deleted, since no VM used it any more; or another was noted. */

let world: SavingWorld;
let store: RegistryClient;

beforeAll(async () => {
  world = await savingWorld();
  store = world.openStore();
});

afterAll(async () => {
  await store?.close();
  await world?.remove();
});

const name = 'svc3-vm-db';
const limitRanges: Resource<KubeObject> = {
  group: '',
  version: 'v1',
  plural: 'limitranges',
  kind: 'LimitRange',
  namespaced: true,
};

test('an Image stays as long as there is a claim with a disk that was made on it', async () => {
  const { client } = world;
  const namespace = await world.namespace();
  await startOperator(world);
  await client.create(images, anImage(namespace, 'base', { blank: { size: '64Mi' } }));
  const { reference, digest = '' } = await becomesReady(client, namespace, 'base');
  const spec = { image: 'base', cpu: 1, memory: '256Mi', disk: { storage: 'Persistent' } };
  await client.create(vms, { metadata: { name: 'db', namespace }, spec } as Vm);
  const claim = () => ifFound(client.get(persistentVolumeClaims, name, namespace));
  await expect
    .poll(async () => (await claim())?.metadata.annotations?.['svc3.dev/disk-image'], soon)
    .toBe(reference);
  await client.delete(vms, { name: 'db', namespace });
  await expect.poll(() => ifFound(client.get(vms, 'db', namespace)), soon).toBeUndefined();

  await client.delete(images, { name: 'base', namespace });
  const inUse = `InUse: in use by claim ${name}`;
  await expect.poll(() => readyOf(client, namespace, 'base'), soon).toBe(inUse);
  expect(await store.digestOf(`svc3/${namespace}/base`, digest)).toBe(digest);

  await client.delete(persistentVolumeClaims, { name, namespace });
  await expect.poll(() => readyOf(client, namespace, 'base'), soon).toBe('gone');
  expect(await store.digestOf(`svc3/${namespace}/base`, digest)).toBeUndefined();
});

test('the image that the disk is made on is kept, and not that of a pod before which was refused', async () => {
  const { client } = world;
  const namespace = await world.namespace();
  await startOperator(world);
  for (const image of ['golden', 'other'])
    await client.create(images, anImage(namespace, image, { blank: { size: '64Mi' } }));
  const [golden, other] = [
    await becomesReady(client, namespace, 'golden'),
    await becomesReady(client, namespace, 'other'),
  ];
  const limits = [{ type: 'Container', max: { memory: '64Mi' } }];
  await client.create(limitRanges, {
    metadata: { name: 'small', namespace },
    spec: { limits },
  } as KubeObject);
  const config = { image: 'golden', cpu: 1, memory: '256Mi', disk: { storage: 'Persistent' } };
  await client.create(vmConfigs, { metadata: { name: 'c', namespace }, spec: config } as VmConfig);
  await client.create(vms, { metadata: { name: 'db', namespace }, spec: { config: 'c' } } as Vm);
  const statusOf = async () => (await client.get(vms, 'db', namespace)).status;
  const noted = async () => {
    const claim = await client.get(persistentVolumeClaims, name, namespace);
    return claim.metadata.annotations?.['svc3.dev/disk-image'];
  };
  await expect
    .poll(async () => findCondition((await statusOf())?.conditions, 'Scheduled')?.reason, soon)
    .toBe('PodRefused');
  expect(await noted()).toBe(golden.reference);

  await client.delete(limitRanges, { name: 'small', namespace });
  const body = { spec: { image: 'other' } };
  await client.patch(vmConfigs, { name: 'c', namespace }, { type: 'merge', body });
  await expect.poll(noted, soon).toBe(other.reference);
  await bindClaim(client, namespace, name);
  await expect.poll(async () => (await statusOf())?.effective?.image, soon).toBe(other.reference);

  await client.delete(images, { name: 'golden', namespace });
  await expect.poll(() => readyOf(client, namespace, 'golden'), soon).toBe('gone');
  await client.delete(vms, { name: 'db', namespace });
  await client.delete(images, { name: 'other', namespace });
  await expect.poll(() => ifFound(client.get(vms, 'db', namespace)), soon).toBeUndefined();
  await expect.poll(() => readyOf(client, namespace, 'other'), soon).toBe(`InUse: in use by claim ${name}`);
});
