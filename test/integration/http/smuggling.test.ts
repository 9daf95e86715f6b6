import { once } from 'node:events';
import { constants } from 'node:http2';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, type TestCluster } from '../../support/cluster.ts';
import { answerOf, exchange } from '../../support/websocket.ts';

let cluster: TestCluster;
let api: TestApi;

beforeAll(async () => {
  cluster = await testCluster();
  api = await startTestApi(cluster.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
});

afterAll(() => api?.close());

const info = '/api/v1/cluster-info';
const hidden = `GET ${info} HTTP/1.1\r\nHost: localhost\r\nX-Hidden: 1\r\n\r\n`;
const head = (...lines: string[]) =>
  [`POST ${info} HTTP/1.1`, 'Host: localhost', ...lines, '', ''].join('\r\n');
const answers = (text: string) => text.match(/HTTP\/1\.1 \d{3}/g) ?? [];

describe('a request that two servers could read in two ways', () => {
  test.each([
    ['has a length and chunks', head('Content-Length: 5', 'Transfer-Encoding: chunked') + '0\r\n\r\n'],
    ['has chunks and a length', head('Transfer-Encoding: chunked', 'Content-Length: 5') + '0\r\n\r\n'],
    ['has two lengths', head('Content-Length: 5', 'Content-Length: 6') + 'hello'],
    ['has two equal lengths', head('Content-Length: 5', 'Content-Length: 5') + 'hello'],
    ['has a list of lengths', head('Content-Length: 5, 5') + 'hello'],
    ['has a length with a sign', head('Content-Length: +5') + 'hello'],
    ['has a negative length', head('Content-Length: -1')],
    ['has a length in hexadecimal', head('Content-Length: 0x5') + 'hello'],
    ['has a length that is too long', head(`Content-Length: ${'9'.repeat(30)}`)],
    ['has chunks and something after them', head('Transfer-Encoding: chunked, identity')],
    ['has another encoding', head('Transfer-Encoding: xchunked')],
    ['has chunks twice', head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked, gzip')],
    ['has a space before the colon', head('Content-Length : 5') + 'hello'],
    ['has a tab before the colon', head('Transfer-Encoding\t: chunked')],
    ['has a line that goes on', head('X: a', ' Transfer-Encoding: chunked')],
    ['has a carriage return in a value', head('X: a\rContent-Length: 5')],
    ['has a NUL in a value', head('X: a\0b')],
    ['has a name with a slash', head('X/Y: a')],
    ['has a header without a name', head(': a')],
    ['has a chunk with a sign', head('Transfer-Encoding: chunked') + '+5\r\nhello\r\n0\r\n\r\n'],
    ['has a chunk that is no number', head('Transfer-Encoding: chunked') + 'zz\r\n'],
    ['has a chunk that is too long', head('Transfer-Encoding: chunked') + `${'f'.repeat(20)}\r\n`],
    ['has a chunk that ends too late', head('Transfer-Encoding: chunked') + '1\r\nhello\r\n0\r\n\r\n'],
    ['is of another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
    ['is of another version', `GET ${info} HTTP/3.0\r\nHost: localhost\r\n\r\n`],
    ['has a method in small letters', `get ${info} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    ['has a method that nobody knows', `SMUGGLE ${info} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    ['begins as HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['has a header block that is too large', head(`X: ${'a'.repeat(40_000)}`)],
  ])('is refused when it %s, and nothing behind it is read', async (_, bytes) => {
    const { text } = await exchange(api, Buffer.from(bytes + hidden, 'latin1'));
    const [refusal = '', ...further] = answers(text);
    expect([refusal, further], text.slice(0, 500)).toEqual([expect.stringMatching(/ 4\d\d$/), []]);
    const { kind, code } = JSON.parse(text.slice(text.indexOf('\r\n\r\n')));
    expect([kind, code]).toEqual(['Status', Number(refusal.slice(-3))]);
  });

  test('is refused when it has no host', async () => {
    const { status, text } = await exchange(api, `GET ${info} HTTP/1.1\r\n\r\n${hidden}`);
    expect([status, answers(text).length]).toEqual([400, 1]);
  });

  test('and body that belongs to nobody is not taken for a request', async () => {
    // GET has no body here: its bytes are read away, and only the request behind them is answered.
    const withBody = `GET ${info} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`;
    const last = `GET /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
    const { text } = await exchange(api, withBody + last);
    expect(answers(text)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404']);
  });

  test('and a foreign address in it chooses nothing', async () => {
    const foreign = `GET https://evil.example.com${info} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;
    const { status, text } = await exchange(api, foreign);
    expect(status).toBeLessThan(500);
    expect(text).not.toContain('evil.example.com');
    const host = `GET ${info} HTTP/1.1\r\nHost: "><script>\r\nConnection: close\r\n\r\n`;
    expect((await exchange(api, host)).text).not.toContain('script');
  });
});

const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/);
const value = fc.oneof(
  fc.stringMatching(/^[\x20-\x7e]{0,60}$/),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  fc.constantFrom('a'.repeat(5000), '-1', 'null', '../..', '${x}', '\u00e4', '*/*;q=9', 'Bearer', '1e9'),
);
const known = fc.constantFrom(
  'Accept',
  'Authorization',
  'Connection',
  'Content-Length',
  'Content-Type',
  'Cookie',
  'Expect',
  'Host',
  'If-None-Match',
  'Origin',
  'Range',
  'Sec-WebSocket-Key',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
  'X-Remote-User',
  'X-Request-Id',
  'X-Svc3-Namespace',
);
const paths = fc.constantFrom(
  info,
  '/api/v1/namespaces/default/vms',
  '/api/v1/namespaces/default/vms/x/tunnel',
  '/api/v1/namespaces/default/vms/x/console/stream',
  '/resources/vm/list',
  '/resources/vm/create',
  '/users',
  '/apis/api.svc3.dev/v1',
  '*',
  '//',
  '/%',
  '/api/v1/namespaces/%2e%2e/vms',
);

/** What every run has, so that each kind of answer is among them. */
const plain: readonly Sent[] = [
  { method: 'GET', path: info, headers: [], isKnown: false },
  { method: 'GET', path: info, headers: [['Content-Length', '-1']], isKnown: false },
  { method: 'GET', path: '/api/v1/namespaces/default/vms', headers: [], isKnown: false },
  { method: 'GET', path: '//', headers: [], isKnown: true },
  { method: 'DELETE', path: info, headers: [], isKnown: true },
  { method: 'POST', path: '/resources/vm/create', headers: [['Content-Length', '7']], isKnown: true },
  {
    method: 'POST',
    path: '/resources/vm/create',
    headers: [['Transfer-Encoding', 'chunked']],
    isKnown: true,
  },
];

/** Others in every run; a failure tells it, and `SVC3_FUZZ_SEED` repeats it. */
const seed = Number(process.env['SVC3_FUZZ_SEED'] ?? Date.now() % 2 ** 31);
const requested = 400;
const interim = /^HTTP\/1\.1 1\d\d /;
/** Long enough for any machine: whoever is not answered by then is not answered. */
const replyTimeoutMs = 60_000;

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly isKnown: boolean;
}

const valuesOf = ({ headers }: Sent, wanted: string): string[] =>
  headers.filter(([name]) => name.toLowerCase() === wanted).map(([, text]) => text.trim());

/** The body that headers promise: without it a server waits, as it must. More than this is refused unread. */
function promised(sent: Sent): string {
  if (valuesOf(sent, 'transfer-encoding').includes('chunked')) return '0\r\n\r\n';
  const length = valuesOf(sent, 'content-length').find((text) => /^\d+$/.test(text)) ?? '0';
  return 'x'.repeat(Math.min(Number(length), 10_000));
}

function bytesOf(sent: Sent): Buffer {
  const { method, path, headers, isKnown } = sent;
  const lines = [
    'Host: localhost',
    ...headers.map(([name, text]) => `${name}: ${text}`),
    ...(isKnown ? [`Authorization: Bearer ${cluster.adminToken}`] : []),
    'Connection: close',
  ];
  return Buffer.from(
    `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${promised(sent)}`,
    'latin1',
  );
}

/**
 * Whether the text is one answer that any client reads: each line of its head a header, its body as long as it says, and a refusal in the
 * words of an API surface.
 */
function isWellFormed({ method }: Sent, text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  const [head, body] = [text.slice(0, end), text.slice(end + 4)];
  const [, ...lines] = head.split('\r\n');
  if (lines.some((line) => !/^[\w-]+: [\x20-\x7e]*$/.test(line))) return false;
  const { status, json } = answerOf(text);
  // Node's own, of an expectation that nobody can meet.
  if (status === 417) return body === '' || body === '0\r\n\r\n';
  if (method === 'HEAD' && body === '') return true;
  const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
  const isRefusal = (json?.kind === 'Status' && json.code === status) || Array.isArray(json?.errors);
  return body.length === length && (status < 400 || isRefusal);
}

test(`${requested} requests with any headers: each gets one well-formed answer that is no 5xx, CONNECT perhaps none, and its connection ends`, async () => {
  const statuses = new Map<number, number>();
  const unanswered: string[] = [];
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        method: fc.constantFrom('GET', 'POST', 'DELETE', 'PUT', 'OPTIONS', 'HEAD', 'TRACE', 'CONNECT'),
        path: paths,
        headers: fc.array(fc.tuple(fc.oneof(known, token), value), { maxLength: 8 }),
        isKnown: fc.boolean(),
      }),
      async (sent) => {
        const bytes = bytesOf(sent);
        const open = new Promise<'open'>((resolve) => setTimeout(resolve, replyTimeoutMs, 'open').unref());
        const answer = await Promise.race([exchange(api, bytes), open]);
        const told = bytes.toString('latin1');
        if (answer === 'open') throw new Error(`nobody ended the connection of ${told}`);
        const { text } = answer;
        if (text === '') {
          unanswered.push(told);
          return;
        }
        const whole = text.split(/(?=HTTP\/1\.1 \d{3} )/).filter((each) => !interim.test(each));
        const [first = '', ...further] = whole;
        const { status } = answerOf(first);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const seen = [status < 500, whole.every((each) => isWellFormed(sent, each)), further.length];
        expect(seen, `${told}\n${text}`).toEqual([true, true, 0]);
      },
    ),
    { numRuns: requested, seed, endOnFailure: true, examples: plain.map((sent) => [sent]) },
  );
  const answered = [...statuses.values()].reduce((sum, count) => sum + count, 0);
  expect(answered + unanswered.length, `seed ${seed}`).toBe(requested);
  expect(
    unanswered.filter((text) => !text.startsWith('CONNECT ')),
    `seed ${seed}`,
  ).toEqual([]);
  expect([...statuses.keys()], `seed ${seed}`).toEqual(expect.arrayContaining([200, 400, 401, 404, 405]));
});

