import { createHash, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { images } from '../../../src/api/resources.ts';
import { withDiskDigest } from '../../../src/registry/disk.ts';
import type { TestApi } from '../../support/api.ts';
import { sha, startTransferApi, type TransferApi } from './transferharness.ts';

let transfer: TransferApi;
const disk = randomBytes(300_000);

beforeAll(async () => {
  transfer = await startTransferApi('transfer');
});

afterAll(() => transfer?.close());

const call: TestApi['call'] = (...args) => transfer.call(...args);
const ns = (path: string) => transfer.ns(path);

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
  await transfer.inspected(name);
  const response = await transfer.fetchBytes(ns(`/images/${name}/download`));
  expect([response.status, response.headers['content-length'], sha(response.bytes)]).toEqual([
    200,
    String(disk.length),
    sha(disk),
  ]);
  expect((await call('POST', ns(`/upload/image${query}`), body)).status).toBe(409);
});

test('an Image that waits for its upload takes it', async () => {
  await transfer.cluster.client.create(images, {
    metadata: { name: 'waiting', namespace: transfer.namespace },
    spec: { source: { upload: {} } },
  });
  expect((await call('POST', ns('/upload/image?name=waiting'), { raw: disk })).status).toBe(202);
  await transfer.inspected('waiting');
});

test.each([
  ['in one request', 'lost-whole', { raw: disk }],
  ['without a length, as kubectl sends it', 'lost-raw', { raw: Readable.from([disk]) as never }],
])('an upload %s is kept where the answer of kube-apiserver was lost', async (_what, name, body) => {
  transfer.fails('lostAnswer');
  const uploaded = await call('POST', ns(`/upload/image?name=${name}`), body);
  transfer.fails('none');
  expect([uploaded.status, uploaded.json.name]).toEqual([202, name]);
  const { metadata } = await transfer.cluster.client.get(images, name, transfer.namespace);
  const digest = metadata.annotations?.['svc3.dev/upload'] ?? '';
  expect(await transfer.store.digestOf(transfer.repository(name), digest)).toBe(digest);
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
  const refusals = () =>
    transfer.api.log.lines.filter((line) => line.includes('uploadImage') && !line.includes('"status":202'))
      .length;
  const before = refusals();
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
  await expect.poll(refusals).toBeGreaterThan(before);
  expect((await call('GET', ns('/images/half'))).status).toBe(404);
});

test('what lies in a registry of the installation is listed as remote images', async () => {
  const { json } = await call('GET', ns('/remoteimages'));
  expect(
    json.items
      .map((item: { name: string }) => item.name)
      .some((name: string) =>
        name.startsWith(`${transfer.registry.address}/store/${transfer.namespace}/raw-disk:`),
      ),
  ).toBe(true);
});

test('an upload without a length or a name is refused', async () => {
  expect((await call('POST', ns('/upload/image'), { raw: disk })).json.details.causes[0].field).toBe('name');
  expect((await call('POST', ns('/upload/image?name=x'))).json.details.causes[0].field).toMatch(
    /body|Content-Length/,
  );
});

test('a download gives the part that Range asks for, as long as the version is the same', async () => {
  await call('POST', ns('/upload/image?name=ranged'), { raw: disk });
  await transfer.inspected('ranged');
  const path = ns('/images/ranged/download');
  const whole = await transfer.fetchBytes(path);
  expect(whole.headers).toMatchObject({ 'accept-ranges': 'bytes', etag: expect.stringMatching(/^"sha256:/) });
  expect(whole.headers['repr-digest']).toBeUndefined();
  const etag = String(whole.headers['etag']);
  const rows = [
    ['from an offset', 'bytes=200000-', { 'if-range': etag }, 206, disk.subarray(200_000)],
    ['in the middle', 'bytes=1000-1999', {}, 206, disk.subarray(1000, 2000)],
    ['the last bytes', 'bytes=-10', {}, 206, disk.subarray(-10)],
    ['of another version', 'bytes=1000-1999', { 'if-range': '"sha256:another"' }, 200, disk],
    ['in a unit that nobody knows', 'pages=1-2', {}, 200, disk],
  ] as const;
  for (const [what, range, headers, status, bytes] of rows) {
    const got = await transfer.fetchBytes(path, { range, ...headers });
    expect([what, got.status, sha(got.bytes)]).toEqual([what, status, sha(bytes)]);
    expect(got.headers['content-length']).toBe(String(bytes.length));
  }
  const middle = await transfer.fetchBytes(path, { range: 'bytes=5-9' });
  expect(middle.headers['content-range']).toBe(`bytes 5-9/${disk.length}`);
  expect((await transfer.fetchBytes(path, { range: `bytes=${disk.length}-` })).status).toBe(416);
});

test('a download says the digest of the disk itself, also where it gives a part of it', async () => {
  await call('POST', ns('/upload/image?name=digested'), { raw: disk });
  await transfer.inspected('digested', withDiskDigest(`sha256:${sha(disk)}`));
  const path = ns('/images/digested/download');
  const expected = `sha-256=:${createHash('sha256').update(disk).digest('base64')}:`;
  expect((await transfer.fetchBytes(path)).headers['repr-digest']).toBe(expected);
  expect((await transfer.fetchBytes(path, { range: 'bytes=5-9' })).headers).toMatchObject({
    'content-length': '5',
    'repr-digest': expected,
  });
});
