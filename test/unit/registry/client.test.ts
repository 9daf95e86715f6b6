import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Agent } from 'undici';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { createAuthorizer } from '../../../src/registry/auth.ts';
import { createRegistryClient, mediaTypes, type RegistryClient } from '../../../src/registry/client.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import {
  failedRequestOf,
  RegistryUnreachable,
  type RegistryEndpoint,
} from '../../../src/registry/transport.ts';
import {
  type Answer,
  type HostileRegistry,
  ofRegistry,
  startHostileRegistry,
} from '../../support/hostileregistry.ts';
import { withoutDelays, withTooLittleTime } from '../delays.ts';

const login = { username: 'alice', password: 'p4ssw0rd' };
const basic = `Basic ${Buffer.from('alice:p4ssw0rd').toString('base64')}`;

let registry: HostileRegistry;
let client: RegistryClient;

function clientOf(more: Partial<RegistryEndpoint> = {}): RegistryClient {
  const made = createRegistryClient({ registry: registry.address, scheme: 'http', ...more });
  onTestFinished(() => made.close());
  return made;
}

beforeEach(async () => {
  registry = await startHostileRegistry();
  onTestFinished(() => registry.close());
  client = clientOf();
});

const saying =
  (status: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (_request, response) =>
    void response.writeHead(status, headers).end(body);

/** Answers in turn, the last one again and again. */
function inTurn(...answers: Answer[]): Answer {
  let turn = 0;
  return (request, response) => answers[Math.min(turn++, answers.length - 1)]!(request, response);
}

const manifest = { schemaVersion: 2, mediaType: mediaTypes.ociManifest, layers: [] };

describe('a manifest', () => {
  test('is asked for in every form that is understood', async () => {
    let accept: string | undefined;
    const { digest } = registry.put('/v2/a/manifests/1', manifest, mediaTypes.ociManifest);
    const answer = registry.answers.get('/v2/a/manifests/1')!;
    registry.answers.set('/v2/a/manifests/1', (request, response) => {
      ({ accept } = request.headers);
      return answer(request, response);
    });
    expect(await client.manifest('a', '1')).toMatchObject({ digest, manifest });
    expect(accept?.split(', ')).toEqual([
      mediaTypes.ociManifest,
      mediaTypes.ociIndex,
      mediaTypes.dockerManifest,
      mediaTypes.dockerIndex,
    ]);
    expect((await client.manifest('a', digest)).digest).toBe(digest);
    expect(registry.requests).toEqual([`GET /v2/a/manifests/1`, `GET /v2/a/manifests/${digest}`]);
  });

  test.each([
    [manifest, 'a/b; charset=x', mediaTypes.ociManifest],
    [{ schemaVersion: 2 }, 'a/b; charset=x', 'a/b'],
  ])('%o that is sent as %s is %s', async (document, contentType, mediaType) => {
    registry.put('/v2/a/manifests/1', document, contentType);
    expect((await client.manifest('a', '1')).mediaType).toBe(mediaType);
  });

  test('of another digest than asked for is not believed', async () => {
    const digest = sha256(Buffer.from('x'));
    registry.answers.set(`/v2/a/manifests/${digest}`, saying(200, {}, '{"schemaVersion":2}'));
    await expect(client.manifest('a', digest)).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `${registry.address}/a sent a manifest that does not match its digest ${digest}`,
    });
  });

  test('may have 4 MiB and no more, nor more than an index says', async () => {
    const sized = (bytes: number): string => '{"schemaVersion":2}'.padEnd(bytes);
    registry.answers.set('/v2/a/manifests/1', saying(200, {}, sized(4 * 2 ** 20)));
    expect((await client.manifest('a', '1')).bytes.length).toBe(4 * 2 ** 20);
    registry.answers.set('/v2/a/manifests/1', saying(200, {}, sized(4 * 2 ** 20 + 1)));
    const tooLarge = `the manifest of ${registry.address}/a is larger than`;
    await expect(client.manifest('a', '1')).rejects.toThrow(`${tooLarge} 4194304 bytes`);
    registry.answers.set('/v2/a/manifests/1', saying(200, {}, sized(101)));
    expect((await client.manifest('a', '1', { size: 101 })).bytes.length).toBe(101);
    await expect(client.manifest('a', '1', { size: 100 })).rejects.toThrow(`${tooLarge} 100 bytes`);
  });

  test('has a digest that is asked for without it', async () => {
    const digest = sha256(Buffer.from('x'));
    registry.answers.set('/v2/a/manifests/1', saying(200, { 'docker-content-digest': digest }));
    expect(await client.digestOf('a', '1')).toBe(digest);
    expect(registry.requests).toEqual(['HEAD /v2/a/manifests/1']);
    expect(await client.digestOf('a', 'gone')).toBeUndefined();
  });

  test.each([{}, { 'docker-content-digest': 'sha512:abc' }])(
    'is fetched where %o does not tell its digest',
    async (headers) => {
      registry.answers.set('/v2/a/manifests/1', saying(200, headers, '{"schemaVersion":2}'));
      expect(await client.digestOf('a', '1')).toBe(sha256(Buffer.from('{"schemaVersion":2}')));
    },
  );

  test('is put as what it is, and deleted by its digest', async () => {
    let sent: unknown;
    registry.answers.set('/v2/a/manifests/1', (request, response) => {
      void text(request).then((body) => {
        sent = { body, type: request.headers['content-type'] };
        response.writeHead(201).end();
      });
    });
    expect(await client.putManifest('a', '1', Buffer.from('{}'), 'a/b')).toBe(sha256(Buffer.from('{}')));
    expect(sent).toEqual({ body: '{}', type: 'a/b' });
    registry.answers.set('/v2/a/manifests/sha256:x', saying(202));
    await client.deleteManifest('a', 'sha256:x');
    await client.deleteManifest('a', 'sha256:gone');
    expect(registry.requests.slice(1)).toEqual([
      'DELETE /v2/a/manifests/sha256:x',
      'DELETE /v2/a/manifests/sha256:gone',
    ]);
    registry.answers.set('/v2/a/manifests/sha256:x', saying(405));
    await expect(client.deleteManifest('a', 'sha256:x')).rejects.toMatchObject({
      reason: 'MethodNotAllowed',
    });
  });
});

