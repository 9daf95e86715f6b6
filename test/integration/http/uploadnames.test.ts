import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { finalizer } from '../../../src/api/meta.ts';
import { images } from '../../../src/api/resources.ts';
import { imageAnnotations } from '../../../src/api/image.ts';
import { startTransferApi, type TransferApi } from './transferharness.ts';

let transfer: TransferApi;
const disk = randomBytes(300_000);

beforeAll(async () => {
  transfer = await startTransferApi('uploadnames');
});

afterAll(() => transfer?.close());

const upload = (
  name: string,
  more: { raw?: Buffer; headers?: Record<string, string>; signal?: AbortSignal } = {},
) => transfer.call('POST', transfer.ns(`/upload/image?name=${name}`), { raw: disk, ...more });

const create = (name: string, finalizers: string[] = []) =>
  transfer.cluster.client.create(images, {
    metadata: { name, namespace: transfer.namespace, finalizers },
    spec: { source: { upload: {} } },
  });

/** A body for an upload to the name, whose last bytes come only when that has begun and `go` has been done. */
function held(name: string, go: () => Promise<unknown>) {
  const begun = transfer.uploadBegins(name);
  return (async function* () {
    yield disk.subarray(0, 100_000);
    await begun;
    await go();
    yield disk.subarray(100_000);
  })() as never;
}

const withLength = { 'content-length': String(disk.length) };

describe('an upload to a name', () => {
  test('whose Image can never be made is refused before its first byte', async () => {
    const headers = { 'upload-complete': '?0' };
    const missing = '/api/v1/namespaces/never-there/upload/image?name=a';
    expect((await transfer.call('POST', missing, { headers })).status).toBe(404);
    expect(await transfer.store.tags('store/never-there/a')).toEqual([]);
    const { status, json } = await transfer.call('POST', transfer.ns('/upload/image?name=a--b'), { headers });
    expect([status, json.details.causes[0].field]).toEqual([422, 'name']);
  });

  test('whose Image is being deleted is refused with a sentence', async () => {
    const { client } = transfer.cluster;
    const key = { name: 'going', namespace: transfer.namespace };
    await create('going', [finalizer]);
    await client.delete(images, key);
    const { status, json } = await upload('going');
    expect([status, json.message]).toEqual([
      409,
      expect.stringContaining('is being deleted; its name can be used'),
    ]);
    await client.patch(images, key, { type: 'merge', body: { metadata: { finalizers: null } } });
    expect((await upload('going')).status).toBe(202);
  });

  test('whose Image is deleted in the middle of it fails, makes no Image and leaves nothing in the store', async () => {
    const { cluster, namespace, store, repository } = transfer;
    await create('meanwhile');
    const raw = held('meanwhile', () => cluster.client.delete(images, { name: 'meanwhile', namespace }));
    const { status, json } = await upload('meanwhile', { raw, headers: withLength });
    expect([status, json.message]).toEqual([404, expect.stringContaining('was deleted while')]);
    await expect(cluster.client.get(images, 'meanwhile', namespace)).rejects.toMatchObject({
      reason: 'NotFound',
    });
    expect(await store.tags(repository('meanwhile'))).toEqual([]);
  });

  test('whose Image is deleted and made again in the middle of it fails as well', async () => {
    const { cluster, namespace } = transfer;
    await create('again');
    const raw = held('again', async () => {
      await cluster.client.delete(images, { name: 'again', namespace });
      await create('again');
    });
    expect((await upload('again', { raw, headers: withLength })).status).toBe(404);
    const { metadata } = await cluster.client.get(images, 'again', namespace);
    expect(metadata.annotations?.[imageAnnotations.upload]).toBeUndefined();
  });

  test('that somebody else took in the middle of it leaves the other one, though the bytes are the same', async () => {
    const { cluster, namespace, store, repository } = transfer;
    const raw = held('raced', () => upload('raced'));
    expect((await upload('raced', { raw, headers: withLength })).status).toBe(409);
    const { metadata } = await cluster.client.get(images, 'raced', namespace);
    const digest = metadata.annotations?.[imageAnnotations.upload] ?? '';
    expect(await store.digestOf(repository('raced'), digest)).toBe(digest);
    expect(await store.tags(repository('raced'))).toHaveLength(1);
  });

  test('whose disk was refused is taken, and one whose disk is looked at is not', async () => {
    const { cluster, namespace } = transfer;
    expect((await upload('refused')).status).toBe(202);
    expect((await upload('refused')).status).toBe(409);
    const before = await cluster.client.get(images, 'refused', namespace);
    const refusal = {
      type: 'Stalled',
      status: 'True',
      reason: 'DiskRefused',
      message: 'the file is a VMDK disk',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    };
    const request = before.metadata.annotations?.[imageAnnotations.upload]?.slice(-64);
    await cluster.client.patch(
      images,
      { name: 'refused', namespace },
      { type: 'merge', body: { status: { request, conditions: [refusal] } } },
      { subresource: 'status' },
    );
    const { status, json } = await upload('refused');
    // What is said of the disk before is not said of this one.
    expect([status, json.state, json.errorMessage]).toEqual([202, 'Updating', undefined]);
    expect((await upload('refused')).status).toBe(409);
  });
});
