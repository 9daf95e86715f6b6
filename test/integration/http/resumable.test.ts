import { randomBytes } from 'node:crypto';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { images } from '../../../src/api/resources.ts';
import { UploadTurns, type UploadedContent } from '../../../src/http/uploads/turns.ts';
import { identity } from '../../support/identity.ts';
import { startTransferApi, type TransferApi } from './transferharness.ts';

class CountedTurns extends UploadTurns {
  underWay = 0;

  override run<T>(sent: UploadedContent, work: (content: AsyncIterable<Buffer>) => Promise<T>): Promise<T> {
    return super.run(sent, async (content) => {
      this.underWay += 1;
      return work(content).finally(() => (this.underWay -= 1));
    });
  }
}

let transfer: TransferApi;
const turns = new CountedTurns({ total: 4 });
const disk = randomBytes(450_000);

beforeAll(async () => {
  transfer = await startTransferApi('resumable', turns);
});

afterAll(() => transfer?.close());

const begin = async (name: string, headers: Record<string, string> = {}, raw?: Buffer) => {
  const path = transfer.ns(`/upload/image?name=${name}&description=mine`);
  return transfer.call('POST', path, {
    headers: { 'upload-complete': '?0', ...headers },
    ...(raw === undefined ? {} : { raw }),
  });
};

/** Begins an upload of `disk`; its location. */
async function begun(name: string, headers?: Record<string, string>): Promise<string> {
  const reply = await begin(name, { 'upload-length': String(disk.length), ...headers });
  expect([reply.status, reply.headers['upload-offset'], reply.headers['upload-complete']]).toEqual([
    201,
    '0',
    '?0',
  ]);
  return String(reply.headers['location']);
}

const patch = (location: string, offset: number, raw: Buffer, complete = '?1') =>
  transfer.call('PATCH', location, {
    raw,
    headers: { 'upload-offset': String(offset), 'upload-complete': complete },
  });

const offsetOf = async (location: string): Promise<number> =>
  Number((await transfer.call('HEAD', location)).headers['upload-offset']);

/** Sends a body that ends before its length, then nothing: the connection is gone. */
async function cutOff(location: string, bytes: Buffer, headers: Record<string, string>): Promise<void> {
  const { api, cluster } = transfer;
  await new Promise<void>((resolve) => {
    const sent = httpsRequest(`${api.baseUrl}${location}`, {
      method: 'PATCH',
      ca: api.tls.cert,
      headers: { authorization: `Bearer ${cluster.adminToken}`, 'upload-offset': '0', ...headers },
    });
    sent.on('error', () => resolve());
    sent.on('close', () => resolve());
    sent.write(bytes, () => setTimeout(() => sent.destroy(), 100));
  });
}