describe('a blob', () => {
  let ranges: (string | undefined)[];
  beforeEach(() => {
    ranges = [];
    registry.answers.set('/v2/a/blobs/d', ({ headers }, response) => {
      ranges.push(headers.range);
      response.writeHead(headers.range === undefined ? 200 : 206, { 'content-length': '2' }).end('xy');
    });
  });

  test.each([
    [{}, undefined],
    [{ offset: 0 }, undefined],
    [{ offset: 3 }, 'bytes=3-'],
    [{ end: 4 }, 'bytes=0-4'],
    [{ offset: 3, end: 4 }, 'bytes=3-4'],
  ])('is read %o', async (options, range) => {
    expect(await text(await client.blob('a', 'd', options))).toBe('xy');
    expect(ranges).toEqual([range]);
  });

  test('has a size, or is not there', async () => {
    expect(await client.blobSize('a', 'd')).toBe(2);
    expect(await client.blobSize('a', 'gone')).toBeUndefined();
  });

  test.each([
    ['bytes 3-4/9', true],
    ['bytes 4-4/9', false],
    ['bytes 0-4/9', false],
  ])('that begins at %s where byte 3 was asked for is believed: %s', async (contentRange, isBelieved) => {
    registry.answers.set('/v2/a/blobs/d', saying(206, { 'content-range': contentRange }, 'xy'));
    const read = client.blob('a', 'd', { offset: 3 });
    if (isBelieved) expect(await text(await read)).toBe('xy');
    else
      await expect(read).rejects.toMatchObject({
        reason: 'BadGateway',
        message: expect.stringMatching(/sent bytes from \d on, not from 3/),
      });
  });

  test('that is sent whole where a part was asked for is not taken', async () => {
    registry.answers.set('/v2/a/blobs/d', saying(200, {}, 'wxyz'));
    await expect(client.blob('a', 'd', { offset: 3 })).rejects.toThrow('answered 200');
  });

  test('is mounted, or the upload that the registry began instead is given up', async () => {
    registry.answers.set('/v2/a/blobs/uploads/', saying(201));
    expect(await client.mountBlob('a', 'sha256:x', 'b/c')).toBe(true);
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: '/v2/a/blobs/uploads/1' }));
    expect(await client.mountBlob('a', 'sha256:x', 'b/c')).toBe(false);
    const mount = 'POST /v2/a/blobs/uploads/?mount=sha256:x&from=b%2Fc';
    expect(registry.requests).toEqual([mount, mount, 'DELETE /v2/a/blobs/uploads/1']);
  });

  test('is put once', async () => {
    const digest = sha256(Buffer.from('xy'));
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: '/v2/a/blobs/uploads/1?s=2' }));
    registry.answers.set(
      '/v2/a/blobs/uploads/1',
      inTurn(saying(202, { location: '/v2/a/blobs/uploads/1?s=3', range: '0-1' }), saying(201)),
    );
    expect(await client.putBlob('a', Buffer.from('xy'))).toBe(digest);
    expect(registry.requests).toEqual([
      `HEAD /v2/a/blobs/${digest}`,
      'POST /v2/a/blobs/uploads/',
      'PATCH /v2/a/blobs/uploads/1?s=2',
      `PUT /v2/a/blobs/uploads/1?s=3&digest=${encodeURIComponent(digest)}`,
    ]);
    registry.answers.set(`/v2/a/blobs/${digest}`, saying(200));
    await client.putBlob('a', Buffer.from('xy'));
    expect(registry.requests.slice(4)).toEqual([`HEAD /v2/a/blobs/${digest}`]);
  });

  test.each([true, false])(
    'is there where the answer to the end of its upload was lost: %s, and the next try finds no upload',
    async (isThere) => {
      withoutDelays();
      const digest = sha256(Buffer.from('xy'));
      const held = saying(204, { range: '0-1' });
      registry.answers.set('/v2/a/blobs/uploads/1', inTurn(held, saying(502), saying(404, ofRegistry)));
      const upload = await client.upload('a', { location: '/v2/a/blobs/uploads/1' });
      if (isThere) registry.answers.set(`/v2/a/blobs/${digest}`, saying(200, { 'content-length': '2' }));
      const finished = upload.finish(digest);
      if (isThere) await finished;
      // Nothing is wrong with what was sent.
      else
        await expect(finished).rejects.toMatchObject({
          reason: 'BadGateway',
          message: expect.stringMatching(/^the registry has lost an upload to a: /),
        });
      const put = `PUT /v2/a/blobs/uploads/1?digest=${encodeURIComponent(digest)}`;
      expect(registry.requests.slice(1)).toEqual([put, put, `HEAD /v2/a/blobs/${digest}`]);
    },
  );

  test('that nobody wants any more is not looked for', async () => {
    registry.answers.set('/v2/a/blobs/uploads/1', saying(204));
    const upload = await client.upload('a', { location: '/v2/a/blobs/uploads/1' });
    await expect(upload.finish('sha256:x', { signal: AbortSignal.abort() })).rejects.toThrow(/abort/);
    expect(registry.requests).toHaveLength(1);
  });

  test('has an upload with a location', async () => {
    registry.answers.set('/v2/a/blobs/uploads/', saying(202));
    await expect(client.upload('a')).rejects.toThrow('began an upload to a without a location');
  });

  test.each<[string | undefined, number]>([
    [undefined, 4_194_304],
    ['5', 4_194_304],
    ['4194305', 4_194_305],
    ['67108864', 67_108_864],
    ['-1', 4_194_304],
    ['5 MiB', 4_194_304],
  ])('has an upload in pieces as large as the registry says (%s): of %i bytes', async (minimum, expected) => {
    const more: Record<string, string> = minimum === undefined ? {} : { 'OCI-Chunk-Min-Length': minimum };
    const begun = saying(202, { location: '/v2/a/blobs/uploads/1', ...more });
    registry.answers.set('/v2/a/blobs/uploads/', begun);
    expect((await client.upload('a')).pieceBytes).toBe(expected);
  });

  test('has no upload where the registry wants larger pieces than can be held', async () => {
    const begun = saying(202, { location: '/v2/a/blobs/uploads/1', 'OCI-Chunk-Min-Length': '67108865' });
    registry.answers.set('/v2/a/blobs/uploads/', begun);
    await expect(client.upload('a')).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `registry ${registry.address} takes uploads in pieces of 67108865 bytes or more (OCI-Chunk-Min-Length); svc3 sends 67108864 at most`,
    });
    expect(registry.requests.at(-1)).toBe('DELETE /v2/a/blobs/uploads/1');
  });

  test('has an upload that can be gone on with', async () => {
    registry.answers.set('/v2/a/blobs/uploads/1', saying(204, { range: '0-41' }));
    const upload = await client.upload('a', { location: '/v2/a/blobs/uploads/1' });
    expect([upload.offset, upload.location]).toEqual([42, '/v2/a/blobs/uploads/1']);
    expect(registry.requests).toEqual(['GET /v2/a/blobs/uploads/1']);
  });
});

