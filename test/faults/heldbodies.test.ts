import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createAggregatedSurface } from '../../src/http/aggregated/surface.ts';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { createDelegatedAuthorizer } from '../../src/http/auth/delegated.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { heapInUse } from '../support/heap.ts';
import { identity } from '../support/identity.ts';
import { rawHttp2 } from '../support/rawhttp2.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { answerOf, rawConnection, type RawAnswer } from '../support/websocket.ts';

const megabyte = 1024 * 1024;
const poll = { interval: 50 };
let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'heldbodies');
  api = await startTestApi(cluster.client, {}, (services) => ({
    bodyBytes: { perProcess: 6 * megabyte, perIdentity: 4 * megabyte },
    surfaces: (authenticator) => [
      createGateway(authenticator, rows, services.settings.defaultNamespace),
      createAggregatedSurface(
        () => undefined,
        createDelegatedAuthorizer(services.client, services.caches.accounts),
      ),
    ],
  }));
});

afterAll(() => api?.close());

interface Held {
  readonly socket: TLSSocket;
  answer(): RawAnswer | undefined;
}

interface HoldOptions {
  /** Bytes of the whole body; default 1 MiB. */
  readonly bytes?: number;
  readonly address?: string;
  readonly headers?: readonly string[];
}

/** A request whose body lacks its last byte. */
async function hold(path: string, token: string, options: HoldOptions = {}): Promise<Held> {
  const { bytes = megabyte, address, headers = [] } = options;
  const socket = await rawConnection(api, address);
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${token}`,
    'Content-Type: application/json',
    `Content-Length: ${bytes}`,
    'X-Svc3-Namespace: ' + namespace,
    ...headers,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n{"name":"${'a'.repeat(bytes - 10)}`);
  return { socket, answer: () => (text.includes('\r\n\r\n') ? answerOf(text) : undefined) };
}

/** Statuses of those that were answered, the whole body or not; 0: still held. */
const statuses = (held: readonly Held[]): number[] => held.map((each) => each.answer()?.status ?? 0);

async function heldBytes(): Promise<number> {
  const [value] = (await api.registry.getSingleMetric('svc3_http_request_body_bytes')!.get()).values;
  return value?.value ?? 0;
}

const configs = () => `/api/v1/namespaces/${namespace}/vmconfigs`;

