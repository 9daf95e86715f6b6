import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { PassThrough } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { runningVm, startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { answerOf, frame, handshake, rawConnection } from '../../support/websocket.ts';

let cluster: TestCluster;
let namespace: string;
let token: string;
const info = '/api/v1/cluster-info';

beforeAll(async () => {
  cluster = await testCluster();
  token = cluster.adminToken;
  namespace = await uniqueNamespace(cluster.client, 'slowclients');
});

const ns = (path: string) => `/api/v1/namespaces/${namespace}${path}`;

/** Writes a piece every 50 ms until the connection or stream is gone. */
function drip(stream: { readonly writable: boolean; write(text: string): boolean }, text: string): void {
  const timer = setInterval(() => stream.writable && stream.write(text), 50);
  onTestFinished(() => clearInterval(timer));
}

async function textUntilEnd(socket: TLSSocket): Promise<string> {
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  socket.on('error', () => undefined);
  if (!socket.destroyed) await once(socket, 'close');
  return text;
}

async function expectServed(api: TestApi): Promise<void> {
  expect((await api.call('GET', ns('/vms'), { token })).status).toBe(200);
  const session = api.http2();
  const stream = session.request({ ':path': info });
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
  expect(headers[':status']).toBe(200);
  session.destroy();
}

describe('a thousand connections', () => {
  let api: TestApi;
  beforeAll(async () => {
    // Longer than a slow machine takes for the handshakes.
    api = await startTestApi(cluster.client, {}, { headersTimeoutMs: 600_000 });
  });
  afterAll(() => api?.close());

  test('over which nothing comes do not keep others out', async () => {
    const sockets = Array.from({ length: 1000 }, () =>
      connectTcp(api.port, '127.0.0.1').on('error', () => undefined),
    );
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    await expectServed(api);
  });

  test('over which nothing comes after the TLS handshake do not keep others out', async () => {
    const sockets: TLSSocket[] = [];
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    for (let index = 0; index < 1000; index += 50) {
      const batch = Array.from({ length: 50 }, (_, each) => idleTls(api, each % 2 === 0 ? 'h2' : 'http/1.1'));
      sockets.push(...(await Promise.all(batch)));
    }
    await expectServed(api);
    expect(sockets.filter((socket) => socket.destroyed)).toEqual([]);
  });
});

/** A connection over which nothing comes after the TLS handshake. */
function idleTls(
  { port, tls }: TestApi,
  protocol: 'h2' | 'http/1.1',
  localAddress = '127.0.0.1',
): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, localAddress, servername: 'localhost', ca: tls.cert };
    const socket = connectTls({ ...options, ALPNProtocols: [protocol] }, () => resolve(socket));
    socket.on('error', reject);
    // So that the end of it is read.
    socket.resume();
  });
}

describe('more connections that nobody uses than a process takes', () => {
  const most = 100;
  let api: TestApi;
  beforeAll(async () => {
    const openTunnel = () => Promise.resolve(new PassThrough());
    const runners = { openVnc: openTunnel, openSerial: openTunnel, openTunnel };
    api = await startTestApi(
      cluster.client,
      { runners },
      { unusedConnections: most, headersTimeoutMs: 600_000 },
    );
    await runningVm(api, namespace, 'guest');
  });
  afterAll(() => api?.close());

  /** Idle connections of one address, one after the other. */
  async function idle(count: number): Promise<TLSSocket[]> {
    const sockets: TLSSocket[] = [];
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    while (sockets.length < count)
      sockets.push(await idleTls(api, sockets.length % 4 === 0 ? 'http/1.1' : 'h2'));
    return sockets;
  }

  test('cost the address that has most of them its oldest, and nobody a request, a stream or the only one', async () => {
    const elsewhere = await idleTls(api, 'h2', '127.0.0.2');
    onTestFinished(() => void elsewhere.destroy());
    const stream = await rawConnection(api);
    onTestFinished(() => void stream.destroy());
    stream.write(handshake(ns('/vms/guest/tunnel'), { Authorization: `Bearer ${token}` }));
    expect(String(((await once(stream, 'data')) as [Buffer])[0])).toMatch(/^HTTP\/1\.1 101 /);
    const session = api.http2();
    onTestFinished(() => session.destroy());
    const request = session.request({
      ':path': ns('/vmconfigs'),
      ':method': 'POST',
      authorization: `Bearer ${token}`,
    });
    request.write('{"name":"slow",');
    await expect.poll(() => inFlight(api)).toBe(1);

    const sockets = await idle(3 * most);
    const closed = () => sockets.filter((socket) => socket.destroyed).length;
    // One is from elsewhere.
    await expect.poll(closed).toBe(2 * most + 1);
    expect(sockets.findLastIndex((socket) => socket.destroyed)).toBe(2 * most);
    expect(elsewhere.destroyed).toBe(false);
    stream.write(frame(2, 'x'));
    expect(((await once(stream, 'data')) as [Buffer])[0].length).toBeGreaterThan(0);
    request.end('"image":"r.example.com/a:1"}');
    const [headers] = (await once(request, 'response')) as [Record<string, unknown>];
    expect(headers[':status']).toBe(201);
    await expectServed(api);
  });

  test('are told which of their requests were taken, so that a client sends the others elsewhere', async () => {
    const session = api.http2();
    onTestFinished(() => session.destroy());
    await once(session, 'connect');
    const told = once(session, 'goaway');
    await idle(most + 1);
    expect((await told).slice(0, 2)).toEqual([0, 0]);
  });

  test('do not stay for having asked for a stream without a token', async () => {
    const sockets: TLSSocket[] = [];
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    for (let count = 0; count < most + 20; count += 1) {
      const socket = await rawConnection(api);
      sockets.push(socket);
      socket.write(handshake(ns('/vms/guest/tunnel'), {}));
      expect(String(((await once(socket, 'data')) as [Buffer])[0])).toMatch(/^HTTP\/1\.1 401 /);
    }
    await expect.poll(() => sockets.filter((socket) => socket.destroyed).length).toBeGreaterThanOrEqual(20);
    await expectServed(api);
  });

  test('cost those that were in use nothing, as long as there are others', async () => {
    const session = api.http2();
    onTestFinished(() => session.destroy());
    const asked = async () => {
      const stream = session.request({ ':path': ns('/vms'), authorization: `Bearer ${token}` });
      const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
      stream.resume();
      return headers[':status'];
    };
    expect(await asked()).toBe(200);
    const sockets = await idle(2 * most);
    await expect.poll(() => sockets.filter((socket) => socket.destroyed).length).toBeGreaterThan(most);
    expect(await asked()).toBe(200);
  });
});

