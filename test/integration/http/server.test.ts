import { once } from 'node:events';
import { constants } from 'node:http2';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { vms } from '../../../src/api/resources.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { reportVm, runningStatus, startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { exchange, rawConnection } from '../../support/websocket.ts';

let cluster: TestCluster;
let namespace: string;
let token: string;
const image = 'registry.example.com/team/debian:12';

beforeAll(async () => {
  cluster = await testCluster();
  token = cluster.adminToken;
  namespace = await uniqueNamespace(cluster.client, 'server');
});

const ns = (path: string) => `/api/v1/namespaces/${namespace}${path}`;

async function withApi<T>(
  use: (api: TestApi) => Promise<T>,
  ...options: Parameters<typeof startTestApi> extends [KubeClient, ...infer R] ? R : never
): Promise<T> {
  const api = await startTestApi(cluster.client, ...options);
  try {
    return await use(api);
  } finally {
    await api.close();
  }
}

describe('one api', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startTestApi(cluster.client, {
      runners: {
        openVnc: () => Promise.resolve(new PassThrough()),
        openSerial: () => Promise.resolve(new PassThrough()),
        openTunnel: (_vm, port) => {
          const echo = new PassThrough();
          echo.write(`port ${port}\n`);
          return Promise.resolve(echo);
        },
      },
    });
  });
  afterAll(() => api?.close());

  test('speaks HTTP/2', async () => {
    const session = api.http2();
    const stream = session.request({ ':path': '/api/v1/cluster-info' });
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    expect(headers[':status']).toBe(200);
    expect(session.alpnProtocol).toBe('h2');
    let text = '';
    for await (const chunk of stream) text += String(chunk);
    expect(JSON.parse(text)).toMatchObject({ version: '3.0.0' });
    session.close();
  });

  test('writes over HTTP/2 too, and refuses a large body there', async () => {
    const session = api.http2();
    const post = async (body: string) => {
      const stream = session.request({
        ':path': ns('/vmconfigs'),
        ':method': 'POST',
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
      });
      stream.on('error', () => undefined);
      stream.end(body);
      const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
      stream.resume();
      return headers[':status'];
    };
    expect(await post(JSON.stringify({ name: 'over-h2', image }))).toBe(201);
    expect(await post(`{"name":"${'a'.repeat(2_000_000)}"}`)).toBe(413);
    session.destroy();
  });

  test('keeps an HTTP/1.1 connection', async () => {
    const { text } = await exchange(
      api,
      'GET /api/v1/cluster-info HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/v1/cluster-info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    );
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
  });

  test('answers with the request id of the client, or one of its own', async () => {
    const own = await api.call('GET', '/api/v1/cluster-info');
    expect(own.headers['x-request-id']).toMatch(/^[\da-f-]{36}$/);
    const given = await api.call('GET', '/api/v1/cluster-info', { headers: { 'x-request-id': 'build-17' } });
    expect(given.headers['x-request-id']).toBe('build-17');
  });

  test.each([
    ['/api/v1/namespaces/%zz/vms', 400],
    ['/api/v1/namespaces/..%2f..%2fkube-system/vms', 422],
    ['/api/v1/namespaces/a%00b/vms', 422],
    ['/api/v1/namespaces/UPPER/vms', 422],
    [`/api/v1/namespaces/${'a'.repeat(3000)}/vms`, 414],
    ['/api/v1/pages/..%2f..%2f..%2fpackage.json', 404],
    ['/api/v1/novnc/..%2fpackage.json', 404],
    ['/api/v1/nothing', 404],
    ['/api/v1/../../etc/passwd', 404],
  ])('%s is refused with %i and a Status', async (path, code) => {
    const { status, json } = await exchange(
      api,
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
    );
    expect([status, json?.kind, json?.code]).toEqual([code, 'Status', code]);
  });

  test('the log has no token, query, body or address, and the metrics count per route', async () => {
    await api.call('POST', ns('/vmconfigs?secret=canary-query'), {
      token,
      body: { name: 'bad name', systemSerial: 'canary-body' },
    });
    const log = api.log.lines.join('\n');
    expect(log).toContain('"route":"createVmConfig"');
    for (const secret of ['canary', token, '127.0.0.1']) expect(log).not.toContain(secret);
    const metrics = await api.registry.metrics();
    expect(metrics).toMatch(
      /svc3_http_requests_total\{surface="v1",route="createVmConfig",method="POST",code="422"\} \d/,
    );
    expect(metrics).not.toContain(namespace);
  });

  test('a tunnel carries bytes both ways, with a token and never without', async () => {
    const vm = await cluster.client.create(vms, {
      metadata: { name: 'tunnel', namespace },
      spec: { image, powerState: 'Running' },
    });
    await reportVm(cluster.client, vm, runningStatus);
    const address = `wss://localhost:${api.port}${ns('/vms/tunnel/tunnel?port=2222')}`;
    const socket = new WebSocket(address, {
      ca: api.tls.cert,
      headers: { authorization: `Bearer ${token}` },
    });
    const received: string[] = [];
    socket.on('message', (data: Buffer) => received.push(data.toString()));
    await once(socket, 'open');
    socket.send('hello');
    await expect.poll(() => received.join('')).toBe('port 2222\nhello');
    socket.close();

    const refused = async (options: object, path = address) => {
      const other = new WebSocket(path, { ca: api.tls.cert, ...options });
      const [, response] = (await once(other, 'unexpected-response')) as [
        unknown,
        { statusCode: number; resume(): void },
      ];
      response.resume();
      other.on('error', () => undefined);
      other.terminate();
      return response.statusCode;
    };
    expect(await refused({})).toBe(401);
    expect(await refused({ headers: { authorization: 'Bearer nonsense' } })).toBe(401);
    expect(
      await refused({ headers: { authorization: `Bearer ${token}` } }, address.replace('2222', '99999')),
    ).toBe(422);
    expect(
      await refused(
        { headers: { authorization: `Bearer ${token}` } },
        address.replace('vms/tunnel/', 'vms/nothing/'),
      ),
    ).toBe(404);
  });

  test('a console ticket opens the console of its VM once', async () => {
    const ticket = await api.call('POST', ns('/vms/tunnel/console'), { token });
    expect(ticket.status).toBe(200);
    const address = `wss://localhost:${api.port}${ticket.json.path}?ticket=${ticket.json.ticket}`;
    const socket = new WebSocket(address, { ca: api.tls.cert });
    await once(socket, 'open');
    socket.close();
    for (const bad of [address, address.replace('/tunnel/console', '/other/console'), `${address}x`]) {
      const other = new WebSocket(bad, { ca: api.tls.cert });
      const [error] = (await once(other, 'error')) as [Error];
      expect(error.message).toMatch(/40[14]/);
    }
    expect(api.log.lines.join('\n')).not.toContain(ticket.json.ticket);
  });
});