describe('100 bodies of 1 MB that never end', () => {
  test('from somebody without the right are refused before they are read', async () => {
    const token = await identity(cluster.client, 'nobody', { namespace });
    const held = await Promise.all(Array.from({ length: 100 }, () => hold(configs(), token)));
    await expect.poll(() => new Set(statuses(held)), poll).toEqual(new Set([403]));
    expect(held[0]?.answer()?.json).toMatchObject({ kind: 'Status', reason: 'Forbidden', code: 403 });
    expect(await heldBytes()).toBe(0);
  });

  test.each([
    ['/api/v1', () => configs()],
    ['the 2.4.x API', () => '/resources/vm/deploy'],
    ['the aggregated API', () => `/apis/api.svc3.dev/v1/namespaces/${namespace}/vms/x/exec`],
  ])('with a token that is none take no memory of %s', async (_, path) => {
    const held = await Promise.all(
      Array.from({ length: 20 }, (__, index) => hold(path(), `made-up-${index}`)),
    );
    await expect
      .poll(() => statuses(held).filter((status) => status !== 401 && status !== 429), poll)
      .toEqual([]);
    expect(await heldBytes()).toBe(0);
  });

  test('from one identity hold what it may, whatever token it uses, and others are served', async () => {
    const role = { namespace, role: 'cluster-admin' };
    const token = await identity(cluster.client, 'hoarder', role);
    await expect
      .poll(
        async () =>
          (await api.call('POST', configs(), { token, body: { name: 'a', image: 'r.example.com/a:1' } }))
            .status,
        poll,
      )
      .toBe(201);
    const other = await identity(cluster.client, 'worker', role);
    const known = async () => (await api.call('GET', configs(), { token: other })).status;
    await expect.poll(known, poll).toBe(200);
    const held = await Promise.all(Array.from({ length: 100 }, () => hold(configs(), token)));
    await expect.poll(() => statuses(held).filter((status) => status === 429).length, poll).toBe(96);
    const refused = held.find((each) => each.answer()?.status === 429);
    expect(refused?.answer()?.text).toMatch(/^retry-after: 1\r$/im);
    expect(refused?.answer()?.json).toMatchObject({
      reason: 'TooManyRequests',
      message: expect.stringContaining('request bodies of this identity hold 4194304 bytes'),
    });
    expect(await heldBytes()).toBeLessThanOrEqual(4 * megabyte);
    expect(await heldBytes()).toBeGreaterThan(3 * megabyte);

    const made = await api.call('POST', configs(), {
      token: other,
      body: { name: 'b', image: 'r.example.com/a:1' },
    });
    expect([made.status, made.text]).toEqual([201, expect.anything()]);

    // Both hold half of what there is.
    const more = await Promise.all(Array.from({ length: 4 }, () => hold(configs(), other)));
    await expect.poll(() => statuses(more).filter((status) => status === 503).length, poll).toBe(1);
    await expect.poll(() => statuses(held).filter((status) => status === 429).length, poll).toBe(97);
    expect(statuses(more).filter((status) => status === 0)).toHaveLength(3);
    expect(await heldBytes()).toBeLessThanOrEqual(6 * megabyte);

    for (const { socket } of [...held, ...more]) socket.destroy();
    await expect.poll(heldBytes, poll).toBe(0);
  });

  test('of requests that need no right are held for four identities without one, and others are served', async () => {
    const names = ['first', 'second', 'third', 'fourth'];
    const tokens = await Promise.all(names.map((name) => identity(cluster.client, name, { namespace })));
    const held: Held[] = [];
    for (const token of tokens)
      held.push(...(await Promise.all(Array.from({ length: 4 }, () => hold('/resources/vm/deploy', token)))));
    await expect.poll(() => statuses(held).filter((status) => status !== 0).length, poll).toBeGreaterThan(8);
    await expect.poll(heldBytes, poll).toBeGreaterThan(4 * megabyte);
    await expectMade('c');
    // As large as a body may be.
    const metadata = { note: 'a'.repeat(megabyte - 1024) };
    const large = await api.call('POST', configs(), { token: cluster.adminToken, body: { metadata } });
    expect(large.status).toBe(422);
    for (const { socket } of held) socket.destroy();
    await expect.poll(heldBytes, poll).toBe(0);
  });
});

const origin = ['Origin: https://localhost', 'Sec-Fetch-Site: same-origin'];

/** A body of who has the right is taken. */
async function expectMade(name: string): Promise<void> {
  const body = { name, image: 'r.example.com/a:1' };
  const { status, text } = await api.call('POST', configs(), { token: cluster.adminToken, body });
  expect([status, text]).toEqual([201, expect.anything()]);
}

