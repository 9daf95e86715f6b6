import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { PassThrough, Transform } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { closeCodes } from '../../../../src/net/websocket.ts';
import type { Services } from '../../../../src/http/call/services.ts';
import { createStreams } from '../../../../src/http/streams/streams.ts';
import { ConcurrencyLimit } from '../../../../src/http/auth/limits.ts';
import { aCondition, aVm } from '../../controllers/vm/builders.ts';

let server: Server;
let drain: AbortController;
let ending: AbortController;
let limit: ConcurrencyLimit;
let runner: Transform;
/** Until then the runner is not reached. */
let reached: Promise<void>;

beforeEach(async () => {
  [drain, ending] = [new AbortController(), new AbortController()];
  limit = new ConcurrencyLimit(10, 'streams');
  // A guest that says back what it is told.
  runner = new PassThrough();
  reached = Promise.resolve();
  const vm = aVm({ status: { powerState: 'Running', conditions: [aCondition('Booted')] } });
  const services = {
    caches: {
      accounts: { isDeleted: () => false, onDeleted: () => () => undefined },
      vms: { objects: { get: () => vm } },
    },
    runners: { openTunnel: () => reached.then(() => runner) },
  } as unknown as Services;
  const caller = { key: 'ann', authorize: async () => undefined, user: async () => ({ username: 'ann' }) };
  server = createServer();
  server.on(
    'upgrade',
    createStreams({
      services,
      authenticator: { caller: () => caller } as never,
      findPageCaller: () => {
        throw new Error('no page asks');
      },
      limit,
      use: () => () => undefined,
      drain: drain.signal,
      ending: ending.signal,
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(() => void server.close());

const dial = () => {
  const { port } = server.address() as AddressInfo;
  const ws = new WebSocket(`ws://127.0.0.1:${port}/api/v1/namespaces/team/vms/web/tunnel`);
  const closed = once(ws, 'close').then(([code, reason]) => [code as number, String(reason)]);
  return { ws, closed };
};

const farewell = [closeCodes.goingAway, 'this server is going away'];

test('a stream goes on while its server drains, and is told when the server ends', async () => {
  const { ws, closed } = dial();
  await once(ws, 'open');
  drain.abort();
  const heard = once(ws, 'message');
  ws.send('still here');
  expect(String((await heard)[0])).toBe('still here');
  ending.abort();
  expect(await closed).toEqual(farewell);
  await vi.waitFor(() => expect(runner.destroyed).toBe(true));
});

test('a stream whose client is held back is told as well', async () => {
  const { ws, closed } = dial();
  await once(ws, 'open');
  // Nothing is taken of the client any more.
  runner.write = () => false;
  ws.send('held back');
  await new Promise((resolve) => setTimeout(resolve, 20));
  ending.abort();
  expect(await closed).toEqual(farewell);
});

test('a stream that comes to be open only then is told at once', async () => {
  const opening = Promise.withResolvers<void>();
  reached = opening.promise;
  const { ws, closed } = dial();
  await once(server, 'upgrade');
  ending.abort();
  opening.resolve();
  await once(ws, 'open');
  expect(await closed).toEqual(farewell);
});

test('a client that is refused and does not hang up, or sends on, keeps no connection', async () => {
  drain.abort();
  const { port } = server.address() as AddressInfo;
  const taken = once(server, 'connection') as Promise<[Socket]>;
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  try {
    const [connection] = await taken;
    const closed = once(connection, 'close');
    const lines = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13'];
    socket.write(
      `GET /api/v1/namespaces/team/vms/web/tunnel HTTP/1.1\r\nHost: a\r\n${lines.join('\r\n')}\r\n\r\n`,
    );
    socket.write('x'.repeat(200_000));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(String(answer)).toMatch(/^HTTP\/1\.1 503 /);
    await closed;
  } finally {
    socket.destroy();
  }
});

test('no stream is opened while its server drains', async () => {
  drain.abort();
  await expect(dial().closed).rejects.toThrow('503');
});

test('a client that has ended has its place until its guest has taken what it sent', async () => {
  const held: (() => void)[] = [];
  runner = new Transform({ transform: (_chunk, _encoding, done) => held.push(done) });
  const { ws, closed } = dial();
  await once(ws, 'open');
  ws.send('the last word');
  ws.close();
  expect(await closed).toEqual([1005, '']);
  await vi.waitFor(() => expect(runner.writableEnded).toBe(true));
  expect(limit.total).toBe(1);
  held[0]?.();
  await vi.waitFor(() => expect(limit.total).toBe(0));
  expect(runner.writableFinished).toBe(true);
});
