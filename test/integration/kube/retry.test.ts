import { setTimeout } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { configMaps } from '../../../src/api/resources.ts';
import { isSvc3Error, Svc3Error } from '../../../src/errors.ts';
import { createClient } from '../../../src/kube/client.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import { faultCluster } from '../../support/faultcluster.ts';
import type { FaultCluster } from '../../support/faultcluster.ts';
import type { Matcher } from '../../support/faultproxy.ts';
import { startTcpProxy } from '../../support/tcpproxy.ts';

let cluster: FaultCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await faultCluster(await testCluster());
  namespace = await uniqueNamespace(cluster.client, 'kube-retry');
});

const status = (code: number, reason: string) => ({
  kind: 'Status',
  apiVersion: 'v1',
  status: 'Failure',
  code,
  reason,
  message: `${reason} by the proxy`,
});

/** Requests about one object, by a name that no other test uses. */
const about =
  (name: string, method?: string): Matcher =>
  (request) =>
    (method === undefined || request.method === method) &&
    (request.path.endsWith(`/${name}`) || request.path.endsWith('/configmaps'));

function requestsOf(name: string): number {
  return cluster.proxy.seen.filter(({ path }) => path.endsWith(`/${name}`)).length;
}

async function reasonOf(call: Promise<unknown>): Promise<string | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => (isSvc3Error(error) ? error.reason : String(error)),
  );
}

describe('a refusal that passes is tried again', () => {
  test('429 is, for a write too, and not before Retry-After', async () => {
    const { proxy, proxied } = cluster;
    proxy.inject(
      about('waiting', 'POST'),
      { kind: 'status', code: 429, headers: { 'retry-after': '1' }, body: status(429, 'TooManyRequests') },
      1,
    );
    const started = performance.now();
    await proxied.create(configMaps, { metadata: { name: 'waiting', namespace } });
    expect(performance.now() - started).toBeGreaterThanOrEqual(990);
  });

  test('503 of a read is, 503 of a write only when it says when to come back', async () => {
    const { proxy, proxied, client } = cluster;
    await client.create(configMaps, { metadata: { name: 'flaky', namespace } });
    const failing = { kind: 'status', code: 503, body: status(503, 'ServiceUnavailable') } as const;
    proxy.inject(about('flaky'), failing, 2);
    await proxied.get(configMaps, 'flaky', namespace);
    expect(requestsOf('flaky')).toBe(3);
    proxy.inject(about('flaky', 'DELETE'), failing, 1);
    expect(await reasonOf(proxied.delete(configMaps, { name: 'flaky', namespace }))).toBe(
      'ServiceUnavailable',
    );
    proxy.inject(about('flaky', 'DELETE'), { ...failing, headers: { 'retry-after': '0' } }, 1);
    await proxied.delete(configMaps, { name: 'flaky', namespace });
  });

  test('a server-side apply is, because applying twice is applying once', async () => {
    const { proxy, proxied } = cluster;
    proxy.inject(about('twice', 'PATCH'), { kind: 'cut', when: 'after' }, 1);
    const applied = await proxied.apply(configMaps, {
      metadata: { name: 'twice', namespace },
      data: { a: '1' },
    });
    expect(applied.data).toEqual({ a: '1' });
    expect(requestsOf('twice')).toBe(2);
  });

  test('one that stays is thrown in the end, as the server said it', async () => {
    const { proxy, proxied } = cluster;
    const stop = proxy.inject(about('never'), {
      kind: 'status',
      code: 500,
      body: status(500, 'InternalError'),
    });
    await expect(proxied.get(configMaps, 'never', namespace)).rejects.toThrow('InternalError by the proxy');
    stop();
  });
});

test('a create whose connection was cut after it was done is not repeated', async () => {
  const { proxy, proxied, client } = cluster;
  proxy.inject(
    ({ method, path }) => method === 'POST' && path.endsWith('/configmaps'),
    { kind: 'cut', when: 'after' },
    1,
  );
  const before = proxy.seen.length;
  expect(await reasonOf(proxied.create(configMaps, { metadata: { generateName: 'once-', namespace } }))).toBe(
    'ServiceUnavailable',
  );
  expect(proxy.seen.slice(before).filter(({ method }) => method === 'POST')).toHaveLength(1);
  const { items } = await client.list(configMaps, { namespace });
  expect(items.filter(({ metadata }) => metadata.name?.startsWith('once-'))).toHaveLength(1);
});

test('a read whose connection is cut is answered over a new one', async () => {
  const { proxy, proxied, client } = cluster;
  await client.create(configMaps, { metadata: { name: 'cutread', namespace } });
  proxy.inject(about('cutread'), { kind: 'cut', when: 'before' }, 1);
  await expect(proxied.get(configMaps, 'cutread', namespace)).resolves.toMatchObject({
    metadata: { name: 'cutread' },
  });
});

