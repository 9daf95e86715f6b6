import { once } from 'node:events';
import { connect } from 'node:tls';
import { Readable } from 'node:stream';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import * as z from 'zod';
import { createGateway } from '../../../../src/http/legacy/gateway.ts';
import { statusRefusal } from '../../../../src/http/call/apisurface.ts';
import { selfSigned } from '../../../../src/http/server/certificate.ts';
import { createHttpMetrics } from '../../../../src/http/server/metrics.ts';
import type { Reply, Route } from '../../../../src/http/call/route.ts';
import { createServer, type HttpServer } from '../../../../src/http/server/server.ts';
import { createServingTls } from '../../../../src/http/server/tls.ts';

const handler = vi.fn<() => Reply | Promise<Reply>>();
const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
let http: HttpServer;
let port: number;

function aRoute(method: Route['method'], path: string, bodyKind: Route['bodyKind'] = 'none'): Route {
  return {
    id: `${method} ${path}`,
    tag: '',
    method,
    path,
    summary: '',
    params: z.looseObject({}),
    query: z.looseObject({}),
    body: z.unknown(),
    bodyKind,
    replies: {},
    permission: { kind: 'open' },
    handler,
  };
}

beforeAll(async () => {
  const caller = () => Promise.reject(new Error('nobody is asked'));
  http = createServer({
    services: { log } as never,
    metrics: createHttpMetrics(new Registry()),
    tls: createServingTls({ pair: await selfSigned(['localhost']) }),
    surfaces: [
      {
        surface: { name: 'v1', caller, refusal: statusRefusal },
        routes: [
          aRoute('GET', '/api/v1/info'),
          aRoute('DELETE', '/api/v1/info'),
          aRoute('POST', '/api/v1/vms', 'json'),
        ],
      },
      createGateway({ caller }, [], 'default'),
    ],
  });
  ({ port } = await http.listen({ host: '127.0.0.1', port: 0 }));
});

afterAll(() => http?.close(0));

/** All that comes until the server ends the connection. */
async function exchange(...pieces: string[]): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] });
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
  for (const piece of pieces) socket.write(piece);
  await once(socket, 'close');
  return text;
}

const head = (method: string, path: string, ...lines: string[]) =>
  [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...lines, '', ''].join('\r\n');
const behind = head('GET', '/api/v1/info', 'X-Behind: 1');
const statuses = (text: string) => text.match(/HTTP\/1\.1 \d{3}/g)?.map((line) => Number(line.slice(-3)));
const bodyOf = (text: string) => JSON.parse(text.slice(text.lastIndexOf('\r\n\r\n'))) as unknown;

