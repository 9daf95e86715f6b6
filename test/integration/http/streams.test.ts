import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { PassThrough, type Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { reportVm, runningStatus, startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { carried, exchange, frame, handshake, rawConnection, reset } from '../../support/websocket.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
let authorization: string;
/** Streams to runners that are open. */
const open = new Set<Duplex>();

/** A guest that says back what it is told. */
function echo(): Promise<Duplex> {
  const stream = new PassThrough();
  open.add(stream);
  stream.once('close', () => open.delete(stream));
  return Promise.resolve(stream);
}

/** Other bytes in every run; with the seed in the title of a test the same ones. */
const seed = Number(process.env['SVC3_FUZZ_SEED'] ?? randomInt(2 ** 31));
const runners = { openVnc: echo, openSerial: echo, openTunnel: echo };
const timeouts = { timeout: 60_000, interval: 50 };
const pathOf = (rest: string) => `/api/v1/namespaces/${namespace}/vms/${rest}`;

async function aVm(name: string): Promise<void> {
  const vm = await cluster.client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });
  await reportVm(cluster.client, vm, runningStatus);
}

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'streams');
  authorization = `Bearer ${cluster.adminToken}`;
  await aVm('guest');
  api = await startTestApi(cluster.client, { runners });
});

afterAll(() => api?.close());

/** A stream that is open, with what the server sends on it. */
async function opened(to = api): Promise<{ socket: TLSSocket; received: () => Buffer }> {
  const socket = await rawConnection(to);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.write(handshake(pathOf('guest/tunnel'), { Authorization: authorization }));
  const received = () => {
    const all = Buffer.concat(chunks);
    return all.subarray(all.indexOf('\r\n\r\n') + 4);
  };
  const text = () => Buffer.concat(chunks).toString('latin1');
  await vi.waitFor(() => expect(text()).toContain('\r\n\r\n'), timeouts);
  // At once, so that who asks again need not wait for what does not come.
  expect(text()).toMatch(/^HTTP\/1\.1 101 /);
  return { socket, received };
}

function answerPings(socket: TLSSocket, onPing: () => unknown = () => undefined): void {
  socket.on('data', (chunk: Buffer) => {
    if (chunk[0] !== 0x89) return;
    onPing();
    socket.write(frame(10));
  });
}

async function goneAfter(write: (socket: TLSSocket) => unknown): Promise<void> {
  const { socket } = await opened();
  expect(open.size).toBe(1);
  const closed = once(socket, 'close');
  write(socket);
  await closed;
  await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
}