describe('a repository that is not there', () => {
  test.each<[string, () => Promise<unknown>]>([
    ['an upload', () => client.upload('team/a')],
    ['a blob', () => client.putBlob('team/a', Buffer.from('xy'))],
    ['a blob of another one', () => client.mountBlob('team/a', 'sha256:x', 'team/b')],
    ['a manifest', () => client.putManifest('team/a', '1', Buffer.from('{}'), 'a/b')],
  ])('does not take %s, and that says nothing of what is put there', async (_what, put) => {
    const unknown = saying(404, {}, '{"errors":[{"code":"NAME_UNKNOWN","message":"no such project"}]}');
    registry.answers.set('/v2/team/a/blobs/uploads/', unknown).set('/v2/team/a/manifests/1', unknown);
    await expect(put()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `registry ${registry.address} takes nothing into team/a (the repository or its project may have to be made first): registry ${registry.address} answered 404 (NAME_UNKNOWN: no such project)`,
    });
  });
});

/** As a router before registries says it that has no route, or none yet. */
const unrouted = saying(404, { 'content-type': 'text/plain; charset=utf-8' }, '404 page not found\n');

describe('a 404', () => {
  const digest = sha256(Buffer.from('x'));
  const calls: [string, string, (from: RegistryClient) => Promise<unknown>][] = [
    ['tags', '/v2/a/tags/list', (from) => from.tags('a')],
    ['a digest', '/v2/a/manifests/1', (from) => from.digestOf('a', '1')],
    ['a deletion', `/v2/a/manifests/${digest}`, (from) => from.deleteManifest('a', digest)],
    ['a manifest', '/v2/a/manifests/1', (from) => from.manifest('a', '1')],
    ['referrers', `/v2/a/referrers/${digest}`, (from) => from.referrers('a', digest)],
    ['a blob', `/v2/a/blobs/${digest}`, (from) => from.blob('a', digest)],
    ['the size of a blob', `/v2/a/blobs/${digest}`, (from) => from.blobSize('a', digest)],
    ['the catalogue', '/v2/_catalog', (from) => from.repositories()],
  ];

  test.each(calls)('to %s is no word of a registry that does not answer either', async (_what, path, ask) => {
    const told: string[][] = [];
    registry.answers.set(path, unrouted).set('/v2/', unrouted);
    await expect(ask(clientOf({ failed: (...what) => void told.push(what) }))).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `registry ${registry.address} is not there: what answers for it says 404, at /v2/ as well`,
    });
    expect(told).toEqual([[registry.address, 'BadGateway']]);
  });

  test.each<[string, Answer]>([
    ['answers', saying(200)],
    ['asks for a login', saying(401, { 'www-authenticate': 'Bearer realm="http://127.0.0.1:9/token"' })],
    ['denies', saying(403)],
    ['sends elsewhere', saying(307, { location: '/v2/there' })],
  ])('in plain text of a registry that %s at /v2/ is its word', async (_what, answer) => {
    registry.answers.set('/v2/', answer).set('/v2/there', saying(200));
    for (const [, path] of calls) registry.answers.set(path, unrouted);
    expect(await client.tags('a')).toEqual([]);
    expect(await client.digestOf('a', '1')).toBeUndefined();
    expect(await client.referrers('a', digest)).toBeUndefined();
    expect(await client.blobSize('a', digest)).toBeUndefined();
    await client.deleteManifest('a', digest);
    await expect(client.manifest('a', '1')).rejects.toMatchObject({ reason: 'NotFound' });
    expect(registry.credentials).toEqual([]);
  });

  test.each([408, 429, 500, 501, 503])(
    'of a registry that answers %i at /v2/ is nobody knows whose',
    async (status) => {
      withoutDelays();
      registry.answers.set('/v2/a/tags/list', unrouted).set('/v2/', saying(status));
      await expect(client.tags('a')).rejects.toMatchObject({
        reason: 'BadGateway',
        message: `registry ${registry.address} is not there: what answers for it says 404, and ${status} at /v2/`,
      });
    },
  );

  test('of a registry that is not reached at /v2/ is nobody knows whose', async () => {
    withoutDelays();
    registry.answers.set('/v2/a/tags/list', unrouted).set('/v2/', (request) => request.socket.destroy());
    await expect(client.tags('a')).rejects.toThrow(RegistryUnreachable);
  });

  test('that names its registry is believed without a question', async () => {
    registry.answers.set('/v2/', unrouted);
    expect(await client.tags('a')).toEqual([]);
    expect(registry.requests).toEqual(['GET /v2/a/tags/list?n=1000']);
  });

  test('has words, which are told once it is known to be of the registry', async () => {
    const words = '{"errors":[{"code":"NAME_UNKNOWN","message":"no such project"}]}';
    registry.answers.set('/v2/a/manifests/1', saying(404, { 'content-type': 'application/json' }, words));
    await expect(client.manifest('a', '1')).rejects.toMatchObject({
      reason: 'NotFound',
      message: `registry ${registry.address} answered 404 (NAME_UNKNOWN: no such project)`,
    });
  });

  test('with more words than a connection holds does not keep all of them from the question', async () => {
    const page = saying(404, { 'content-type': 'text/html' }, ' '.repeat(2 ** 20));
    for (let one = 0; one < 12; one += 1) registry.answers.set(`/v2/${one}/tags/list`, page);
    const all = Array.from({ length: 12 }, (_, one) => client.tags(`${one}`));
    expect((await Promise.all(all)).flat()).toEqual([]);
  });
});

describe('a list', () => {
  const path = '/v2/a/tags/list';
  const names = (from: number, count: number): string[] =>
    Array.from({ length: count }, (_, i) => `t${from + i}`);
  const page = (tags: unknown, next?: string): Answer =>
    saying(200, next === undefined ? {} : { link: `<${next}>; rel="next"` }, JSON.stringify({ tags }));

  test('is read page by page', async () => {
    registry.answers.set(path, inTurn(page(names(0, 2), `${path}?n=1000&last=t1`), page(names(2, 1))));
    expect(await client.tags('a')).toEqual(names(0, 3));
    expect(registry.requests).toEqual([`GET ${path}?n=1000`, `GET ${path}?n=1000&last=t1`]);
  });

  test('is read no further than wanted', async () => {
    registry.answers.set(path, page(names(0, 2), `${path}?last=t1`));
    expect(await client.tags('a', { limit: 3 })).toEqual(['t0', 't1', 't0']);
    expect(registry.requests).toEqual([`GET ${path}?n=3`, `GET ${path}?last=t1`]);
    expect(await client.tags('a', { limit: 4 })).toHaveLength(4);
    expect(registry.requests).toHaveLength(4);
  });

  test.each<[string, Answer, string[]]>([
    ['that is not there is empty', saying(404), []],
    ['of nothing is empty', page(null), []],
    ['of something else is empty', saying(200, {}, '{}'), []],
    [
      'of names that are none leaves them out',
      page(['a', 5, null, 'x'.repeat(255), 'x'.repeat(256)]),
      ['a', 'x'.repeat(255)],
    ],
  ])('%s', async (_sentence, answer, expected) => {
    registry.answers.set(path, answer);
    expect(await client.tags('a')).toEqual(expected);
  });

  test.each(['{', '5', 'null', '{"tags":5}'])('that is %s is none', async (body) => {
    registry.answers.set(path, saying(200, {}, body));
    await expect(client.tags('a')).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `the registry's answer to ${path} is not a list`,
    });
  });

  test('of repositories is the catalogue', async () => {
    registry.answers.set('/v2/_catalog', saying(200, {}, '{"repositories":["a","b"]}'));
    expect(await client.repositories()).toEqual(['a', 'b']);
    expect(await client.repositories({ limit: 1 })).toEqual(['a']);
    expect(registry.requests).toEqual(['GET /v2/_catalog?n=1000', 'GET /v2/_catalog?n=1']);
  });

  test('of repositories is not empty where the registry has no catalogue: nobody knows them', async () => {
    await expect(client.repositories()).rejects.toMatchObject({
      reason: 'NotFound',
      message: `registry ${registry.address} answered 404`,
    });
  });
});

