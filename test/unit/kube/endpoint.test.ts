import { once } from 'node:events';
import {
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { createClient, type ClientOptions } from '../../../src/kube/client.ts';
import { type CertificatePair, createAuthority } from '../../../src/x509.ts';

/*
 * On a server of this process that does with connections what kube-apiserver does. What the real one makes of the same calls:
 * test/integration/kube/retry.test.ts.
 */

let caPem: string;
let pair: CertificatePair;

beforeAll(async () => {
  const authority = await createAuthority('endpoint');
  caPem = authority.certPem;
  pair = await authority.issue({ commonName: 'server', hosts: ['localhost'], usages: ['server'] });
});

/** As Go's server ends a connection: what is under way on it is answered. */
function goAway(session: ServerHttp2Session | undefined): void {
  session?.goaway();
  session?.close();
}

/**
 * Answers all but `/held…`, and of `/begun` only the beginning; ends the connection of a request without a token, and of one for
 * `/goaway`, with GOAWAY. What comes after `/last` on its connection is handed back.
 */
async function startServer() {
  const server = createSecureServer({ cert: pair.certPem, key: pair.keyPem });
  const sessions = new Set<ServerHttp2Session>();
  const held: ServerHttp2Stream[] = [];
  const seen = { pings: 0, anonymous: 0, paths: [] as string[] };
  /** Sessions on which nothing is answered any more. */
  const unanswered = new Set<ServerHttp2Stream['session']>();
  const begin = (stream: ServerHttp2Stream): void => {
    stream.respond({ ':status': 200, 'content-type': 'application/json' });
    stream.write('{');
  };
  const handBackAfter = (stream: ServerHttp2Stream): void => {
    const { session, id } = stream;
    unanswered.add(session);
    stream.once('close', () => setImmediate(() => session?.goaway(0, id)));
    answer(stream);
  };
  const answer = (stream: ServerHttp2Stream): void => {
    if (stream.destroyed) return;
    stream.respond({ ':status': 200, 'content-type': 'application/json' });
    stream.end('{}');
  };
  server.on('session', (session) => {
    sessions.add(session);
    session.on('ping', () => {
      seen.pings += 1;
    });
    session.on('close', () => sessions.delete(session));
    session.on('error', () => undefined);
  });
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders & { ':path'?: string }) => {
    const path = headers[':path'] ?? '';
    seen.paths.push(path);
    stream.on('error', () => undefined);
    if (headers.authorization === undefined) seen.anonymous += 1;
    if (headers.authorization === undefined || path === '/goaway')
      goAway(stream.session as ServerHttp2Session | undefined);
    if (path.startsWith('/held')) held.push(stream);
    else if (path === '/begun') begin(stream);
    else if (path === '/last') handBackAfter(stream);
    else if (!unanswered.has(stream.session)) answer(stream);
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  onTestFinished(async () => {
    for (const session of sessions) session.destroy();
    server.close();
    await once(server, 'close');
  });
  return {
    origin: `https://localhost:${(server.address() as AddressInfo).port}`,
    seen,
    letGo: () => held.splice(0).forEach(answer),
    /** Ends every connection with GOAWAY. */
    goawayAll: () => sessions.forEach(goAway),
  };
}

type Server = Awaited<ReturnType<typeof startServer>>;

function clientOf(server: Pick<Server, 'origin'>, options: ClientOptions = {}) {
  const client = createClient(
    { server: server.origin, ca: { pem: caPem }, auth: { kind: 'token', token: 'own' } },
    options,
  );
  onTestFinished(() => client.close());
  return {
    client,
    get: (path: string) => client.request({ method: 'GET', path, timeoutMs: 10_000 }),
    post: (path: string) => client.request({ method: 'POST', path, body: {}, timeoutMs: 10_000 }),
  };
}

const ok = { status: 200 };

test('a call that waits long has its connection asked with a PING, which costs no connection', async () => {
  const server = await startServer();
  const { client, get } = clientOf(server, { suspectMs: 50 });
  const waits = get('/held');
  await expect.poll(() => server.seen.pings + server.seen.anonymous).toBeGreaterThan(0);
  await expect(get('/beside')).resolves.toMatchObject(ok);
  server.letGo();
  await expect(waits).resolves.toMatchObject(ok);
  expect(server.seen).toMatchObject({ anonymous: 0, paths: ['/held', '/beside'] });
  expect(client.connections()).toEqual({ open: 1, opened: 1 });
});

test('a call that is held on a connection that got GOAWAY holds up no other for longer than a moment', async () => {
  const server = await startServer();
  const { client, get, post } = clientOf(server);
  const held = post('/held').catch((error: unknown) => error);
  await expect.poll(() => server.seen.paths).toEqual(['/held']);
  await get('/goaway');
  const started = performance.now();
  await expect(get('/next')).resolves.toMatchObject(ok);
  expect(performance.now() - started).toBeLessThan(5_000);
  // It may have been carried out: only its caller knows whether to ask for it again.
  expect(await held).toMatchObject({ reason: 'ServiceUnavailable' });
  expect(server.seen.paths).toEqual(['/held', '/goaway', '/next']);
  expect(client.connections()).toEqual({ open: 1, opened: 2 });
});

test('a reply that has begun, and is cut since another call waits, does not pass as complete', async () => {
  const server = await startServer();
  const { client, get, post } = clientOf(server);
  const { body } = await client.stream({ method: 'GET', path: '/begun' });
  const text = Array.fromAsync(body).catch((error: unknown) => error);
  const half = post('/begun').catch((error: unknown) => error);
  await expect.poll(() => server.seen.paths).toEqual(['/begun', '/begun']);
  await get('/goaway');
  await expect(get('/next')).resolves.toMatchObject(ok);
  const cut = { reason: 'ServiceUnavailable', message: expect.stringContaining('replaced by another') };
  expect(await text).toMatchObject(cut);
  expect(await half).toMatchObject(cut);
});

test('calls that are handed back at GOAWAY are sent once more, also beside a watch that moves', async () => {
  const server = await startServer();
  const { client, get, post } = clientOf(server);
  await get('/first');
  const last = get('/last');
  const watch = client.stream({ method: 'GET', path: '/watch', movable: true }).catch(() => undefined);
  const made = ['/made-1', '/made-2'].map(post);
  await expect(last).resolves.toMatchObject(ok);
  await expect(Promise.all(made)).resolves.toMatchObject([ok, ok]);
  await watch;
});

test('a call that is held on a connection that got GOAWAY comes to its end where no other waits', async () => {
  const server = await startServer();
  const { client, get, post } = clientOf(server);
  const held = post('/held');
  await expect.poll(() => server.seen.paths).toEqual(['/held']);
  await get('/goaway');
  server.letGo();
  await expect(held).resolves.toMatchObject(ok);
  await expect(get('/next')).resolves.toMatchObject(ok);
  expect(client.connections()).toEqual({ open: 1, opened: 2 });
});

test('calls that were not sent before GOAWAY are sent once over the next connection, the only one', async () => {
  const server = await startServer();
  const { client, get, post } = clientOf(server);
  const held = get('/held').catch((error: unknown) => error);
  await expect.poll(() => server.seen.paths).toEqual(['/held']);
  server.goawayAll();
  const names = Array.from({ length: 200 }, (_, index) => `/made-${index}`);
  const answers = await Promise.all(names.map(post));
  expect(answers.map(({ status }) => status)).toEqual(names.map(() => 200));
  expect(server.seen.paths.filter((path) => path.startsWith('/made')).sort()).toEqual(names.toSorted());
  server.letGo();
  await expect.poll(() => server.seen.paths.filter((path) => path === '/held')).toHaveLength(2);
  server.letGo();
  await expect(held).resolves.toMatchObject(ok);
  expect(client.connections()).toEqual({ open: 1, opened: 2 });
});

test('a client that is closed while a replaced connection has calls leaves no connection', async () => {
  const server = await startServer();
  const { client, get, post } = clientOf(server);
  const held = post('/held').catch((error: unknown) => error);
  await expect.poll(() => server.seen.paths).toEqual(['/held']);
  await get('/goaway');
  await client.close();
  expect(await held).toMatchObject({ reason: 'ServiceUnavailable' });
  await expect.poll(() => client.connections().open).toBe(0);
});

test('every call to a server that turns out to speak HTTP/1.1, and ends connections, is answered', async () => {
  let count = 0;
  const server = createServer({ cert: pair.certPem, key: pair.keyPem }, (_, response) => {
    count += 1;
    if (count % 5 === 0) response.setHeader('connection', 'close');
    response.setHeader('content-type', 'application/json');
    setTimeout(() => response.end('{}'), (count * 7) % 40);
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { get } = clientOf({ origin: `https://localhost:${(server.address() as AddressInfo).port}` });
  const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => get(`/asked-${index}`)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
});