describe('who opens a stream', () => {
  const tunnel = 'guest/tunnel';
  test.each([
    ['without a token', tunnel, { Authorization: undefined }, 401, undefined],
    ['with another scheme', tunnel, { Authorization: 'Basic eDp5' }, 401, undefined],
    ['with a token of control characters', tunnel, { Authorization: 'Bearer a\tb' }, 401, undefined],
    ['without a key', tunnel, { 'Sec-WebSocket-Key': undefined }, 400, 'Sec-WebSocket-Key'],
    ['with a short key', tunnel, { 'Sec-WebSocket-Key': 'AAAA' }, 400, 'Sec-WebSocket-Key'],
    ['with another version', tunnel, { 'Sec-WebSocket-Version': '7' }, 400, 'Sec-WebSocket-Version'],
    ['as something else than a WebSocket', tunnel, { Upgrade: 'h2c' }, 400, 'Upgrade'],
    ['of a port that is none', `${tunnel}?port=65536`, {}, 422, 'port'],
    ['of a port in words', `${tunnel}?port=ssh`, {}, 422, 'port'],
    ['with a ticket that is too long', `${tunnel}?ticket=${'a'.repeat(5000)}`, {}, 422, 'ticket'],
    ['with a ticket of nothing', `${tunnel}?ticket=`, {}, 401, undefined],
    ['with a ticket of dots', `${tunnel}?ticket=....`, {}, 401, undefined],
    ['of a VM with an encoded slash', 'gu%2fest/tunnel', {}, 422, 'vm'],
    ['of a VM with an encoded NUL', 'guest%00/tunnel', {}, 422, 'vm'],
    ['of a VM that is half encoded', 'guest%zz/tunnel', {}, 422, 'vm'],
    ['of a VM that does not exist', 'never/tunnel', {}, 404, undefined],
    ['with a method that opens nothing', tunnel, { method: 'POST' }, 405, undefined],
  ] as const)('%s is refused', async (_, path, headers, status, field) => {
    const connection = { Connection: 'Upgrade, close', Authorization: authorization };
    const answer = await exchange(api, handshake(pathOf(path), { ...connection, ...headers }));
    expect([answer.status, answer.json?.kind, answer.json?.code], answer.text).toEqual([
      status,
      'Status',
      status,
    ]);
    expect(answer.json.details.causes?.[0]?.field).toBe(field);
    expect(open.size).toBe(0);
  });

  test('may ask an ordinary path to upgrade: it is answered as if there were no such request', async () => {
    for (const [upgrade, method] of [
      ['h2c', 'GET'],
      ['websocket', 'GET'],
      ['TLS/1.0', 'GET'],
    ] as const) {
      const head = handshake('/api/v1/cluster-info', {
        method,
        Upgrade: upgrade,
        Connection: 'Upgrade, close',
      });
      expect((await exchange(api, head)).status, upgrade).toBe(200);
    }
    const write = handshake(`/api/v1/namespaces/${namespace}/vmconfigs`, {
      method: 'POST',
      Connection: 'Upgrade, close',
      Authorization: authorization,
      'Content-Type': 'application/json',
      'Content-Length': '14',
    });
    expect(await exchange(api, `${write}{"name":"Bad"}`)).toMatchObject({ status: 422 });
  });

  test('gets no second request into the server behind an upgrade', async () => {
    const smuggled = `GET /api/v1/cluster-info HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    for (const [headers, status] of [
      [{}, 101],
      [{ 'Content-Length': String(smuggled.length) }, 400],
      [{ 'Content-Length': '0' }, 101],
      [{ 'Transfer-Encoding': 'chunked' }, 400],
      [{ 'Content-Length': '1', 'Transfer-Encoding': 'chunked' }, 400],
    ] as const) {
      const head = handshake(pathOf('guest/tunnel'), { Authorization: authorization, ...headers });
      const answer = await exchange(api, head + smuggled);
      expect([answer.status, answer.text.match(/HTTP\/1\.1 \d/g)?.length], answer.text).toEqual([status, 1]);
    }
    await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
  });

  test('and leaves at once takes no place of others', async () => {
    const narrow = await startTestApi(cluster.client, { runners }, { longRunningPerIdentity: 2 });
    try {
      for (let round = 0; round < 20; round += 1) {
        const socket = await rawConnection(narrow);
        socket.write(handshake(pathOf('guest/tunnel'), { Authorization: authorization }));
        if (round % 2 === 0) reset(socket);
        else socket.destroySoon();
      }
      await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
      const { socket } = await vi.waitFor(() => opened(narrow), timeouts);
      socket.destroy();
      await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
    } finally {
      await narrow.close();
    }
  });
});

test('more streams than one identity may have are refused with a time to come again', async () => {
  const narrow = await startTestApi(cluster.client, { runners }, { longRunningPerIdentity: 2 });
  try {
    const streams = [await opened(narrow), await opened(narrow)];
    const head = handshake(pathOf('guest/tunnel'), { Authorization: authorization });
    const refused = await exchange(narrow, head);
    expect([refused.status, refused.json.reason]).toEqual([429, 'TooManyRequests']);
    expect(refused.text).toContain('\r\nRetry-After: 1\r\n');
    streams[0]?.socket.destroy();
    const again = await vi.waitFor(() => opened(narrow), timeouts);
    for (const { socket } of [...streams, again]) socket.destroy();
    await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
  } finally {
    await narrow.close();
  }
});

describe('an open stream', () => {
  const binary = 2;
  // On both sides of where the length is written in another way.
  test.each([0, 1, 125, 126, 65_535, 65_536, 1_000_000])(
    'carries %d bytes both ways as they are',
    async (size) => {
      const { socket, received } = await opened();
      const sent = Buffer.concat([Buffer.from('hello'), randomBytes(size)]);
      socket.write(frame(binary, sent.subarray(0, 5)));
      await vi.waitFor(() => expect(carried(received()).toString('latin1')).toBe('hello'), timeouts);
      socket.write(frame(binary, sent.subarray(5)));
      await vi.waitFor(() => expect(carried(received()).length).toBe(sent.length), timeouts);
      expect(carried(received()).equals(sent)).toBe(true);
      socket.destroy();
      await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
    },
  );

  test.each([
    ['a reserved opcode', frame(3, 'x')],
    ['a reserved control opcode', frame(11, 'x')],
    ['bits that no extension has agreed on', frame(binary, 'x', { rsv: 4 })],
    ['a frame without a mask', frame(binary, 'x', { masked: false })],
    ['a continuation of nothing', frame(0, 'x')],
    ['a new message in the middle of one', Buffer.concat([frame(1, 'a', { fin: false }), frame(1, 'b')])],
    ['a ping in pieces', frame(9, 'x', { fin: false })],
    ['a ping that is too long', frame(9, 'x'.repeat(126))],
    ['text that is not UTF-8', frame(1, Buffer.from([0xff, 0xfe]))],
    ['a close code that is none', frame(8, Buffer.from([0, 1]))],
    ['half a close code', frame(8, Buffer.from([3]))],
    ['a message over 16 MiB', frame(binary, '', { length: 16n * 1024n * 1024n + 1n })],
    ['a message of 2^53 bytes', frame(binary, '', { length: 2n ** 53n })],
    ['a message with a negative length', frame(binary, '', { length: 2n ** 63n })],
    ['a second handshake', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ['a close', frame(8, Buffer.from([3, 232]))],
  ])('ends with %s, and so does what it leads to', async (_, bytes) => {
    await goneAfter((socket) => socket.write(bytes));
  });

  test('many pieces that would be too long together end it too', async () => {
    const piece = Buffer.alloc(4 * 1024 * 1024);
    await goneAfter((socket) => {
      socket.write(frame(binary, piece, { fin: false }));
      for (let index = 0; index < 5; index += 1) socket.write(frame(0, piece, { fin: false }));
    });
  });

  test.each([
    ['closes its half only', (socket: TLSSocket) => socket.end()],
    ['resets', reset],
    ['goes in the middle of a frame', (socket: TLSSocket) => socket.end(frame(binary, 'x').subarray(0, 3))],
  ])('ends when the client %s', (_, leave) => goneAfter(leave));

  test('ends when the guest ends its side', async () => {
    const { socket } = await opened();
    const closed = once(socket, 'close');
    for (const stream of open) stream.end();
    await closed;
    await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
  });

  test.each<[string, (stream: Duplex) => unknown, string]>([
    ['ends where the guest does, with no code', (stream) => stream.end(), ''],
    [
      'that is cut behind the api says where',
      (stream) => stream.destroy(new Svc3Error('BadGateway', 'the session has lasted long enough')),
      '1014 the session has lasted long enough',
    ],
    [
      'that breaks behind the api says where',
      (stream) => stream.destroy(new Error('of no interest')),
      "1014 the connection to the VM's runner was cut",
    ],
    [
      'that is gone behind the api says where',
      (stream) => stream.destroy(),
      "1014 the connection to the VM's runner was cut",
    ],
  ])('%s', async (_, act, words) => {
    const { socket, received } = await opened();
    for (const stream of open) act(stream);
    await vi.waitFor(() => expect(received().length).toBeGreaterThan(1), timeouts);
    const [first, length = 0] = received();
    const payload = received().subarray(2, 2 + length);
    const code = length < 2 ? '' : `${payload.readUInt16BE(0)} ${payload.subarray(2).toString()}`;
    expect([first, code]).toEqual([0x88, words]);
    socket.destroy();
    await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
  });

  test('goes on while the server drains, and is told a second before it is cut', async () => {
    const ending = await startTestApi(cluster.client, { runners });
    const { socket, received } = await opened(ending);
    const closed = once(socket, 'close');
    const closing = ending.close(6_000);
    await vi.waitFor(() => expect(ending.api.http.drain.aborted).toBe(true), timeouts);
    socket.write(frame(binary, 'still here'));
    await vi.waitFor(() => expect(received().toString()).toContain('still here'), timeouts);
    const farewell = Buffer.concat([Buffer.from([3, 233]), Buffer.from('this server is going away')]);
    await vi.waitFor(() => expect(received().includes(farewell)).toBe(true), timeouts);
    socket.write(frame(8, Buffer.from([3, 233])));
    await closed;
    await closing;
    await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
  });

  test('ends when its client is silent, not when it is only idle', async () => {
    const asking = await startTestApi(cluster.client, { runners }, { pingEveryMs: 5_000 });
    try {
      const { socket: silent } = await opened(asking);
      await once(silent, 'close');
      const { socket: idle } = await opened(asking);
      let pings = 0;
      answerPings(idle, () => (pings += 1));
      await vi.waitFor(() => expect(pings).toBeGreaterThan(1), timeouts);
      expect(open.size).toBe(1);
      idle.destroy();
      await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
    } finally {
      await asking.close();
    }
  });

  test(`SVC3_FUZZ_SEED=${seed}: of somebody else goes on while others send any bytes`, async () => {
    const { socket: steady, received } = await opened();
    answerPings(steady);
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
            fc
              .tuple(fc.nat(15), fc.uint8Array({ maxLength: 200 }), fc.boolean(), fc.nat(7), fc.boolean())
              .map(([opcode, bytes, fin, rsv, masked]) =>
                frame(opcode, Buffer.from(bytes), { fin, rsv: rsv === 0 ? 1 : 0, masked }),
              ),
          ),
          { minLength: 1, maxLength: 4 },
        ),
        async (writes) => {
          const { socket } = await opened();
          const closed = once(socket, 'close');
          for (const bytes of writes) socket.write(bytes);
          socket.end();
          await closed;
        },
      ),
      { numRuns: 60, seed },
    );
    await vi.waitFor(() => expect(open.size).toBe(1), timeouts);
    steady.write(frame(binary, 'still here'));
    await vi.waitFor(() => expect(received().toString('latin1')).toContain('still here'), timeouts);
    steady.destroy();
    expect(api.log.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    await vi.waitFor(() => expect(open.size).toBe(0), timeouts);
  });
});
