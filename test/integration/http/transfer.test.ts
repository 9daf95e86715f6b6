import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { images } from '../../../src/api/resources.ts';
import { createImageTransfer } from '../../../src/http/imagetransfer.ts';
import { createNamespaceRegistries } from '../../../src/image/registries.ts';
import { createRemoteCatalog } from '../../../src/http/remotes.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';

let cluster: TestCluster;
let registry: TestRegistry;
let api: TestApi;
let namespace: string;
const disk = randomBytes(300_000);

beforeAll(async () => {
  cluster = await testCluster();
  registry = await startRegistry();
  namespace = await uniqueNamespace(cluster.client, 'transfer');
  const store = { url: `http://${registry.address}`, prefix: 'store' };
  const registries = createNamespaceRegistries(cluster.client, store);
  api = await startTestApi(cluster.client, {
    transfer: createImageTransfer(cluster.client, registries, store),
    remotes: createRemoteCatalog([registry.address], (host, where) => registries.open(where, host)),
  });
});

afterAll(async () => {
  await api?.close();
  await registry?.stop();
});

const ns = (path: string) => `/api/v1/namespaces/${namespace}${path}`;
const call: TestApi['call'] = (method, path, options = {}) =>
  api.call(method, path, { token: cluster.adminToken, ...options });

/** What the operator does when a worker has looked at an upload. */
async function inspected(name: string): Promise<void> {
  const image = await cluster.client.get(images, name, namespace);
  const digest = image.metadata.annotations?.['svc3.dev/upload'];
  const status = {
    observedGeneration: image.metadata.generation,
    reference: `${registry.address}/store/${namespace}/${name}@${digest}`,
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'Ready',
        message: '',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      },
    ],
  };
  await cluster.client.patch(
    images,
    { name, namespace },
    { type: 'merge', body: { status } },
    { subresource: 'status' },
  );
  await expect
    .poll(() => api.services.caches.images.objects.get(name, namespace)?.status?.reference)
    .toBe(status.reference);
}

function form(
  fields: Record<string, string>,
  fileName: string,
  content: Buffer,
  trailer = '',
): { raw: Buffer; headers: Record<string, string> } {
  const boundary = 'form-boundary';
  const parts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head = `${parts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="image"; filename="${fileName}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
  return {
    raw: Buffer.concat([Buffer.from(head), content, Buffer.from(`\r\n--${boundary}${trailer}--\r\n`)]),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  };
}

const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

test.each([
  [
    'raw',
    'raw-disk',
    { raw: disk, headers: { 'content-type': 'application/octet-stream' } },
    '?name=raw-disk&description=mine',
  ],
  [
    'multipart with fields',
    'form-disk',
    form({ name: 'form-disk', description: 'mine' }, 'x.qcow2', disk),
    '',
  ],
  ['multipart named by its file', 'debian-12', form({}, 'Debian 12.img', disk), ''],
])('a disk uploaded as %s comes down again, byte for byte', async (_, name, body, query) => {
  const uploaded = await call('POST', ns(`/upload/image${query}`), body);
  expect([uploaded.status, uploaded.json.name, uploaded.json.state]).toEqual([202, name, 'Updating']);
  await inspected(name);
  const response = await fetchBytes(ns(`/images/${name}/download`));
  expect([response.status, response.length, sha(response.bytes)]).toEqual([
    200,
    String(disk.length),
    sha(disk),
  ]);
  expect((await call('POST', ns(`/upload/image${query}`), body)).status).toBe(409);
});

async function fetchBytes(path: string) {
  const session = api.http2();
  const stream = session.request({ ':path': path, authorization: `Bearer ${cluster.adminToken}` });
  const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>();
  stream.once('response', resolve);
  const headers = await promise;
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  session.close();
  return { status: headers[':status'], length: headers['content-length'], bytes: Buffer.concat(chunks) };
}

test('an Image that waits for its upload takes it', async () => {
  await cluster.client.create(images, {
    metadata: { name: 'waiting', namespace },
    spec: { source: { upload: {} } },
  });
  expect((await call('POST', ns('/upload/image?name=waiting'), { raw: disk })).status).toBe(202);
  await inspected('waiting');
});

test('a form that does not end with the file is refused and leaves nothing', async () => {
  const { status, json } = await call(
    'POST',
    ns('/upload/image'),
    form({ name: 'broken' }, 'x.img', disk, 'x'),
  );
  expect([status, json.details.causes[0].field]).toEqual([400, 'body']);
  expect((await call('GET', ns('/images/broken'))).status).toBe(404);
});

test('an upload that breaks off leaves nothing', async () => {
  const gone = new AbortController();
  const sending = call('POST', ns('/upload/image?name=half'), {
    raw: (async function* () {
      yield disk;
      gone.abort();
      await new Promise((resolve) => setTimeout(resolve, 50));
      yield disk;
    })() as never,
    headers: { 'content-length': String(disk.length * 2) },
    signal: gone.signal,
  });
  await expect(sending).rejects.toThrow(/abort/i);
  await expect
    .poll(async () =>
      api.log.lines.some((line) => line.includes('uploadImage') && !line.includes('"status":202')),
    )
    .toBe(true);
  expect((await call('GET', ns('/images/half'))).status).toBe(404);
});

test('what lies in a registry of the installation is listed as remote images', async () => {
  const { json } = await call('GET', ns('/remoteimages'));
  expect(
    json.items
      .map((item: { name: string }) => item.name)
      .some((name: string) => name.startsWith(`${registry.address}/store/${namespace}/raw-disk:`)),
  ).toBe(true);
});

test('an upload without a length or a name is refused', async () => {
  expect((await call('POST', ns('/upload/image'), { raw: disk })).json.details.causes[0].field).toBe('name');
  expect((await call('POST', ns('/upload/image?name=x'))).json.details.causes[0].field).toMatch(
    /body|Content-Length/,
  );
});