describe('a refusal', () => {
  test.each<[number, ErrorReason, string]>([
    [400, 'BadRequest', 'answered 400'],
    [401, 'Unauthorized', 'refused the login'],
    [403, 'Forbidden', 'denied access'],
    [404, 'NotFound', 'answered 404'],
    [405, 'MethodNotAllowed', 'answered 405'],
    [413, 'RequestEntityTooLarge', 'takes no upload of this size: it, or a proxy before it, answered 413'],
    [416, 'RangeNotSatisfiable', 'answered 416'],
    [418, 'BadRequest', 'answered 418'],
    [505, 'BadGateway', 'answered 505'],
  ])('of %i is %s and quotes the registry', async (status, reason, what) => {
    const errors = JSON.stringify({ errors: [{ code: 'DENIED', message: 'no' }, { code: 'MORE' }] });
    registry.answers.set('/v2/', saying(status, {}, errors));
    await expect(client.login()).rejects.toMatchObject({
      reason,
      message: `registry ${registry.address} ${what} (DENIED: no)`,
    });
    expect(registry.requests).toHaveLength(1);
  });

  test.each([
    // Harbor 2, Harbor before that, Quay, IBM Cloud Container Registry.
    'adding 29.0 MiB of storage resource, which when updated to current usage of 152.4 MiB will exceed the configured upper limit of 160.0 MiB.',
    'Quota exceeded when processing the request of adding 1.3 MiB',
    'Quota has been exceeded on namespace',
    'Your account has exceeded its image storage quota for the current month.',
  ])('to store more, for a quota, is none of the credential: %s', async (message) => {
    const errors = JSON.stringify({ errors: [{ code: 'DENIED', message }] });
    registry.answers.set('/v2/a/manifests/1', saying(403, {}, errors));
    const put = client.putManifest('a', '1', Buffer.from('{}'), mediaTypes.ociManifest);
    await expect(put).rejects.toMatchObject({
      reason: 'RequestEntityTooLarge',
      message: `registry ${registry.address} has no room for it: a quota there is used up (DENIED: ${message})`,
    });
    // Nothing is stored by who reads.
    await expect(client.manifest('a', '1')).rejects.toMatchObject({ reason: 'Forbidden' });
  });

  test('of what is called after quotas is one of the credential', async () => {
    const message = 'requested access to the resource team/quota is denied';
    const errors = JSON.stringify({ errors: [{ code: 'DENIED', message }] });
    registry.answers.set('/v2/team/quota/manifests/1', saying(403, {}, errors));
    const put = client.putManifest('team/quota', '1', Buffer.from('{}'), mediaTypes.ociManifest);
    await expect(put).rejects.toMatchObject({ reason: 'Forbidden' });
  });

  test.each([
    ['', ''],
    ['<html>', ''],
    ['null', ''],
    ['{"errors":[]}', ''],
    ['{"errors":[{"code":"","message":"no"}]}', ' (no)'],
    ['{"errors":[{"code":"NO"}]}', ' (NO)'],
    [JSON.stringify({ errors: [{ message: 'x'.repeat(301) }] }), ` (${'x'.repeat(300)})`],
  ])('of %s is told as far as it says something', async (body, said) => {
    registry.answers.set('/v2/', saying(404, {}, body));
    await expect(client.login()).rejects.toMatchObject({
      message: `registry ${registry.address} answered 404${said}`,
    });
  });

  test.each([
    ['the password', 'you sent p4ssw0rd', '(you sent ***)'],
    ['a header', `you sent ${basic}`, '(you sent Basic ***)'],
    ['a token', 'you sent bearer abc.def', '(you sent bearer ***)'],
    [
      'a password that lies across the end of what is quoted',
      `${'x'.repeat(296)}p4ssw0rd`,
      `(${'x'.repeat(296)}***)`,
    ],
  ])('that quotes %s does not tell it', async (_what, message, expected) => {
    registry.answers.set('/v2/', saying(403, {}, JSON.stringify({ errors: [{ message }] })));
    await expect(clientOf({ credentials: login }).login()).rejects.toThrow(expected);
  });
});