describe('limits', () => {
  test('more requests of one identity than allowed get 429 with Retry-After; another identity is served', () =>
    withApi(
      async (api) => {
        const waiting = [0, 1].map((index) =>
          api.call('POST', ns('/vms'), { token, body: { name: `wait-${index}`, image } }),
        );
        await expect
          .poll(
            async () =>
              (await cluster.client.list(vms, { namespace })).items.filter(({ metadata }) =>
                metadata.name?.startsWith('wait-'),
              ).length,
          )
          .toBe(2);
        const refused = await api.call('POST', ns('/vms'), { token, body: { name: 'wait-2', image } });
        expect([refused.status, refused.headers['retry-after'], refused.json.reason]).toEqual([
          429,
          '1',
          'TooManyRequests',
        ]);
        expect((await api.call('GET', ns('/vms'), { token })).status).toBe(200);
        expect(
          (await api.call('POST', ns('/vms'), { token: 'other', body: { name: 'wait-3', image } })).status,
        ).toBe(401);
        for (const name of ['wait-0', 'wait-1']) await cluster.client.delete(vms, { name, namespace });
        expect((await Promise.all(waiting)).map((answer) => answer.status)).toEqual([504, 504]);
      },
      {},
      { longRunningPerIdentity: 2 },
    ));

  test('requests over one HTTP/2 connection count like all others', () =>
    withApi(
      async (api) => {
        const session = api.http2();
        session.on('error', () => undefined);
        const send = (path: string, body?: object) => {
          const stream = session.request({
            ':path': ns(path),
            ':method': body === undefined ? 'GET' : 'POST',
            authorization: `Bearer ${token}`,
            'content-type': 'application/json',
          });
          stream.on('error', () => undefined);
          stream.end(body === undefined ? undefined : JSON.stringify(body));
          stream.resume();
          return once(stream, 'response').then(([headers]) => headers as Record<string, unknown>);
        };
        const waiting = send('/vms', { name: 'wait-h2', image });
        await expect.poll(() => api.services.caches.vms.objects.get('wait-h2', namespace)).toBeDefined();
        const refused = await send('/vms', { name: 'wait-h2-too', image });
        expect([refused[':status'], refused['retry-after']]).toEqual([429, '1']);
        expect((await send('/vms'))[':status']).toBe(200);
        await cluster.client.delete(vms, { name: 'wait-h2', namespace });
        expect((await waiting)[':status']).toBe(504);
        session.destroy();
      },
      {},
      { longRunningPerIdentity: 1 },
    ));
});