describe('a resumable upload', () => {
  test.each([
    ['whose length is known', { 'content-length': String(disk.length) }],
    ['without a length', { 'transfer-encoding': 'chunked' }],
  ])('%s that broke off goes on with the byte after the last one that came', async (what, headers) => {
    const name = `half-${what.length}`;
    const location = await begun(name);
    await cutOff(location, disk.subarray(0, 250_000), headers);
    await expect.poll(() => offsetOf(location)).toBeGreaterThan(0);
    expect((await transfer.call('GET', transfer.ns(`/images/${name}`))).status).toBe(404);
    // What the api still had in hand when the connection broke may come in between: as a client, ask again.
    const goOn = async () => {
      const offset = await offsetOf(location);
      expect(offset).toBeLessThanOrEqual(250_000);
      const { status, json } = await patch(location, offset, disk.subarray(offset));
      return [status, json.name, json.description, json.state];
    };
    await expect.poll(goOn).toEqual([202, name, 'mine', 'Updating']);
    expect((await transfer.contentOf(name)).equals(disk)).toBe(true);
    expect((await begin(name)).status).toBe(409);
  });

  test('may come in requests of any size, the first with the beginning', async () => {
    const first = await begin('pieces', {}, disk.subarray(0, 1));
    expect([first.status, first.json.offset, first.json.complete]).toEqual([201, 1, false]);
    const location = String(first.headers['location']);
    const middle = await patch(location, 1, disk.subarray(1, 449_999), '?0');
    expect([middle.status, middle.json]).toMatchObject([200, { offset: 449_999, complete: false }]);
    expect((await patch(location, 449_999, disk.subarray(449_999))).status).toBe(202);
    expect((await transfer.contentOf('pieces')).equals(disk)).toBe(true);
  });

  test('may begin with bytes of which nobody says how many come, or with none of them', async () => {
    const piped = Readable.from([disk.subarray(0, 1000), disk.subarray(1000, 150_000)]) as never;
    const first = await begin('piped', {}, piped);
    expect([first.status, first.json.offset, first.headers['upload-offset']]).toEqual([
      201,
      150_000,
      '150000',
    ]);
    expect((await patch(String(first.headers['location']), 150_000, disk.subarray(150_000))).status).toBe(
      202,
    );
    expect((await transfer.contentOf('piped')).equals(disk)).toBe(true);
    const none = await begin('piped-nothing', {}, Readable.from([]) as never);
    expect([none.status, none.json.offset]).toEqual([201, 0]);
    expect((await patch(String(none.headers['location']), 0, disk)).status).toBe(202);
  });

  test('that is done says so to a client that lost the answer, also when its parts are gone', async () => {
    const { store, repository } = transfer;
    const location = await begun('lost');
    expect((await patch(location, 0, disk)).status).toBe(202);
    const [tag = ''] = await store.tags(repository('lost'));
    await store.deleteManifest(repository('lost'), (await store.digestOf(repository('lost'), tag)) ?? '');
    const { status, headers } = await transfer.call('HEAD', location);
    expect([status, headers['upload-complete']]).toEqual([200, '?1']);
    expect((await patch(location, 0, disk)).status).toBe(409);
  });

  test('that could not be handed over is kept: its client says again that it is whole', async () => {
    const location = await begun('refused');
    transfer.fails('lostRequest');
    const first = await patch(location, 0, disk);
    transfer.fails('none');
    expect(first.status).toBe(500);
    expect(await offsetOf(location)).toBe(disk.length);
    expect((await patch(location, disk.length, Buffer.alloc(0))).status).toBe(202);
    expect((await transfer.contentOf('refused')).equals(disk)).toBe(true);
  });

  test('that is done cannot be cancelled any more: its Image is made of it', async () => {
    const location = await begun('done');
    expect((await patch(location, 0, disk)).status).toBe(202);
    const { status, json } = await transfer.call('DELETE', location);
    expect([status, json.message]).toEqual([409, expect.stringMatching(/^upload \S+ is complete$/)]);
    expect((await transfer.contentOf('done')).equals(disk)).toBe(true);
  });

  test('that is cancelled leaves nothing', async () => {
    const { store, repository } = transfer;
    const location = await begun('cancelled');
    await patch(location, 0, disk.subarray(0, 1000), '?0');
    expect((await transfer.call('DELETE', location)).status).toBe(200);
    expect((await transfer.call('HEAD', location)).status).toBe(404);
    expect((await patch(location, 1000, disk.subarray(1000))).status).toBe(404);
    expect(await store.tags(repository('cancelled'))).toEqual([]);
  });

  test('that nobody went on with for a day is given up when another one to the name begins', async () => {
    const { store, repository } = transfer;
    const repo = repository('stale');
    const old = await begun('stale');
    await patch(old, 0, disk.subarray(0, 1000), '?0');
    const [tag = ''] = await store.tags(repo);
    const { digest, bytes, mediaType } = await store.manifest(repo, tag);
    const years = bytes.toString().replace(/("svc3\.dev\/written-at":")20\d\d/, '$12001');
    await store.deleteManifest(repo, digest);
    await store.putManifest(repo, tag, Buffer.from(years), mediaType);
    const location = await begun('stale');
    expect(await store.tags(repo)).toHaveLength(1);
    expect((await transfer.call('HEAD', old)).status).toBe(404);
    expect((await patch(location, 0, disk)).status).toBe(202);
  });

  test('whose Image was deleted meanwhile makes none, and leaves nothing in the store', async () => {
    const { cluster, namespace, store, repository } = transfer;
    await cluster.client.create(images, {
      metadata: { name: 'gone', namespace },
      spec: { source: { upload: {} } },
    });
    const location = await begun('gone');
    await cluster.client.delete(images, { name: 'gone', namespace });
    const { status, json } = await patch(location, 0, disk);
    expect([status, json.message]).toEqual([404, expect.stringContaining('was deleted while')]);
    expect(await store.tags(repository('gone'))).toEqual([]);
  });

  test('to a name that somebody else has taken meanwhile leaves nothing of itself in the store', async () => {
    const { store, repository } = transfer;
    const location = await begun('raced');
    expect((await transfer.call('POST', transfer.ns('/upload/image?name=raced'), { raw: disk })).status).toBe(
      202,
    );
    const kept = await store.tags(repository('raced'));
    expect(kept).toHaveLength(2);
    expect((await patch(location, 0, disk)).status).toBe(409);
    expect(await store.tags(repository('raced'))).toHaveLength(1);
  });
});

/** A request that has sent less than it says it will, until it is told to end. */
function held(location: string): { answered(): number; end(): void } {
  const { api, cluster } = transfer;
  let status = 0;
  const headers = { authorization: `Bearer ${cluster.adminToken}`, 'content-length': String(disk.length) };
  const sent = httpsRequest(`${api.baseUrl}${location}`, {
    method: 'PATCH',
    ca: api.tls.cert,
    headers: { 'upload-offset': '0', ...headers },
  });
  sent.on('response', (reply) => {
    status = reply.statusCode ?? 0;
    reply.resume();
  });
  sent.on('error', () => undefined);
  onTestFinished(() => void sent.destroy());
  sent.write(disk.subarray(0, 1000));
  return { answered: () => status, end: () => sent.end(disk.subarray(1000)) };
}

test('uploads beyond those that are read at a time wait for their turn, those of other identities not behind them', async () => {
  const { cluster, namespace } = transfer;
  const token = await identity(cluster.client, 'other', { namespace, clusterRole: 'cluster-admin' });
  const others = await begun('turn-other');
  await expect.poll(async () => (await transfer.call('HEAD', others, { token })).status).toBe(200);
  // Half of the four places are for one identity.
  const first = [held(await begun('turn-1')), held(await begun('turn-2'))];
  await expect.poll(() => turns.underWay).toBe(2);
  let isTaken = false;
  const third = patch(await begun('turn-3'), 0, disk).finally(() => (isTaken = true));
  const headers = { 'upload-offset': '0', 'upload-complete': '?1' };
  expect((await transfer.call('PATCH', others, { raw: disk, headers, token })).status).toBe(202);
  expect([isTaken, ...first.map((each) => each.answered())]).toEqual([false, 0, 0]);
  first[0]!.end();
  expect((await third).status).toBe(202);
  await expect.poll(() => first[0]!.answered()).toBe(202);
  first[1]!.end();
  await expect.poll(() => first[1]!.answered()).toBe(202);
});

describe('a request of a resumable upload is refused', () => {
  test.each<[string, number, RegExp, (location: string) => ReturnType<typeof patch>]>([
    ['at another offset', 409, /is at 0, not 5/, (location) => patch(location, 5, disk)],
    [
      'when it ends the file too early',
      400,
      /9 of 450000 bytes/,
      (location) => patch(location, 0, disk.subarray(0, 9)),
    ],
    [
      'when it brings more than was announced',
      400,
      /larger than the 450000/,
      (location) => patch(location, 0, Buffer.alloc(450_001)),
    ],
    [
      'without an offset',
      422,
      /^Upload-Offset/,
      (location) => transfer.call('PATCH', location, { raw: disk }),
    ],
    ['with a word that is none', 422, /^Upload-Complete/, (location) => patch(location, 0, disk, 'yes')],
    [
      'of an upload that nobody began',
      404,
      /there is no upload/,
      (location) => patch(location.replace(/.{4}$/, '0000'), 0, disk),
    ],
  ])('%s', async (what, status, words, send) => {
    const location = await begun(`refused-${what.length}`);
    const reply = await send(location);
    expect([reply.status, reply.json.message]).toEqual([status, expect.stringMatching(words)]);
  });

  test.each(['multipart/form-data; boundary=x', 'multipart/mixed; boundary=x'])(
    'when it goes on as %s, and the upload is as it was',
    async (type) => {
      const name = `form-${type.length}`;
      const location = String((await begin(name)).headers['location']);
      const raw = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\ndisk\r\n--x--\r\n';
      const headers = { 'upload-offset': '0', 'content-type': type };
      const { status, json } = await transfer.call('PATCH', location, { raw, headers });
      expect([status, json.details.causes[0].field]).toEqual([415, 'Content-Type']);
      expect(await offsetOf(location)).toBe(0);
      expect((await patch(location, 0, disk)).status).toBe(202);
      expect((await transfer.contentOf(name)).equals(disk)).toBe(true);
    },
  );

  test('of a size that no worker takes, and nothing of them is in the store', async () => {
    const refused = await begin('huge', { 'upload-length': String(2 ** 38 + 1) }, disk);
    expect([refused.status, refused.json]).toMatchObject([
      422,
      {
        message: expect.stringContaining('must not be larger than 274877906944 bytes'),
        details: { causes: [{ field: 'Upload-Length' }] },
      },
    ]);
    expect(await transfer.store.tags(transfer.repository('huge'))).toEqual([]);
  });

  test('when it begins with a form, or without a name', async () => {
    const form = await begin(
      'form',
      { 'content-type': 'multipart/form-data; boundary=x' },
      Buffer.from('--x'),
    );
    expect([form.status, form.json.details.causes[0].field]).toEqual([422, 'Upload-Complete']);
    const nameless = await transfer.call('POST', transfer.ns('/upload/image'), {
      headers: { 'upload-complete': '?0' },
    });
    expect([nameless.status, nameless.json.details.causes[0].field]).toEqual([422, 'name']);
  });
});

test('a raw disk without a length is taken whole, or leaves nothing where it breaks off', async () => {
  const { call, ns, store, repository } = transfer;
  const pieces = async function* (breaksOff?: AbortController) {
    yield disk.subarray(0, 1000);
    breaksOff?.abort();
    await new Promise((resolve) => setTimeout(resolve, 50));
    yield disk.subarray(1000);
  };
  const whole = await call('POST', ns('/upload/image?name=chunked'), { raw: pieces() as never });
  expect([whole.status, whole.json.name]).toEqual([202, 'chunked']);
  expect((await transfer.contentOf('chunked')).equals(disk)).toBe(true);

  const gone = new AbortController();
  const broken = { raw: pieces(gone) as never, signal: gone.signal };
  const ended = () => transfer.api.log.lines.filter((line) => line.includes('"err":"Error: aborted')).length;
  const before = ended();
  await expect(call('POST', ns('/upload/image?name=chunked-half'), broken)).rejects.toThrow(/abort/i);
  await expect.poll(ended).toBe(before + 1);
  await expect.poll(() => store.tags(repository('chunked-half'))).toEqual([]);
  expect((await call('GET', ns('/images/chunked-half'))).status).toBe(404);
});
