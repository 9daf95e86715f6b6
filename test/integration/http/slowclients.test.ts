import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { answerOf, rawConnection } from '../../support/websocket.ts';

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

  function idleTls({ port, tls }: TestApi, protocol: 'h2' | 'http/1.1'): Promise<TLSSocket> {
    return new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port, servername: 'localhost', ca: tls.cert };
      const socket = connectTls({ ...options, ALPNProtocols: [protocol] }, () => resolve(socket));
      socket.on('error', reject);
    });
  }
});

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