describe('the end of a process', () => {
  test('waiting deploys are answered 202, running requests end, new connections are refused', async () => {
    const api = await startTestApi(cluster.client);
    const deploying = api.call('POST', ns('/vms'), { token, body: { name: 'drained', image } });
    await expect.poll(() => api.services.caches.vms.objects.get('drained', namespace)).toBeDefined();
    const closing = api.close(10_000);
    const { status, json, headers } = await deploying.catch(() => ({
      status: 0,
      json: undefined,
      headers: {} as Record<string, string>,
    }));
    expect([status, json?.status, headers['connection']]).toEqual([202, 'Pending', 'close']);
    await closing;
    await expect(rawConnection(api)).rejects.toThrow(/ECONNREFUSED/);
    expect((await cluster.client.get(vms, 'drained', namespace)).spec.startDeadlineSeconds).toBe(600);
    await cluster.client.delete(vms, { name: 'drained', namespace });
  });

  test('a client that hangs up removes nothing', () =>
    withApi(async (api) => {
      const gone = new AbortController();
      const deploying = api.call('POST', ns('/vms'), {
        token,
        body: { name: 'left', image },
        signal: gone.signal,
      });
      await expect.poll(() => api.services.caches.vms.objects.get('left', namespace)).toBeDefined();
      gone.abort();
      await expect(deploying).rejects.toThrow(/abort/i);
      await expect.poll(async () => api.registry.metrics()).toMatch(/route="deployVm"/);
      expect((await cluster.client.get(vms, 'left', namespace)).metadata.deletionTimestamp).toBeUndefined();
      await cluster.client.delete(vms, { name: 'left', namespace });
    }));

  test('a rolling restart under load loses no request', async () => {
    let current = await startTestApi(cluster.client);
    const results: string[] = [];
    const stop = new AbortController();
    // Each client does what clients behind a Service do: a new connection when the old one was closed, to whoever is ready.
    const load = Promise.all(
      Array.from({ length: 8 }, async () => {
        while (!stop.signal.aborted) {
          const api = current;
          const session = api.http2();
          session.on('error', () => undefined);
          for (let index = 0; index < 20; index += 1) {
            const result = await one(session, ns('/vms'));
            if (result === 'not taken') break;
            results.push(result);
          }
          session.close();
        }
      }),
    );
    for (let round = 0; round < 3; round += 1) {
      const old = current;
      current = await startTestApi(cluster.client);
      const before = results.length;
      // Of both: a client keeps its connection for 20 requests.
      await expect.poll(() => results.length).toBeGreaterThan(before + 40);
      await old.close(10_000);
    }
    stop.abort();
    await load;
    await current.close();
    expect(results.length).toBeGreaterThan(100);
    expect(results.filter((result) => result !== '200')).toEqual([]);
  });

  /** What became of a request; one that the server has certainly not begun (RFC 9113, 8.7) is sent again, as clients do. */
  async function one(session: ReturnType<TestApi['http2']>, path: string): Promise<string> {
    if (session.closed || session.destroyed) return 'not taken';
    const stream = session.request({ ':path': path, authorization: `Bearer ${token}` });
    return await new Promise((resolve) => {
      stream.once('response', (headers) => {
        stream.resume();
        stream.once('end', () => resolve(String(headers[':status'])));
      });
      stream.once('error', (error: NodeJS.ErrnoException) => {
        const refused =
          stream.rstCode === constants.NGHTTP2_REFUSED_STREAM ||
          error.code === 'ERR_HTTP2_GOAWAY_SESSION' ||
          // It was never on the wire: the connection ended before.
          error.code === 'ERR_HTTP2_STREAM_CANCEL' ||
          error.code === 'ECONNREFUSED';
        resolve(refused ? 'not taken' : `${error.code} ${stream.rstCode}`);
      });
    });
  }
});