describe('sign-ins that never end, from four addresses without a token', () => {
  const fromAll = async (count: number, options: HoldOptions): Promise<Held[]> => {
    const addresses = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4'];
    const holding = addresses.flatMap((address) =>
      Array.from({ length: count }, () => hold('/ui/session', '', { ...options, address })),
    );
    return Promise.all(holding);
  };

  test('are refused before they are read where they say that they are large, or come of no page', async () => {
    const large = await fromAll(16, { headers: origin });
    await expect.poll(() => new Set(statuses(large)), poll).toEqual(new Set([413]));
    const foreign = await fromAll(16, { bytes: 1024 });
    await expect.poll(() => new Set(statuses(foreign)), poll).toEqual(new Set([403]));
    expect(await heldBytes()).toBe(0);
  });

  test('hold what is for such bodies alone, and sign-ins from elsewhere are served', async () => {
    const held = await fromAll(50, { bytes: 32 * 1024, headers: origin });
    await expect.poll(() => statuses(held).filter((status) => status !== 0).length, poll).toBeGreaterThan(60);
    expect(await heldBytes()).toBeGreaterThan(3 * megabyte);
    expect(await heldBytes()).toBeLessThanOrEqual(4 * megabyte);
    await expectMade('d');
    const elsewhere = await hold('/ui/session', '', { bytes: 2048, headers: origin, address: '127.0.0.5' });
    elsewhere.socket.write('"');
    await expect.poll(() => elsewhere.answer()?.status, poll).toBe(400);
    for (const { socket } of held) socket.destroy();
    await expect.poll(heldBytes, poll).toBe(0);
  });
});

/** Bytes that have come over all connections of an api. */
function countReceived({ api: { http } }: TestApi): () => number {
  const sockets: TLSSocket[] = [];
  http.server.on('secureConnection', (socket: TLSSocket) => sockets.push(socket));
  return () => sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
}

/** Deploys over the 2.4.x API, whose bodies are read of everybody with a token, of 1 MiB less a byte each. */
const inPieces = {
  'chunks of HTTP/1.1': async (to: TestApi, count: number, token: string): Promise<number> => {
    const head = [
      'POST /resources/vm/deploy HTTP/1.1',
      'Host: localhost',
      `Authorization: Bearer ${token}`,
      'Transfer-Encoding: chunked',
      '',
      '',
    ];
    const chunks = Buffer.from('8\r\naaaaaaaa\r\n'.repeat(megabyte / 8 - 1));
    for (let each = 0; each < count; each += 1) {
      const socket = await rawConnection(to);
      onTestFinished(() => void socket.destroy());
      socket.on('error', () => undefined);
      socket.write(head.join('\r\n'));
      socket.write(chunks);
    }
    return count * chunks.length;
  },
  'frames of HTTP/2': async (to: TestApi, count: number, token: string): Promise<number> => {
    const connection = await rawHttp2(to);
    onTestFinished(() => void connection.socket.destroy());
    const frames = megabyte / 8 - 1;
    const sent = Array.from({ length: count }, (_, index) => {
      const stream = 2 * index + 1;
      connection.post(stream, '/resources/vm/deploy', token);
      return connection.send(stream, Buffer.alloc(8, 'a'), frames);
    });
    await Promise.all(sent);
    return count * frames * (9 + 8);
  },
} as const;

test.each(['chunks of HTTP/1.1', 'frames of HTTP/2'] as const)(
  'bodies in %s of 8 bytes take the memory of their bytes',
  async (kind) => {
    const usual = await startTestApi(cluster.client, {}, ({ settings }) => ({
      surfaces: (authenticator) => [createGateway(authenticator, rows, settings.defaultNamespace)],
    }));
    onTestFinished(() => usual.close());
    const received = countReceived(usual);
    const before = heapInUse();
    const bytes = await inPieces[kind](usual, 4, cluster.adminToken);
    await expect.poll(received, poll).toBeGreaterThanOrEqual(bytes);
    expect(heapInUse() - before).toBeLessThan(32 * megabyte);
    const headers = { origin: usual.baseUrl, 'sec-fetch-site': 'same-origin' };
    const signedIn = await usual.call('POST', '/ui/session', { body: { token: 'nonsense' }, headers });
    expect(signedIn.status).toBe(401);
  },
);

test('a body that is too large is refused with 413 and holds nothing', async () => {
  const { status } = await api.call('POST', configs(), {
    token: cluster.adminToken,
    raw: Buffer.alloc(2 * megabyte, 'a'),
    headers: { 'content-type': 'application/json' },
  });
  expect(status).toBe(413);
  await expect.poll(heldBytes, poll).toBe(0);
});
