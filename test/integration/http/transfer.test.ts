import { createHash, randomBytes } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { imageAnnotations } from '../../../src/api/image.ts';
import { images } from '../../../src/api/resources.ts';
import { withDiskDigest } from '../../../src/registry/disk.ts';
import type { TestApi } from '../../support/api.ts';
import { sha, startTransferApi, type TransferApi } from './transferharness.ts';

let transfer: TransferApi;
/** In whole sectors, as the disks of most guests. */
const disk = randomBytes(512 * 600);

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
  { trailer = '', ending = '\r\n' }: { trailer?: string; ending?: string } = {},
): { raw: Buffer; headers: Record<string, string> } {
  const boundary = 'form-boundary';
  const parts = Object.entries(fields).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head = `${parts.join('')}--${boundary}\r\nContent-Disposition: form-data; name="image"; filename="${fileName}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
  return {
    raw: Buffer.concat([Buffer.from(head), content, Buffer.from(`\r\n--${boundary}${trailer}--${ending}`)]),
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

test.each([
  ['without a line break behind its last boundary', 'form-bare', disk, { ending: '' }],
  ['with two', 'form-two', disk, { ending: '\r\n\r\n' }],
  ['whose file has no whole sectors', 'form-odd', disk.subarray(0, 300_001), {}],
])('a form %s brings its disk whole', async (_what, name, content, more) => {
  const body = form({ name }, 'x.qcow2', content, more);
  const { status, json } = await call('POST', ns('/upload/image'), body);
  expect([status, json.name, json.state]).toEqual([202, name, 'Updating']);
  expect(sha(await transfer.contentOf(name))).toBe(sha(content));
  expect((await call('POST', ns('/upload/image'), body)).status).toBe(409);
});

test.each([[''], ['?0']])('parts that are no form are no disk (Upload-Complete: %s)', async (complete) => {
  const { raw } = form({}, 'x.qcow2', disk);
  const headers = {
    'content-type': 'multipart/mixed; boundary=form-boundary',
    ...(complete === '' ? {} : { 'upload-complete': complete }),
  };
  const { status, json } = await call('POST', ns('/upload/image?name=mixed'), { raw, headers });
  expect([status, json.details.causes[0].field]).toEqual([415, 'Content-Type']);
  expect((await call('GET', ns('/images/mixed'))).status).toBe(404);
});

test('a form without a length brings its disk whole', async () => {
  const { raw, headers } = form({ name: 'form-chunked' }, 'x.qcow2', disk);
  const body = Readable.from([raw.subarray(0, 1000), raw.subarray(1000)]) as never;
  expect((await call('POST', ns('/upload/image'), { raw: body, headers })).status).toBe(202);
  expect(sha(await transfer.contentOf('form-chunked'))).toBe(sha(disk));
});

test('a form whose end nobody could foresee is refused with what to do, and leaves nothing', async () => {
  const body = form({ name: 'unforeseen' }, 'x.qcow2', Buffer.concat([disk, Buffer.from('xx')]), {
    ending: '',
  });
  const { status, json } = await call('POST', ns('/upload/image'), body);
  expect([status, json.message]).toEqual([400, expect.stringContaining('one line break')]);
  expect((await call('GET', ns('/images/unforeseen'))).status).toBe(404);
});

test.each<[how: string, name: string, query: string, body: Parameters<typeof call>[2]]>([
  ['in the query', 'arm-raw', '?name=arm-raw&architecture=arm64', { raw: disk }],
  [
    'in the query of one whose length nobody says',
    'arm-chunked',
    '?name=arm-chunked&architecture=arm64',
    { raw: Readable.from([disk]) as never },
  ],
  ['in a field', 'arm-form', '', form({ name: 'arm-form', architecture: 'arm64' }, 'x.img', disk)],
  [
    'in a field of a form that ends otherwise',
    'arm-bare',
    '',
    form({ name: 'arm-bare', architecture: 'arm64' }, 'x.img', disk, { ending: '' }),
  ],
])('an upload says for which guests its disk is: %s', async (_how, name, query, body) => {
  expect((await call('POST', ns(`/upload/image${query}`), body)).status).toBe(202);
  const { metadata } = await transfer.cluster.client.get(images, name, transfer.namespace);
  expect(metadata.annotations?.[imageAnnotations.architecture]).toBe('arm64');
});

test('a resumable upload says it at its beginning, and no upload says what is none', async () => {
  const path = ns('/upload/image?name=arm-parts&architecture=arm64');
  const begun = await call('POST', path, { headers: { 'upload-complete': '?0' } });
  const location = String(begun.headers['location']);
  const sent = await call('PATCH', location, { raw: disk, headers: { 'upload-offset': '0' } });
  expect([begun.status, sent.status]).toEqual([201, 202]);
  const { metadata } = await transfer.cluster.client.get(images, 'arm-parts', transfer.namespace);
  expect(metadata.annotations?.[imageAnnotations.architecture]).toBe('arm64');
  const wrong = await call('POST', ns('/upload/image?name=x&architecture=mips'), { raw: disk });
  expect([wrong.status, wrong.json.details.causes[0].field]).toEqual([422, 'architecture']);
});

test('an Image that waits for its upload takes it', async () => {
  await transfer.cluster.client.create(images, {
    metadata: { name: 'waiting', namespace: transfer.namespace },
    spec: { source: { upload: {} } },
  });
  expect((await call('POST', ns('/upload/image?name=waiting'), { raw: disk })).status).toBe(202);
  await transfer.inspected('waiting');
});

describe('the list that comes after the answer to an upload', () => {
  const idOf = (name: string): Promise<string | undefined> =>
    transfer.cluster.client.get(images, name, transfer.namespace).then(
      ({ metadata }) => metadata.annotations?.[imageAnnotations.uploadId],
      () => undefined,
    );
  const shown = async (name: string) => {
    const { json } = await call('GET', ns('/images'));
    return json.items.find((item: { name: string }) => item.name === name);
  };

  /** The answer to an upload of which the api hears late. */
  async function late(name: string, upload: () => ReturnType<typeof call>) {
    const before = await idOf(name);
    const { hold, release } = transfer.watches;
    onTestFinished(release);
    hold('images');
    const answering = upload();
    await expect.poll(() => idOf(name)).not.toBe(before);
    // Within the second for which an answer waits at most.
    const releasing = setTimeout(release, 700);
    onTestFinished(() => clearTimeout(releasing));
    return answering;
  }

  test.each<[how: string, name: string, upload: (name: string) => ReturnType<typeof call>]>([
    ['in one request', 'seen-raw', (name) => call('POST', ns(`/upload/image?name=${name}`), { raw: disk })],
    [
      'without a length',
      'seen-chunked',
      (name) => call('POST', ns(`/upload/image?name=${name}`), { raw: Readable.from([disk]) as never }),
    ],
    [
      'in parts',
      'seen-parts',
      async (name) => {
        const begun = await call('POST', ns(`/upload/image?name=${name}`), {
          headers: { 'upload-complete': '?0' },
        });
        const headers = { 'upload-offset': '0' };
        return call('PATCH', String(begun.headers['location']), { raw: disk, headers });
      },
    ],
  ])('%s has it', async (_how, name, upload) => {
    const { status, json } = await late(name, () => upload(name));
    expect([status, await shown(name)]).toEqual([202, json]);
  });

  test('of a disk that was refused before says no longer why', async () => {
    const name = 'sent-again';
    const upload = () => call('POST', ns(`/upload/image?name=${name}`), { raw: randomBytes(512) });
    await upload();
    const { metadata } = await transfer.cluster.client.get(images, name, transfer.namespace);
    const stalled = {
      type: 'Stalled',
      status: 'True',
      reason: 'DiskRefused',
      message: 'is no disk',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    } as const;
    const request = metadata.annotations?.[imageAnnotations.upload]?.slice(-64);
    await transfer.cluster.client.patch(
      images,
      { name, namespace: transfer.namespace },
      { type: 'merge', body: { status: { request, conditions: [stalled] } } },
      { subresource: 'status' },
    );
    await expect.poll(async () => (await shown(name)).state).toBe('Failed');
    expect((await late(name, upload)).status).toBe(202);
    expect(await shown(name)).toMatchObject({ state: 'Updating' });
    expect(await shown(name)).not.toHaveProperty('errorMessage');
  });
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
    form({ name: 'broken' }, 'x.img', disk, { trailer: 'x' }),
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

test('HEAD of a download has its headers, and lets the store be', async () => {
  const large = randomBytes(8 * 2 ** 20);
  await call('POST', ns('/upload/image?name=asked'), { raw: large });
  await transfer.inspected('asked');
  let received = 0;
  const count = (message: unknown): void => {
    received += (message as { chunk: Buffer }).chunk.length;
  };
  subscribe('undici:request:bodyChunkReceived', count);
  onTestFinished(() => void unsubscribe('undici:request:bodyChunkReceived', count));
  for (let asked = 0; asked < 4; asked += 1) {
    const { status, headers } = await call('HEAD', ns('/images/asked/download'));
    expect([status, headers['content-length']]).toEqual([200, String(large.length)]);
  }
  // What the store was asked for before comes no later than this.
  expect((await transfer.fetchBytes(ns('/images/asked/download'))).bytes.equals(large)).toBe(true);
  expect(received).toBeLessThan(2 * large.length);
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
