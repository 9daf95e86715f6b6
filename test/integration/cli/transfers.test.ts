import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { images, isos } from '../../../src/api/resources.ts';
import { createApiClient, type ApiClient } from '../../../src/cli/service/http/client.ts';
import { downloadResumably } from '../../../src/cli/service/http/download.ts';
import { uploadResumably } from '../../../src/cli/service/http/upload.ts';
import type { DiskItem } from '../../../src/cli/service/types.ts';
import { imageAnnotations } from '../../../src/api/image.ts';
import { withDiskDigest } from '../../../src/registry/disk.ts';
import { readAllParts, readParts } from '../../../src/registry/parts.ts';
import { startCuttingProxy, type CuttingProxy } from '../../support/cuttingproxy.ts';
import { sha, startTransferApi, type TransferApi } from '../http/transferharness.ts';
import { inProcess } from './inprocess.ts';

let transfer: TransferApi;
let folder: string;
let proxy: CuttingProxy;
let api: ApiClient;
const disk = randomBytes(3_000_000);
const { svc3 } = inProcess();

beforeAll(async () => {
  transfer = await startTransferApi('cli-transfers');
  folder = await mkdtemp(join(tmpdir(), 'svc3-cli-transfers-'));
  await writeFile(join(folder, 'ca.pem'), transfer.api.tls.cert);
});

beforeEach(async () => {
  proxy = await startCuttingProxy(transfer.api.port);
  api = createApiClient({
    baseUrl: `https://localhost:${proxy.port}`,
    caFile: join(folder, 'ca.pem'),
    token: () => Promise.resolve(transfer.cluster.adminToken),
    warning: () => undefined,
  });
});

afterEach(async () => {
  await api.close();
  await proxy.close();
});

afterAll(async () => {
  await transfer?.close();
  await rm(folder, { recursive: true, force: true });
});

const upload = (name: string, reopen?: (start: number) => Promise<Readable>, size?: number) =>
  uploadResumably(
    api,
    {
      path: transfer.ns('/upload/image'),
      get: async () =>
        (await api.json({ method: 'GET', path: transfer.ns(`/images/${name}`) })).value as DiskItem,
    },
    {
      name,
      filename: 'disk.qcow2',
      body: Readable.from([disk], { objectMode: false }),
      ...(size === undefined ? {} : { size }),
      ...(reopen === undefined ? {} : { reopen }),
      signal: new AbortController().signal,
    },
  );

/** What lies in the store of an upload. */
async function contentOf(name: string): Promise<Buffer> {
  const { store, cluster, namespace, repository } = transfer;
  const image = await cluster.client.get(images, name, namespace);
  const tag = image.metadata.annotations?.[imageAnnotations.upload] ?? '';
  const { parts } = await readParts(store, { repository: repository(name), tag });
  return buffer(readAllParts(store, repository(name), parts));
}

describe('an upload of the command line', () => {
  test('goes on where its connection broke, as often as it breaks', async () => {
    const starts: number[] = [];
    // The first connection is that of the beginning.
    proxy.cut({}, { up: 900_000 }, { up: 700_000 }, { up: 800_000 });
    const item = await upload(
      'broken',
      async (start) => {
        starts.push(start);
        return Readable.from([disk.subarray(start)], { objectMode: false });
      },
      disk.length,
    );
    expect(item).toMatchObject({ name: 'broken', state: 'Updating' });
    expect(proxy.cuts).toBe(3);
    expect(starts.at(-1)).toBeGreaterThan(0);
    expect(starts).toEqual([...starts].sort((a, b) => a - b));
    expect((await contentOf('broken')).equals(disk)).toBe(true);
  });

  test('of a small file goes on as well', async () => {
    const file = join(folder, 'small.qcow2');
    await writeFile(file, disk);
    proxy.cut({}, { up: 900_000 });
    const env = {
      SVC3_API_URL: `https://localhost:${proxy.port}`,
      SVC3_TOKEN: transfer.cluster.adminToken,
      SVC3_CA_FILE: join(folder, 'ca.pem'),
    };
    const words = ['image', 'upload', file, 'small', '-n', transfer.namespace];
    expect(await svc3(words, { env })).toMatchObject({ code: 0, stderr: '' });
    expect(proxy.cuts).toBe(1);
    expect((await contentOf('small')).equals(disk)).toBe(true);
  });

  test('from a pipe needs no length', async () => {
    expect(await upload('pipe')).toMatchObject({ name: 'pipe', state: 'Updating' });
    expect((await contentOf('pipe')).equals(disk)).toBe(true);
  });

  test('from a pipe that broke off fails and makes no Image', async () => {
    proxy.cut({}, { up: 900_000 });
    await expect(upload('brokenpipe')).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    await expect(transfer.cluster.client.get(images, 'brokenpipe', transfer.namespace)).rejects.toMatchObject(
      {
        reason: 'NotFound',
      },
    );
  });

  test('that is interrupted leaves nothing in the store, and makes no Image', async () => {
    const stopping = new AbortController();
    const body = new Readable({ read: () => undefined });
    const { store, repository, cluster, namespace } = transfer;
    const stored = async () =>
      (await store.tags(repository('interrupted'))).filter((tag) => tag.startsWith('upload-'));
    const { signal } = stopping;
    const request = { name: 'interrupted', filename: 'disk', body: addAbortSignal(signal, body), signal };
    const get = () => Promise.reject(new Error('it is not complete'));
    const sending = uploadResumably(api, { path: transfer.ns('/upload/image'), get }, request);
    await expect.poll(stored).toHaveLength(1);
    stopping.abort();
    await expect(sending).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    expect(await stored()).toEqual([]);
    await expect(cluster.client.get(images, 'interrupted', namespace)).rejects.toMatchObject({
      reason: 'NotFound',
    });
  });

  test('to a name that is taken is refused before anything is sent', async () => {
    await upload('taken');
    await expect(upload('taken')).rejects.toMatchObject({ reason: 'AlreadyExists' });
  });
});