test('a slow server is waited for, one that never answers is a Timeout that names the call', async () => {
  const { proxy, proxied, client } = cluster;
  await client.create(configMaps, { metadata: { name: 'slow', namespace } });
  proxy.inject(about('slow'), { kind: 'delay', ms: 700 }, 1);
  await expect(proxied.get(configMaps, 'slow', namespace)).resolves.toBeDefined();
  proxy.inject(about('slow'), { kind: 'hang' });
  const call = proxied.request({
    method: 'GET',
    path: `/api/v1/namespaces/${namespace}/configmaps/slow`,
    timeoutMs: 400,
  });
  await expect(call).rejects.toMatchObject({ reason: 'Timeout', status: 504 });
});

test('a connection that was cut is replaced by the next call', async () => {
  const { proxy, adminToken } = cluster;
  const own = createClient({
    server: proxy.server,
    ca: { pem: proxy.caPem },
    auth: { kind: 'token', token: adminToken },
  });
  await own.request({ method: 'GET', path: '/version' });
  proxy.cutAll();
  await expect(own.request({ method: 'GET', path: '/version' })).resolves.toMatchObject({ status: 200 });
  expect(own.connections()).toEqual({ open: 1, opened: 2 });
  await own.close();
});

test('GOAWAY loses no call, and calls go on over one connection for each that was ended', async () => {
  const { proxy, adminToken } = cluster;
  const own = createClient({
    server: proxy.server,
    ca: { pem: proxy.caPem },
    auth: { kind: 'token', token: adminToken },
  });
  const before = proxy.connections().opened;
  const goaways = 5;
  proxy.inject(({ path }) => path === '/version', { kind: 'goaway' }, goaways);
  const answers = await Promise.all(
    Array.from({ length: 40 }, () => own.request({ method: 'GET', path: '/version' })),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 200));
  // As the proxy counts them: a burst of GOAWAY makes no burst of connections.
  const opened = proxy.connections().opened - before;
  expect(opened).toBeGreaterThan(1);
  expect(opened).toBeLessThanOrEqual(1 + goaways);
  expect(own.connections()).toEqual({ open: 1, opened });
  await own.close();
});

test('a reply that comes after its call was given up does no harm, nor does a cut of the connection after that', async () => {
  const { adminToken } = cluster;
  const { server, caPem } = await testCluster();
  const proxy = await startTcpProxy(server);
  const own = createClient({
    server: proxy.server,
    ca: { pem: caPem },
    auth: { kind: 'token', token: adminToken },
  });
  const version = { method: 'GET', path: '/version' } as const;
  await own.request(version);
  const replies = proxy.holdReplies();
  const givingUp = new AbortController();
  const call = reasonOf(own.request({ ...version, signal: givingUp.signal }));
  // No other frame of a server is as large.
  await expect.poll(() => replies.bytes()).toBeGreaterThan(256);
  givingUp.abort(new Svc3Error('Conflict', 'given up'));
  expect(await call).toBe('Conflict');
  replies.release();
  // What is answered over the same connection comes behind the late reply. vitest fails the file on an error that nobody catches.
  await expect(own.request(version)).resolves.toMatchObject({ status: 200 });
  expect(own.connections()).toEqual({ open: 1, opened: 1 });
  proxy.cutAll();
  await expect(own.request(version)).resolves.toMatchObject({ status: 200 });
  expect(own.connections()).toEqual({ open: 1, opened: 2 });
  await own.close();
  await proxy.close();
});

test('a call that waits long costs neither its connection nor the calls beside it', async () => {
  const { adminToken } = cluster;
  const { server, caPem } = await testCluster();
  const own = createClient(
    { server, ca: { pem: caPem }, auth: { kind: 'token', token: adminToken } },
    { suspectMs: 100 },
  );
  // A watch of one object says what it is, and is answered as a whole when its time is over.
  const waits = own.request({
    method: 'GET',
    path: '/api/v1/namespaces',
    query: { watch: true, fieldSelector: `metadata.name=${namespace}`, timeoutSeconds: 20 },
  });
  const beside = async (): Promise<number> =>
    (await own.request({ method: 'GET', path: '/version', timeoutMs: 15_000 })).status;
  await setTimeout(500);
  expect(await Promise.all([beside(), beside()])).toEqual([200, 200]);
  await expect(waits).resolves.toMatchObject({ status: 200 });
  expect(own.connections()).toEqual({ open: 1, opened: 1 });
  await own.close();
});

test('a connection that swallows everything is found out by a call that waits, and replaced', async () => {
  const { adminToken } = cluster;
  const { server, caPem } = await testCluster();
  const proxy = await startTcpProxy(server);
  const own = createClient(
    { server: proxy.server, ca: { pem: caPem }, auth: { kind: 'token', token: adminToken } },
    { suspectMs: 200 },
  );
  await own.request({ method: 'GET', path: '/version' });
  proxy.freeze();
  await expect(own.request({ method: 'GET', path: '/version' })).resolves.toMatchObject({ status: 200 });
  expect(own.connections()).toEqual({ open: 1, opened: 2 });
  await own.close();
  await proxy.close();
});