describe('a registry that is away for a moment', () => {
  test.each([408, 429, 500, 502, 503, 504])(
    'and answers %i is asked again, five times in all',
    async (status) => {
      const waited = withoutDelays();
      registry.answers.set('/v2/', inTurn(...Array<Answer>(4).fill(saying(status)), saying(200)));
      await client.login();
      expect(registry.requests).toHaveLength(5);
      expect(waited).toHaveLength(4);
      for (const [attempt, ms] of waited.entries()) expect(ms).toBeLessThanOrEqual(200 * 2 ** attempt);
      registry.answers.set('/v2/', saying(status));
      await expect(client.login()).rejects.toThrow(`answered ${status}`);
      expect(registry.requests).toHaveLength(10);
    },
  );

  test.each([
    ['7', 7_000],
    ['0', 0],
    ['3600', 30_000],
  ])('and asks for %s seconds is given them, half a minute at most', async (retryAfter, ms) => {
    const waited = withoutDelays();
    registry.answers.set('/v2/', inTurn(saying(429, { 'retry-after': retryAfter }), saying(200)));
    await client.login();
    expect(waited).toEqual([ms]);
  });

  test.each<[number, ErrorReason]>([
    [429, 'TooManyRequests'],
    [503, 'BadGateway'],
  ])('and asks to wait longer than there is time has answered: %i', async (status, reason) => {
    const failed = vi.fn();
    const words = '{"errors":[{"code":"TOOMANYREQUESTS","message":"pull rate limit"}]}';
    registry.answers.set('/v2/a/manifests/1', saying(status, { 'retry-after': '30' }, words));
    const asked = clientOf({ failed }).manifest('a', '1', { signal: withTooLittleTime() });
    await expect(asked).rejects.toMatchObject({
      reason,
      message: `registry ${registry.address} answered ${status} and asks to wait 30 s (TOOMANYREQUESTS: pull rate limit)`,
    });
    expect(failed.mock.calls).toEqual([[registry.address, reason]]);
    expect(registry.requests).toHaveLength(1);
  });

  test('and asks to wait longer than a list may take has answered', async () => {
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(withTooLittleTime());
    onTestFinished(() => timeout.mockRestore());
    registry.answers.set('/v2/a/tags/list', saying(429, { 'retry-after': '30' }));
    await expect(client.tags('a')).rejects.toMatchObject({ reason: 'TooManyRequests' });
    expect(timeout).toHaveBeenCalledWith(300_000);
  });

  test.each(['soon', '-5'])('and asks for %s is asked again as if it had not', async (retryAfter) => {
    const waited = withoutDelays();
    registry.answers.set('/v2/', inTurn(saying(429, { 'retry-after': retryAfter }), saying(200)));
    await client.login();
    expect(waited[0]).toBeLessThanOrEqual(200);
  });

  test('and drops the connection is asked again, and told of in the end', async () => {
    const waited = withoutDelays();
    registry.answers.set(
      '/v2/',
      inTurn((request) => request.socket.destroy(), saying(200)),
    );
    await client.login();
    expect(waited).toHaveLength(1);
    registry.answers.set('/v2/', (request) => request.socket.destroy());
    await expect(client.login()).rejects.toThrow(`registry ${registry.address} could not be reached`);
    expect(registry.requests).toHaveLength(7);
  });

  test('is told of once when it stays away or refuses, and not when nobody wants to know', async () => {
    withoutDelays();
    const told: string[][] = [];
    const heard = clientOf({ failed: (...what) => void told.push(what) });
    registry.answers.set('/v2/', (request) => request.socket.destroy());
    await expect(heard.login()).rejects.toThrow('could not be reached');
    registry.answers.set('/v2/', saying(403));
    await expect(heard.login()).rejects.toThrow('denied access');
    await expect(heard.login({ signal: AbortSignal.abort() })).rejects.toThrow();
    expect(told).toEqual([
      [registry.address, 'Unreachable'],
      [registry.address, 'Forbidden'],
    ]);
  });

  test.each<[string, Answer, string]>([
    ['stays away', (request) => request.socket.destroy(), 'Unreachable'],
    ['refuses', saying(403), 'Forbidden'],
    ['has no such repository, which another error says', saying(404), 'NotFound'],
  ])('that %s is known by the error', async (_what, answer, reason) => {
    withoutDelays();
    registry.answers.set('/v2/a/blobs/uploads/', answer);
    const error: unknown = await client.upload('a').catch((thrown: unknown) => thrown);
    expect(failedRequestOf(error)).toEqual({ registry: registry.address, reason });
  });

  test('that is not heard of in the time that it has is told of as one that is not reached', async () => {
    const failed = vi.fn();
    registry.answers.set('/v2/', () => undefined);
    const login = clientOf({ failed }).login({ signal: AbortSignal.timeout(20) });
    await expect(login).rejects.toThrow(RegistryUnreachable);
    expect(failed.mock.calls).toEqual([[registry.address, 'Unreachable']]);
  });

  test('that was not waited for is not known by the error, nor by those of others', async () => {
    const error: unknown = await client
      .login({ signal: AbortSignal.abort() })
      .catch((thrown: unknown) => thrown);
    expect([error, new Svc3Error('Forbidden', 'no'), 'no'].map(failedRequestOf)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('is not asked twice to begin an upload', async () => {
    withoutDelays();
    registry.answers.set('/v2/a/blobs/uploads/', saying(503));
    await expect(client.upload('a')).rejects.toThrow('answered 503');
    expect(registry.requests).toHaveLength(1);
  });

  test('and has enough is asked again when it says, whatever it is asked: it has taken nothing yet', async () => {
    const waited = withoutDelays();
    const at = '/v2/a/blobs/uploads/1';
    const enough = saying(429, { 'retry-after': '7' });
    registry.answers.set('/v2/a/blobs/uploads/', inTurn(enough, saying(202, { location: at })));
    const upload = await client.upload('a');
    const bodies: string[] = [];
    const taking: Answer = (request, response) =>
      void text(request).then((body) => {
        bodies.push(body);
        response.writeHead(202).end();
      });
    registry.answers.set(at, inTurn(enough, enough, taking));
    await upload.append(Buffer.from('xy'));
    expect([waited, bodies, upload.offset]).toEqual([[7_000, 7_000, 7_000], ['xy'], 2]);
  });

  test('and has enough of a stream is not sent the rest of it as if it were all', async () => {
    withoutDelays();
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: '/v2/a/blobs/uploads/1' }));
    registry.answers.set('/v2/a/blobs/uploads/1', (request, response) => {
      void text(request).then(() => response.writeHead(429).end());
    });
    const upload = await client.upload('a');
    await expect(upload.append(Readable.from([Buffer.from('xy')]))).rejects.toThrow('answered 429');
    expect(registry.requests).toHaveLength(2);
  });

  test('is not asked twice to take a piece that it may have taken', async () => {
    withoutDelays();
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: '/v2/a/blobs/uploads/1' }));
    registry.answers.set('/v2/a/blobs/uploads/1', saying(503));
    const upload = await client.upload('a');
    await expect(upload.append(Buffer.from('xy'))).rejects.toThrow('answered 503');
    expect(registry.requests).toHaveLength(2);
  });

  test('is asked no more when nobody wants to know', async () => {
    const wanted = new AbortController();
    registry.answers.set('/v2/', (request) => {
      wanted.abort();
      request.socket.destroy();
    });
    await expect(client.login({ signal: wanted.signal })).rejects.toThrow();
    expect(registry.requests).toHaveLength(1);
  });
});