async function inFlight({ registry }: TestApi): Promise<number> {
  const [value] = (await registry.getSingleMetric('svc3_http_requests_in_flight')!.get()).values;
  return value?.value ?? 0;
}

test('headers that come too slowly end the connection, others are served meanwhile', async () => {
  // The others have no longer either, from their handshake on.
  const api = await startTestApi(cluster.client, {}, { headersTimeoutMs: 5_000 });
  onTestFinished(() => api.close());
  const socket = await rawConnection(api);
  socket.write(`GET ${info} HTTP/1.1\r\nHost: localhost\r\n`);
  drip(socket, 'X-Slow: 1\r\n');
  const said = textUntilEnd(socket);
  await expectServed(api);
  expect(await said).toMatch(/^HTTP\/1\.1 408/);
});

describe('a body that never ends', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startTestApi(cluster.client, {}, { bodyTimeoutMs: 500 });
  });
  afterAll(() => api?.close());

  const message = 'body: was not received within 0.5 seconds';
  const refusal = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason: 'BadRequest',
    details: { causes: [{ field: 'body', message }] },
    code: 400,
  };
  const head = (...lines: string[]) =>
    [
      `POST ${ns('/vmconfigs')} HTTP/1.1`,
      'Host: localhost',
      `Authorization: Bearer ${token}`,
      'Content-Type: application/json',
      ...lines,
      '',
      '',
    ].join('\r\n');

  test.each([
    ['stops before its length', 'Content-Length: 100', '{"name":', undefined],
    ['stops before its last chunk', 'Transfer-Encoding: chunked', '8\r\n{"name":\r\n', undefined],
    ['does not begin', 'Content-Length: 100', '', undefined],
    ['comes byte by byte', 'Content-Length: 100000', '{"name":"', 'a'],
    ['comes chunk by chunk', 'Transfer-Encoding: chunked', '9\r\n{"name":"\r\n', '1\r\na\r\n'],
  ])('and %s is refused, and ends its connection', async (_, header, begin, more) => {
    const socket = await rawConnection(api);
    socket.write(head(header) + begin);
    if (more !== undefined) drip(socket, more);
    const said = textUntilEnd(socket);
    await expectServed(api);
    const { status, text, json } = answerOf(await said);
    expect([status, json]).toEqual([400, refusal]);
    expect(text).toMatch(/^connection: close\r$/im);
  });

  test('over HTTP/2 is refused, and its connection goes on', async () => {
    const session = api.http2();
    onTestFinished(() => session.destroy());
    const stream = session.request({
      ':path': ns('/vmconfigs'),
      ':method': 'POST',
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
    });
    stream.on('error', () => undefined);
    stream.write('{"name":"');
    drip(stream, 'a');
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    let text = '';
    for await (const chunk of stream) text += String(chunk);
    expect([headers[':status'], JSON.parse(text)]).toEqual([400, refusal]);
    const next = session.request({ ':path': info });
    const [after] = (await once(next, 'response')) as [Record<string, unknown>];
    expect(after[':status']).toBe(200);
  });
});