describe('an upload that says for which guests it is', () => {
  test.each([
    ['image', 'disk.qcow2', images],
    ['image', '-', images],
    ['iso', 'disk.qcow2', isos],
  ] as const)('of an %s from %s tells the server', async (kind, file, resource) => {
    const { cluster, namespace } = transfer;
    await writeFile(join(folder, 'disk.qcow2'), disk);
    const name = `arm-${kind}-${file === '-' ? 'pipe' : 'file'}`;
    const from = file === '-' ? file : join(folder, file);
    const words = [kind, 'upload', from, name, '--architecture', 'arm64', '-n', namespace];
    const env = {
      SVC3_API_URL: transfer.api.baseUrl,
      SVC3_TOKEN: cluster.adminToken,
      SVC3_CA_FILE: join(folder, 'ca.pem'),
    };
    expect(await svc3(words, { env, stdin: 'disk' })).toMatchObject({ code: 0, stderr: '' });
    const { metadata } = await cluster.client.get(resource, name, namespace);
    expect(metadata.annotations?.[imageAnnotations.architecture]).toBe('arm64');
  });
});

describe('a download of the command line', () => {
  const load = (name: string) => downloadResumably(api, transfer.ns(`/images/${name}/download`));

  const store = async (name: string, digest: string) => {
    await transfer.call('POST', transfer.ns(`/upload/image?name=${name}`), { raw: disk });
    await transfer.inspected(name, withDiskDigest(`sha256:${digest}`));
  };

  beforeAll(() => store('stored', sha(disk)));

  test('goes on where its connection broke, as often as it breaks', async () => {
    proxy.cut({ down: 900_000 }, { down: 700_000 }, { down: 800_000 });
    const { body, size, digest } = await load('stored');
    expect({ size, digest }).toEqual({ size: disk.length, digest: sha(disk) });
    expect((await buffer(body)).equals(disk)).toBe(true);
    expect(proxy.cuts).toBe(3);
  });

  test('fails at its end when the bytes are not those of the disk', async () => {
    await store('damaged', sha(Buffer.from('another disk')));
    const { body } = await load('damaged');
    await expect(buffer(body)).rejects.toThrow(`the disk came damaged: its SHA-256 is ${sha(disk)}, not `);
  });

  test('ends when the disk has another version than it began with', async () => {
    const { cluster, namespace } = transfer;
    await transfer.call('POST', transfer.ns('/upload/image?name=changing'), { raw: disk });
    await transfer.inspected('changing');
    proxy.cut({ down: 900_000 });
    const { body } = await load('changing');
    const digest = `sha256:${'0'.repeat(64)}`;
    await cluster.client.patch(
      images,
      { name: 'changing', namespace },
      { type: 'merge', body: { status: { digest } } },
      { subresource: 'status' },
    );
    await expect
      .poll(() => transfer.api.services.caches.images.objects.get('changing', namespace)?.status?.digest)
      .toBe(digest);
    await expect(buffer(body)).rejects.toThrow('there is a new version of the disk');
  });
});