describe('a redirect', () => {
  let elsewhere: HostileRegistry;
  beforeEach(async () => {
    elsewhere = await startHostileRegistry();
    onTestFinished(() => elsewhere.close());
    elsewhere.answers.set('/blob', saying(200, {}, 'xy'));
  });

  test.each([301, 302, 303, 307, 308])('with %i is followed, and the password stays', async (status) => {
    registry.answers.set(
      '/v2/a/blobs/d',
      (request, response) =>
        void (
          request.headers.authorization === undefined
            ? response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' })
            : response.writeHead(status, { location: `http://${elsewhere.address}/blob` })
        ).end(),
    );
    expect(await text(await clientOf({ credentials: login }).blob('a', 'd'))).toBe('xy');
    expect(registry.credentials).toEqual([basic]);
    expect(elsewhere.credentials).toEqual([]);
  });

  test('may lead to a path of the same registry', async () => {
    registry.answers.set('/v2/a/blobs/d', saying(307, { location: '../other?x=1' }));
    registry.answers.set('/v2/a/other', saying(200, {}, 'xy'));
    expect(await text(await client.blob('a', 'd'))).toBe('xy');
    expect(registry.requests.at(-1)).toBe('GET /v2/a/other?x=1');
  });

  test('is followed five times', async () => {
    registry.answers.set('/v2/', saying(307, { location: '/v2/' }));
    await expect(client.login()).rejects.toThrow(`registry ${registry.address} redirects without end`);
    expect(registry.requests).toHaveLength(6);
  });

  test.each(['ftp://x/y', 'http://', 'file:///etc/passwd'])('to %s is not followed', async (location) => {
    registry.answers.set('/v2/', saying(307, { location }));
    await expect(client.login()).rejects.toThrow(
      `registry ${registry.address} names a location that cannot be followed`,
    );
  });

  test('to who asks for a login gives none: that is between us and the registry', async () => {
    const challenge = `Bearer realm="http://${elsewhere.address}/token",service="s"`;
    elsewhere.answers.set('/blob', saying(401, { 'www-authenticate': challenge }));
    elsewhere.answers.set('/token', saying(200, {}, '{"token":"t"}'));
    registry.answers.set('/v2/a/blobs/d', saying(307, { location: `http://${elsewhere.address}/blob` }));
    const known = clientOf({ credentials: login });
    await expect(known.blob('a', 'd')).rejects.toMatchObject({ reason: 'Unauthorized' });
    expect([elsewhere.requests, elsewhere.credentials]).toEqual([['GET /blob'], []]);
    expect(registry.requests).toEqual(['GET /v2/a/blobs/d']);
  });

  test('from https leads on by https only: nobody on the way reads what is fetched', async () => {
    const { key, certificate } = createCertificate('registry');
    const server = createServer({ key, cert: certificate }, (_request, response) =>
      response.writeHead(307, { location: `http://${registry.address}/v2/a/manifests/1` }).end(),
    );
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const secure = clientOf({ registry: `127.0.0.1:${port}`, scheme: 'https', skipVerify: true });
    await expect(secure.manifest('a', '1')).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `registry 127.0.0.1:${port} redirects from https to http`,
    });
    expect(registry.requests).toEqual([]);
  });

  test('of a write is none', async () => {
    registry.answers.set(
      '/v2/a/blobs/uploads/',
      saying(307, { location: `http://${elsewhere.address}/blob` }),
    );
    await expect(client.upload('a')).rejects.toThrow('answered 307');
    expect(elsewhere.requests).toEqual([]);
  });

  test('without a location is an answer', async () => {
    registry.answers.set('/v2/', saying(307));
    await expect(client.login()).rejects.toThrow('answered 307');
  });
});

