import { afterAll, beforeAll, expect, test } from 'vitest';
import { images, persistentVolumeClaims, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { ifFound } from '../../src/errors.ts';
import type { RegistryClient } from '../../src/registry/client.ts';
import { anImage, becomesReady, readyOf, soon } from '../integration/image/harness.ts';
import { type SavingWorld, savingWorld, startOperator } from './savingworld.ts';

/** The disk of a deleted VM is nothing without the image that it was made on, which was deleted, since no VM used it any more. */

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
