import { createHash, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { finalizer } from '../../../src/api/meta.ts';
import { images, isos, namespaces, pods, registryCredentials, vms } from '../../../src/api/resources.ts';
import { parseServer } from '../../../src/registry/identity.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { addCredential, newNamespace, pullSecretOf } from '../credential/harness.ts';
import {
  anImage,
  anIso,
  aQcow2,
  becomesReady,
  diskOf,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
} from './harness.ts';

let cluster: ImageCluster;
let operator: ImageOperator;
let store: RegistryClient;

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
  operator = startImageOperator(cluster.client, cluster.settings);
});

afterAll(async () => {
  await operator?.stop();
  await store?.close();
  await cluster?.remove();
});

async function push(repository: string, content: Buffer, fileName = 'disk.qcow2'): Promise<string> {
  await pushDisk(store, {
    repository,
    tag: '1',
    architecture: 'arm64',
    fileName,
    size: content.length,
    content: Readable.from([content]),
  });
  return `${cluster.registry.address}/${repository}:1`;
}

/** A medium that begins as ISO 9660 says. */
function aMedium(): Buffer {
  const medium = Buffer.alloc(80 * 1024);
  medium.write('CD001', 32_769);
  return medium;
}

describe('an Image', () => {
  test('that is blank lies in the store as an empty disk of the requested size', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'blank', { blank: { size: '120G' } }));
    const status = await becomesReady(client, namespace, 'blank');
    expect(status).toMatchObject({ size: '120G', format: 'qcow2', architecture: 'amd64' });
    expect(status.reference).toBe(`${cluster.registry.address}/svc3/${namespace}/blank@${status.digest}`);
    expect(await diskOf(store, status.reference ?? '')).toHaveLength(4 * 65_536);
  });

  test('that is pulled has the bytes of the remote disk, and no pod is left', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const disk = await aQcow2({ fill: randomBytes(3 * 2 ** 20) });
    const reference = await push(`remote/${namespace}`, disk);
    await client.create(images, anImage(namespace, 'pulled', { remote: { reference } }));
    const status = await becomesReady(client, namespace, 'pulled');
    expect(status).toMatchObject({ format: 'qcow2', architecture: 'arm64', size: '3Mi' });
    const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
    expect(sha(await diskOf(store, status.reference ?? ''))).toBe(sha(disk));
    await expect.poll(async () => (await client.list(pods, { namespace })).items, soon).toEqual([]);
  });

  test('that is copied shares its blobs with the source and lives on without it', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'copy', { image: { name: 'source' } }));
    await expect.poll(() => readyOf(client, namespace, 'copy'), soon).toContain('Stalled SourceNotFound');
    await client.create(images, anImage(namespace, 'source', { blank: { size: '1Gi' } }));
    const source = await becomesReady(client, namespace, 'source');
    const copy = await becomesReady(client, namespace, 'copy');
    expect(copy.digest).toBe(source.digest);
    await client.delete(images, { name: 'source', namespace });
    await expect.poll(() => readyOf(client, namespace, 'source'), soon).toBe('gone');
    expect(await diskOf(store, copy.reference ?? '')).toHaveLength(4 * 65_536);
  });

  test.each([
    ['Image', images, 'disk.qcow2'],
    ['ISO', isos, 'install.iso'],
  ] as const)(
    'that is deleted right after it was copied goes when the copy is there, whether it is an %s',
    async (kind, resource, file) => {
      const { client } = cluster;
      const namespace = await cluster.namespace();
      const content = kind === 'Image' ? await aQcow2() : aMedium();
      const remote = { reference: await push(`copied-${kind.toLowerCase()}/${namespace}`, content, file) };
      await client.create(resource, anIso(namespace, 'source', { remote }));
      const source = await becomesReady(client, namespace, 'source', kind);
      // It hears of both at once, as where it is busy.
      await operator.stop();
      await client.create(resource, anIso(namespace, 'mine', { image: { name: 'source' } }));
      await client.delete(resource, { name: 'source', namespace });
      operator = startImageOperator(client, cluster.settings);
      const copy = await becomesReady(client, namespace, 'mine', kind);
      expect(copy.digest).toBe(source.digest);
      await expect.poll(() => readyOf(client, namespace, 'source', kind), soon).toBe('gone');
      expect((await diskOf(store, copy.reference ?? '')).equals(content)).toBe(true);
    },
  );

  test('that is being deleted waits for a copy that cannot be made, and not for one that comes too late', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'source', { blank: { size: '1Gi' } }));
    await becomesReady(client, namespace, 'source');
    await operator.stop();
    await client.create(images, anImage(namespace, 'mine', { image: { name: 'source' } }));
    await client.delete(images, { name: 'source', namespace });
    // Whole seconds are compared.
    const { metadata } = await client.get(images, 'source', namespace);
    const end = Date.parse(metadata.deletionTimestamp ?? '') + 1000;
    await expect.poll(() => Date.now(), soon).toBeGreaterThan(end);
    await client.create(images, anImage(namespace, 'late', { image: { name: 'source' } }));
    // An operator that may not ask the store makes no copy.
    const nowhere = { ...cluster.settings.store, url: 'http://127.0.0.1:9' };
    operator = startImageOperator(client, { ...cluster.settings, store: nowhere });
    await expect.poll(() => readyOf(client, namespace, 'source'), soon).toBe('InUse: in use by Image mine');
    await expect
      .poll(() => readyOf(client, namespace, 'late'), soon)
      .toContain('Stalled SourceNotFound: Image source is being deleted');
    await operator.stop();
    operator = startImageOperator(client, cluster.settings);
    await becomesReady(client, namespace, 'mine');
    await expect.poll(() => readyOf(client, namespace, 'source'), soon).toBe('gone');
    await expect
      .poll(() => readyOf(client, namespace, 'late'), soon)
      .toBe('Stalled SourceNotFound: Image source does not exist');
  });

  test('keeps its disk when only its description changes', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'told', { blank: { size: '1Gi' } }));
    const before = await becomesReady(client, namespace, 'told');
    const body = { spec: { description: 'for tests' } };
    const { metadata } = await client.patch(images, { name: 'told', namespace }, { type: 'merge', body });
    await expect
      .poll(async () => (await client.get(images, 'told', namespace)).status?.observedGeneration, soon)
      .toBe(metadata.generation);
    expect((await becomesReady(client, namespace, 'told')).digest).toBe(before.digest);
  });

  test('whose source is not there says so and is made when it comes', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const reference = `${cluster.registry.address}/nobody/${namespace}:1`;
    await client.create(images, anImage(namespace, 'missing', { remote: { reference } }));
    await expect.poll(() => readyOf(client, namespace, 'missing'), soon).toContain('SourceNotFound');
    await push(`nobody/${namespace}`, await aQcow2());
    await becomesReady(client, namespace, 'missing');
  });

  test('that is not acceptable is refused with a sentence and not tried again', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const disk = await aQcow2();
    disk.writeBigUInt64BE(200n, 8);
    disk.writeUInt32BE(11, 16);
    const reference = await push(`backed/${namespace}`, disk);
    await client.create(images, anImage(namespace, 'backed', { remote: { reference } }));
    await expect
      .poll(() => readyOf(client, namespace, 'backed'), soon)
      .toBe('Stalled DiskRefused: the qcow2 file has a backing file; flatten it with qemu-img convert');
    await expect.poll(async () => (await client.list(pods, { namespace })).items, soon).toEqual([]);
    expect(await store.tags(`svc3/${namespace}/backed`)).toEqual([]);
  });

  test('whose worker pod is refused quotes the server, and is made when it is allowed', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const reference = await push(`quota/${namespace}`, await aQcow2());
    const quotas = `/api/v1/namespaces/${namespace}/resourcequotas`;
    const quota = { metadata: { name: 'none' }, spec: { hard: { pods: '0' } } };
    await client.request({ method: 'POST', path: quotas, body: quota });
    await expect
      .poll(
        async () =>
          (await client.request<{ status?: object }>({ method: 'GET', path: `${quotas}/none` })).body.status,
        soon,
      )
      .toMatchObject({ hard: { pods: '0' } });
    await client.create(images, anImage(namespace, 'refused', { remote: { reference } }));
    await expect.poll(() => readyOf(client, namespace, 'refused'), soon).toMatch(/^WorkerRefused: .*quota/);
    await client.request({ method: 'DELETE', path: `${quotas}/none` });
    await becomesReady(client, namespace, 'refused');
  });

  test('needs a credential where the store asks for one, and is made when it comes', async () => {
    const { client, registry } = cluster;
    const namespace = await newNamespace(client, 'image');
    await client.create(images, anImage(namespace, 'denied', { blank: { size: '1Gi' } }));
    await expect.poll(() => readyOf(client, namespace, 'denied'), soon).toContain('RegistryDenied');
    await addCredential(client, namespace, `http://${registry.address}`, registry.password);
    await becomesReady(client, namespace, 'denied');
  });

  test('goes with its namespace, also when nobody may delete from the store any more', async () => {
    const { client, registry } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'disk', { blank: { size: '1Gi' } }));
    await becomesReady(client, namespace, 'disk');
    const { name } = parseServer(`http://${registry.address}`);
    await client.delete(registryCredentials, { name, namespace });
    await expect.poll(() => pullSecretOf(client, namespace), soon).toBeUndefined();
    await client.delete(namespaces, { name: namespace });
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toBe('gone');
  });

  test('is not deleted while a VM uses it, and takes its disk from the store when it goes', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'used', { blank: { size: '1Gi' } }));
    const status = await becomesReady(client, namespace, 'used');
    // One that starts has heard of the VM before it looks at the Image.
    await operator.stop();
    await client.create(vms, { metadata: { name: 'user', namespace }, spec: { image: 'used' } } as Vm);
    operator = startImageOperator(client, cluster.settings);
    const held = await client.get(images, 'used', namespace);
    expect(held.metadata.finalizers).toContain(finalizer);
    await client.delete(images, { name: 'used', namespace });
    await expect.poll(() => readyOf(client, namespace, 'used'), soon).toBe('InUse: in use by VM user');
    await client.delete(vms, { name: 'user', namespace });
    await expect.poll(() => readyOf(client, namespace, 'used'), soon).toBe('gone');
    expect(await store.digestOf(`svc3/${namespace}/used`, status.digest ?? '')).toBeUndefined();
    await client.create(images, anImage(namespace, 'used', { blank: { size: '2Gi' } }));
    expect((await becomesReady(client, namespace, 'used')).size).toBe('2Gi');
  });

  test('is not kept by a VM that waits until it is gone', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'awaited', { blank: { size: '1Gi' } }));
    await becomesReady(client, namespace, 'awaited');
    const key = { name: 'waits', namespace };
    await client.create(vms, { metadata: key, spec: { image: 'awaited' } } as Vm);
    await client.delete(images, { name: 'awaited', namespace });
    await expect.poll(() => readyOf(client, namespace, 'awaited'), soon).toBe('InUse: in use by VM waits');
    const scheduled = { type: 'Scheduled', status: 'False', reason: 'ImageTerminating', message: '' };
    const conditions = [{ ...scheduled, lastTransitionTime: '2026-11-01T10:00:00Z' }];
    await client.patch(
      vms,
      key,
      { type: 'merge', body: { status: { conditions } } },
      { subresource: 'status' },
    );
    await expect.poll(() => readyOf(client, namespace, 'awaited'), soon).toBe('gone');
  });
});

describe('an ISO', () => {
  test('is pulled, told apart from an Image of its name, and deleted', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const reference = await push(`medium/${namespace}`, aMedium(), 'install.iso');
    await client.create(isos, anIso(namespace, 'both', { remote: { reference } }));
    await client.create(images, anImage(namespace, 'both', { blank: { size: '1Gi' } }));
    const iso = await becomesReady(client, namespace, 'both', 'ISO');
    const image = await becomesReady(client, namespace, 'both');
    expect(iso).toMatchObject({ format: 'iso', size: '80Ki' });
    expect(iso.digest).not.toBe(image.digest);
    await client.delete(isos, { name: 'both', namespace });
    await expect.poll(() => readyOf(client, namespace, 'both', 'ISO'), soon).toBe('gone');
    expect(await diskOf(store, image.reference ?? '')).toHaveLength(4 * 65_536);
  });
});