describe('a login', () => {
  const withLogin = (): RegistryClient => clientOf({ credentials: login });
  const basicOnly: Answer = ({ headers }, response) =>
    void response
      .writeHead(headers.authorization === basic ? 200 : 401, { 'www-authenticate': 'Basic realm="r"' })
      .end();

  test('is sent when it is asked for, and from then on', async () => {
    registry.answers.set('/v2/', basicOnly);
    const known = withLogin();
    expect([await known.login(), await known.login()]).toEqual([true, true]);
    expect(registry.requests).toHaveLength(3);
    expect(registry.credentials).toEqual([basic, basic]);
  });

  test('is sent with each of two requests that went without it at once', async () => {
    registry.answers.set('/v2/', basicOnly);
    const known = withLogin();
    await Promise.all([known.login(), known.login()]);
    expect(registry.requests).toHaveLength(4);
  });

  test('is asked for by 401 alone, whatever else a reply says', async () => {
    registry.answers.set('/v2/', saying(200, { 'www-authenticate': 'Basic realm="r"' }));
    expect(await withLogin().login()).toBe(false);
    expect([registry.requests, registry.credentials]).toEqual([['GET /v2/'], []]);
  });

  test('is sent with a manifest again where that was refused without it', async () => {
    registry.answers.set(
      '/v2/a/manifests/1',
      ({ headers }, response) =>
        void response
          .writeHead(headers.authorization === basic ? 201 : 401, { 'www-authenticate': 'Basic realm="r"' })
          .end(),
    );
    const bytes = Buffer.from(JSON.stringify(manifest));
    await withLogin().putManifest('a', '1', bytes, mediaTypes.ociManifest);
    expect(registry.requests).toEqual(['PUT /v2/a/manifests/1', 'PUT /v2/a/manifests/1']);
  });

  test('is sent to a registry that is spelt otherwise than URLs are', async () => {
    registry.answers.set('/v2/', basicOnly);
    const spelt = registry.address.replace('127.0.0.1', '127.1');
    await clientOf({ registry: spelt, credentials: login }).login();
    expect(registry.credentials).toEqual([basic]);
  });

  test('that is refused is not tried again', async () => {
    registry.answers.set('/v2/', saying(401, { 'www-authenticate': 'Basic realm="r"' }));
    const known = withLogin();
    await expect(known.login()).rejects.toMatchObject({ reason: 'Unauthorized' });
    expect(registry.requests).toHaveLength(2);
    await expect(known.login()).rejects.toMatchObject({ reason: 'Unauthorized' });
    expect(registry.requests).toHaveLength(3);
  });

  test('without a credential is refused at once', async () => {
    registry.answers.set('/v2/', basicOnly);
    await expect(client.login()).rejects.toMatchObject({ reason: 'Unauthorized' });
    expect(registry.requests).toHaveLength(1);
  });

  test.each(['Negotiate', 'Bearer service="s"'])(
    'that is asked for by %s is none of ours',
    async (scheme) => {
      registry.answers.set('/v2/', saying(401, { 'www-authenticate': scheme }));
      await expect(withLogin().login()).rejects.toMatchObject({ reason: 'Unauthorized' });
      expect(registry.requests).toHaveLength(1);
    },
  );

  describe('by tokens', () => {
    let issued: string[];
    let reply: (token: string) => unknown;
    beforeEach(() => {
      issued = [];
      reply = (token) => ({ token, expires_in: 300 });
      registry.answers.set('/token', (_request, response) => {
        issued.push(`t${issued.length}`);
        response.end(JSON.stringify(reply(issued.at(-1)!)));
      });
      const realm = `Bearer realm="http://${registry.address}/token",service="s"`;
      const guarded: Answer = ({ headers }, response) =>
        void (
          headers.authorization === `Bearer ${issued.at(-1)}`
            ? response.writeHead(200)
            : response.writeHead(401, { 'www-authenticate': realm })
        ).end('{}');
      registry.answers.set('/v2/', guarded).set('/v2/a/blobs/d', guarded).set('/v2/b/blobs/d', guarded);
    });

    /** An upload that may be begun with the last token only; it is not sent again by itself. */
    function guardedUploads() {
      let sent: string | undefined;
      let challenged = 0;
      registry.answers.set('/v2/a/blobs/uploads/', ({ headers }, response) => {
        sent = headers.authorization;
        if (sent === undefined) challenged += 1;
        const realm = `Bearer realm="http://${registry.address}/token",service="s"`;
        if (sent === undefined) response.writeHead(401, { 'www-authenticate': realm }).end();
        else response.writeHead(202, { location: '/v2/a/blobs/uploads/1' }).end();
      });
      return { authorization: () => sent, challenged: () => challenged };
    }

    test('asks the token service with the password and the scope, and the registry with the token', async () => {
      const known = withLogin();
      await text(await known.blob('a', 'd'));
      expect(registry.requests).toEqual([
        'GET /v2/a/blobs/d',
        'GET /token?service=s&scope=repository%3Aa%3Apull',
        'GET /v2/a/blobs/d',
      ]);
      expect(registry.credentials).toEqual([basic, 'Bearer t0']);
      // The token is kept for its scope, and for no other.
      await text(await known.blob('a', 'd'));
      expect(registry.requests).toHaveLength(4);
      await text(await known.blob('b', 'd'));
      expect(registry.requests.slice(4)).toEqual([
        'GET /token?service=s&scope=repository%3Ab%3Apull',
        'GET /v2/b/blobs/d',
      ]);
    });

    test('asks anonymously without a credential, and for no scope to log in', async () => {
      expect(await client.login()).toBe(false);
      expect(registry.requests).toEqual(['GET /v2/', 'GET /token?service=s', 'GET /v2/']);
      expect(registry.credentials).toEqual(['Bearer t0']);
    });

    test('are a login as well, also where the registry sends elsewhere once it has it', async () => {
      expect(await withLogin().login()).toBe(true);
      const [token, home] = ['/token', `http://localhost:${registry.address.split(':')[1]}/elsewhere`];
      registry.answers.set('/elsewhere', saying(200));
      registry.answers.set('/v2/', ({ headers }, response) => {
        const realm = `Bearer realm="http://${registry.address}${token}",service="s"`;
        if (headers.authorization === undefined) response.writeHead(401, { 'www-authenticate': realm }).end();
        else response.writeHead(307, { location: home }).end();
      });
      expect(await withLogin().login()).toBe(true);
    });

    test('that the registry refuses, however new, are not asked for again and again', async () => {
      const refusing = saying(401, {
        'www-authenticate': `Bearer realm="http://${registry.address}/token",service="s"`,
      });
      registry.answers.set('/v2/a/blobs/d', refusing);
      await expect(client.blob('a', 'd')).rejects.toMatchObject({ reason: 'Unauthorized' });
      expect(registry.requests).toEqual([
        'GET /v2/a/blobs/d',
        'GET /token?service=s&scope=repository%3Aa%3Apull',
        'GET /v2/a/blobs/d',
      ]);
    });

    test('takes a new token where the registry refuses the one that it has', async () => {
      const known = withLogin();
      await known.login();
      issued.push('revoked');
      await known.login();
      expect(registry.requests.slice(3)).toEqual(['GET /v2/', 'GET /token?service=s', 'GET /v2/']);
    });

    // Given up 10 s before its end, since requests take time; a short one at half of its life.
    test.each<[string, unknown, number]>([
      ['of 300 s', 300, 290],
      ['of 20 s', 20, 10],
      ['of 4 s', 4, 2],
      ['of the default life', undefined, 50],
      ['that says that it never lived', 0, 50],
      ['that says something else', 'soon', 50],
    ])('keeps a token %s for so long', async (_what, expires_in, seconds) => {
      reply = (token) => ({ token, expires_in });
      let now = 1_000_000;
      const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
      onTestFinished(() => clock.mockRestore());
      await client.login();
      now += seconds * 1_000 - 1;
      await client.login();
      expect(issued).toEqual(['t0']);
      now += 1;
      await client.login();
      expect(issued).toEqual(['t0', 't1']);
    });

    test.each([
      ['access_token', (value: string) => ({ access_token: value })],
      ['token before access_token', (value: string) => ({ token: value, access_token: 'x' })],
    ])('reads %s', async (_member, said) => {
      reply = said;
      await client.login();
      expect(registry.credentials).toEqual(['Bearer t0']);
    });

    test.each<[string, unknown]>([
      ['nothing', null],
      ['no token', {}],
      ['a token that is none', { token: 5 }],
      ['an empty token', { token: '' }],
      ['a token that would be two headers', { token: 'a\r\nb: c' }],
    ])('is the fault of a token service that sends %s', async (_what, said) => {
      reply = () => said;
      await expect(client.login()).rejects.toMatchObject({
        reason: 'BadGateway',
        message: `the token service of registry ${registry.address} sent no token`,
      });
    });

    test.each([408, 429, 500, 502, 503, 504])(
      'asks a token service that answers %i again, whatever the token is for',
      async (status) => {
        const waited = withoutDelays();
        const issue = registry.answers.get('/token')!;
        const busy = saying(status, { 'retry-after': '3' });
        registry.answers.set('/token', inTurn(busy, busy, issue));
        const { authorization, challenged } = guardedUploads();
        await client.upload('a');
        expect([waited, challenged(), authorization()]).toEqual([[3_000, 3_000], 1, 'Bearer t0']);
      },
    );

    test('asks a token service five times, and no more for each try of what the token is for', async () => {
      const waited = withoutDelays();
      registry.answers.set('/token', saying(503));
      await expect(client.login()).rejects.toMatchObject({
        reason: 'BadGateway',
        message: `the token service of registry ${registry.address} answered 503`,
      });
      expect(registry.requests.filter((request) => request.startsWith('GET /token'))).toHaveLength(5);
      for (const [attempt, ms] of waited.entries()) expect(ms).toBeLessThanOrEqual(200 * 2 ** attempt);
    });

    test('is not granted in time where the token service asks to wait longer, which is its answer', async () => {
      registry.answers.set('/token', saying(503, { 'retry-after': '30' }));
      const asked = client.blob('a', 'd', { signal: withTooLittleTime() });
      await expect(asked).rejects.toMatchObject({
        reason: 'BadGateway',
        message: `the token service of registry ${registry.address} answered 503`,
      });
    });

    test('asks no more when nobody wants the token', async () => {
      const wanted = new AbortController();
      registry.answers.set('/token', (_request, response) => {
        response.writeHead(503).end();
        wanted.abort();
      });
      await expect(client.login({ signal: wanted.signal })).rejects.toThrow(/abort/);
      expect(registry.requests).toHaveLength(2);
    });

    test('tells of a token service that drops the connection as of the registry', async () => {
      withoutDelays();
      const told: string[][] = [];
      registry.answers.set('/token', (request) => request.socket.destroy());
      const heard = clientOf({ failed: (...what) => void told.push(what) });
      await expect(heard.login()).rejects.toThrow(RegistryUnreachable);
      expect(told).toEqual([[registry.address, 'Unreachable']]);
    });

    test.each<[string, Answer, ErrorReason, string]>([
      ['refuses', saying(401), 'Unauthorized', 'refused the login'],
      ['forbids', saying(403), 'Unauthorized', 'refused the login'],
      ['is broken', saying(500), 'BadGateway', 'answered 500'],
      ['answers otherwise', saying(201), 'BadGateway', 'answered 201'],
      ['sends no JSON', saying(200, {}, '<token>'), 'BadGateway', 'sent something that is not JSON'],
      ['sends too much', saying(200, {}, ' '.repeat(65_537)), 'BadGateway', 'sent more than 65536 bytes'],
    ])('is told of a token service that %s', async (_what, answer, reason, message) => {
      withoutDelays();
      registry.answers.set('/token', answer);
      await expect(withLogin().login()).rejects.toMatchObject({
        reason,
        message: expect.stringContaining(message),
      });
    });
  });

  test.each([
    ['http', 'http', true],
    ['https', 'http', false],
    ['http', 'ftp', false],
  ] as const)('over %s goes to a token service over %s: %s', async (scheme, realm, isAsked) => {
    const authorizer = createAuthorizer({
      agent: new Agent(),
      registry: 'r',
      allowPlainRealm: scheme === 'http',
    });
    const asked = authorizer.challenge(`Bearer realm="${realm}://tokens.example.com"`, '');
    if (isAsked) expect(await asked).toBe(true);
    else await expect(asked).rejects.toThrow('names a token service that is not https');
  });
});