describe('over HTTP/2', () => {
  const list = '/api/v1/namespaces/default/vms';
  test.each([
    ['a token that is none', { ':path': list, authorization: 'Bearer \u00e9' }, 401],
    ['two tokens in one', { ':path': list, authorization: 'Bearer a, Bearer b' }, 401],
    ['a host of another place', { ':path': info, host: 'evil.example.com' }, 200],
    ['a path that climbs', { ':path': '/api/v1/../../etc/passwd' }, 404],
    ['a path of another place', { ':path': 'https://evil.example.com/' }, 'reset'],
    ['a path that is none', { ':path': 'api' }, 'reset'],
  ])('%s is answered or reset, never by 5xx, and the next caller is served', async (_, headers, expected) => {
    const session = api.http2();
    session.on('error', () => undefined);
    const outcome = await new Promise<unknown>((resolve) => {
      const stream = session.request(headers);
      stream.once('response', (answer) => resolve(answer[':status']));
      stream.once('error', () => resolve('reset'));
    });
    session.destroy();
    expect(outcome).toBe(expected);
    expect((await api.call('GET', info)).status).toBe(200);
  });

  test('streams that are reset as soon as they are opened keep nobody else from being served', async () => {
    const session = api.http2();
    session.on('error', () => undefined);
    for (let index = 0; index < 2_000 && !session.destroyed; index += 1) {
      const stream = session.request({ ':path': '/api/v1/namespaces/default/vms' });
      stream.on('error', () => undefined);
      stream.close(constants.NGHTTP2_CANCEL);
      if (index % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await api.call('GET', info)).status).toBe(200);
    const closed = session.destroyed ? undefined : once(session, 'close');
    session.destroy();
    await closed;
    expect((await api.call('GET', info)).status).toBe(200);
    expect(api.log.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });
});