describe('a body whose end nobody is sure of', () => {
  const codings = [
    ['an unknown coding', 'Transfer-Encoding: xchunked'],
    ['a coding that is not read here', 'Transfer-Encoding: gzip'],
    ['chunks of such a coding', 'Transfer-Encoding: gzip, chunked'],
    ['chunks that are not the last coding', 'Transfer-Encoding: chunked, identity'],
    ['chunks twice', 'Transfer-Encoding: chunked, chunked'],
    ['chunks and a length', 'Transfer-Encoding: chunked', 'Content-Length: 5'],
    ['a length and chunks', 'Content-Length: 5', 'Transfer-Encoding: chunked'],
  ] as const;
  const places = [
    ['GET', '/api/v1/info'],
    ['DELETE', '/api/v1/info'],
    ['POST', '/api/v1/vms'],
    ['PUT', '/api/v1/info'],
    ['POST', '/api/v1/nothing'],
    ['POST', '/api/v1/%'],
    ['POST', '/resources/nothing'],
    ['POST', '/resources/%'],
  ] as const;
  test.each(
    codings.flatMap(([what, ...lines]) =>
      places.map(([method, path]) => [what, `${method} ${path}`, head(method, path, ...lines)] as const),
    ),
  )('of %s: %s gets one answer, and its connection ends', async (_what, _place, bytes) => {
    handler.mockReset();
    const text = await exchange(`${bytes}0\r\n\r\n`, behind);
    expect(statuses(text), text).toEqual([400]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(handler).not.toHaveBeenCalled();
  });

  test.each(['Expect: nothing', 'Expect: 100-continue'])('with %s gets one answer, too', async (line) => {
    const text = await exchange(head('POST', '/api/v1/info', line, 'Transfer-Encoding: xchunked'), behind);
    const [last, ...others] = (statuses(text) ?? []).toReversed();
    expect([400, 417]).toContain(last);
    expect(others.filter((status) => status !== 100)).toEqual([]);
  });

  test('of chunks is read', async () => {
    handler.mockReset().mockReturnValue({ body: {} });
    const lines = ['Transfer-Encoding: Chunked', 'Connection: close'];
    const text = await exchange(head('POST', '/api/v1/vms', ...lines) + '2\r\n{}\r\n0\r\n\r\n');
    expect(statuses(text), text).toEqual([200]);
  });
});

describe('what is no HTTP', () => {
  test('is refused with a Status', async () => {
    const text = await exchange('SSH-2.0-OpenSSH_9.2\r\n\r\n');
    expect(statuses(text)).toEqual([400]);
    expect(bodyOf(text)).toMatchObject({ kind: 'Status', code: 400 });
  });

  test('behind a request is refused once that is answered, and not within its answer', async () => {
    let go: () => void = () => undefined;
    const going = new Promise<void>((resolve) => (go = resolve));
    handler.mockReset().mockImplementation(() => ({
      stream: Readable.from(
        (async function* () {
          yield 'begin ';
          await going;
          yield 'end';
        })(),
      ),
    }));
    const answered = exchange(behind, 'no HTTP\r\n\r\n', 'nor this\r\n\r\n');
    await vi.waitFor(() => expect(handler).toHaveBeenCalled());
    setTimeout(go, 200);
    const text = await answered;
    expect(statuses(text), text).toEqual([200, 400]);
    expect(text.indexOf('end')).toBeLessThan(text.indexOf('HTTP/1.1 400'));
  });

  test('in the chunks of a request is its one answer', async () => {
    handler.mockReset();
    const text = await exchange(head('POST', '/api/v1/vms', 'Transfer-Encoding: chunked') + 'zz\r\n', behind);
    expect(statuses(text), text).toEqual([400]);
    expect(handler).not.toHaveBeenCalled();
  });
});

describe('a path that is none', () => {
  const close = 'Connection: close';
  test.each([
    ['/api/v1/%', 400, 'path: is not percent-encoded UTF-8'],
    [`/api/v1/${'a'.repeat(2000)}`, 404, 'the server could not find the requested resource'],
    ['/apis/%', 400, 'path: is not percent-encoded UTF-8'],
  ])('%s is refused with a Status', async (path, code, message) => {
    const text = await exchange(head('GET', path, close));
    expect(statuses(text)).toEqual([code]);
    expect(bodyOf(text)).toMatchObject({ kind: 'Status', code, message });
  });

  test.each([
    ['GET', '/resources/%'],
    ['DELETE', '/resources/vm/delete/%E0%A4%A'],
    ['GET', '/users/%zz'],
    ['GET', '/logs/%'],
  ])('%s %s of 2.4.x is refused in its envelope', async (method, path) => {
    const text = await exchange(head(method, path, close));
    expect(statuses(text)).toEqual([400]);
    const errors = [{ message: 'path: is not percent-encoded UTF-8' }];
    expect(bodyOf(text)).toEqual({ message: '', help: {}, errors });
    expect(text).toMatch(/^cache-control: no-store\r$/im);
  });

  test.each(['gzip, chunked', 'gzip'])(
    'of 2.4.x whose body is %s is refused in its envelope, too',
    async (coding) => {
      const text = await exchange(head('POST', '/resources/nothing', `Transfer-Encoding: ${coding}`));
      const errors = [{ message: 'Transfer-Encoding: must be chunked' }];
      expect(bodyOf(text)).toEqual({ message: '', help: {}, errors });
    },
  );
});