describe('an upload', () => {
  const at = '/v2/a/blobs/uploads/1';

  test.each<[string, number, Record<string, string>, number]>([
    ['what was sent, where the registry says nothing', 5, {}, 5],
    ['what the registry says', 5, { range: '0-2' }, 3],
    ['what the registry says in bytes', 5, { range: 'bytes=0-2' }, 3],
    ['what was sent, where the registry says nonsense', 5, { range: 'all' }, 5],
    ['nothing, where the registry says that of five', 5, { range: '0-0' }, 0],
    ['one byte, which is said as none is', 1, { range: '0-0' }, 1],
    ['no more than was sent, whatever the registry says', 5, { range: '0-5' }, 5],
  ])('has taken %s', async (_what, bytes, headers, offset) => {
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: at }));
    registry.answers.set(at, saying(202, { location: `${at}?s=2`, ...headers }));
    const upload = await client.upload('a');
    expect([upload.offset, upload.location]).toEqual([0, at]);
    await upload.append(Buffer.alloc(bytes));
    expect([upload.offset, upload.location]).toEqual([offset, `${at}?s=2`]);
  });

  test('says of each piece where it belongs', async () => {
    const ranges: unknown[] = [];
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: at }));
    registry.answers.set(at, ({ headers }, response) => {
      ranges.push([headers['content-range'], headers['content-length'], headers['content-type']]);
      response.writeHead(202).end();
    });
    const upload = await client.upload('a');
    await upload.append(Buffer.alloc(5));
    await upload.append(Buffer.alloc(3));
    expect(ranges).toEqual([
      ['0-4', '5', 'application/octet-stream'],
      ['5-7', '3', 'application/octet-stream'],
    ]);
    expect([upload.offset, upload.location]).toEqual([8, at]);
  });

  test('counts a stream whose length nobody knows', async () => {
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: at }));
    registry.answers.set(at, (request, response) => {
      void text(request).then(() => response.writeHead(202).end());
    });
    const upload = await client.upload('a');
    await upload.append(Readable.from([Buffer.alloc(5), Buffer.alloc(2)]));
    expect(upload.offset).toBe(7);
  });

  test('is asked how far it came', async () => {
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: at }));
    registry.answers.set(
      at,
      inTurn(saying(202), saying(204, { range: '0-1', location: `${at}?s=3` }), saying(204)),
    );
    const upload = await client.upload('a');
    await upload.append(Buffer.alloc(5));
    expect([await upload.resync(), upload.offset, upload.location]).toEqual([2, 2, `${at}?s=3`]);
    expect(await upload.resync()).toBe(0);
  });

  test('is given up without a word, whatever the registry says', async () => {
    withoutDelays();
    registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: at }));
    registry.answers.set(at, (request) => request.socket.destroy());
    const upload = await client.upload('a');
    await expect(upload.cancel()).resolves.toBeUndefined();
    registry.answers.set(at, saying(403));
    await expect(upload.cancel()).resolves.toBeUndefined();
  });

  test.each([204, 404, 405])(
    'that is given up, which is answered %i, is no failure of the registry',
    async (status) => {
      const failed = vi.fn();
      registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: at }));
      registry.answers.set(at, saying(status, ofRegistry));
      const upload = await clientOf({ failed }).upload('a');
      await upload.cancel();
      expect(registry.requests.at(-1)).toMatch(/^DELETE /);
      expect(failed).not.toHaveBeenCalled();
    },
  );
});

test('an upload that is given up holds nobody up where the registry says nothing', async () => {
  const timeout = vi.spyOn(AbortSignal, 'timeout');
  onTestFinished(() => timeout.mockRestore());
  registry.answers.set('/v2/a/blobs/uploads/', saying(202, { location: '/v2/a/blobs/uploads/1' }));
  registry.answers.set('/v2/a/blobs/uploads/1', () => undefined);
  const upload = await client.upload('a');
  const enough = new AbortController();
  timeout.mockReturnValueOnce(enough.signal);
  const cancelled = upload.cancel();
  await vi.waitFor(() => expect(registry.requests.at(-1)).toMatch(/^DELETE /));
  enough.abort();
  await cancelled;
  expect(timeout).toHaveBeenCalledExactlyOnceWith(5_000);
});

describe('who wants to know what is connected to', () => {
  test('is told of it before anything is sent', async () => {
    registry.answers.set('/v2/', saying(200));
    const told: unknown[] = [];
    const beforeConnect = (...each: [string, readonly string[]]): void => {
      told.push(...each, registry.requests.length);
    };
    await clientOf({ beforeConnect }).login();
    expect(told).toEqual(['127.0.0.1', ['127.0.0.1'], 0]);
  });

  test('is told the addresses of a name', async () => {
    registry.answers.set('/v2/', saying(200));
    const told: [string, readonly string[]][] = [];
    const local = registry.address.replace('127.0.0.1', 'localhost');
    await clientOf({ registry: local, beforeConnect: (...each) => told.push(each) }).login();
    expect(told.map(([host]) => host)).toEqual(['localhost']);
    expect(told[0]?.[1]).toContain('127.0.0.1');
  });

  test.each(['127.0.0.1', 'localhost'])('may forbid %s: nothing is sent', async (host) => {
    const forbidden = new Svc3Error('Forbidden', 'not there');
    const closed = clientOf({
      registry: registry.address.replace('127.0.0.1', host),
      beforeConnect: () => {
        throw forbidden;
      },
    });
    await expect(closed.login()).rejects.toBe(forbidden);
    expect(registry.requests).toEqual([]);
  });
});
