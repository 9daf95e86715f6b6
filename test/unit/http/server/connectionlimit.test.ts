import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { type ConnectionLimit, limitConnections } from '../../../../src/http/server/connectionlimit.ts';

let server: Server;
let limit: ConnectionLimit;
/** Requests of known callers, with what says that they are over. */
let running: { readonly reply: ServerResponse; readonly leave: () => void }[];

beforeEach(async () => {
  running = [];
  server = createServer((request, reply) => {
    if (request.headers.authorization === undefined) reply.end('served');
    else running.push({ reply, leave: limit.use(request) });
  });
  limit = limitConnections(server as unknown as Http2SecureServer, 3);
  // Without TLS a connection is as far as one with it once its handshake is over.
  server.on('connection', (socket) => server.emit('secureConnection', socket));
  server.on('upgrade', (request, socket: Socket) => {
    if (request.headers.authorization !== undefined) limit.use(request);
    socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
});

/** One that the server has taken. */
async function connection(localAddress = '127.0.0.1'): Promise<Socket> {
  const taken = once(server, 'connection');
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  socket.resume();
  await Promise.all([taken, once(socket, 'connect')]);
  return socket;
}

async function using(socket: Socket): Promise<() => void> {
  const before = running.length;
  socket.write('GET / HTTP/1.1\r\nHost: a\r\nAuthorization: me\r\n\r\n');
  await vi.waitFor(() => expect(running).toHaveLength(before + 1));
  const { reply, leave } = running[before]!;
  return () => {
    reply.end();
    leave();
  };
}

const closed = (...sockets: readonly Socket[]): boolean[] => sockets.map((socket) => socket.closed);

test('the oldest of the address that has most is closed', async () => {
  const alone = await connection('127.0.0.2');
  const first = await connection();
  const second = await connection();
  expect(closed(alone, first, second)).toEqual([false, false, false]);
  const third = await connection();
  await once(first, 'close');
  const fourth = await connection();
  await once(second, 'close');
  expect(closed(alone, third, fourth)).toEqual([false, false, false]);
});

test('one that its client has closed leaves its place', async () => {
  const sockets = [await connection(), await connection(), await connection()];
  const gone = new Promise<void>((resolve) => {
    server.getConnections((_, before) => {
      sockets[0]!.destroy();
      const look = () =>
        server.getConnections((__, now) => (now < before ? resolve() : void setImmediate(look)));
      look();
    });
  });
  await gone;
  await connection();
  expect(closed(...sockets)).toEqual([true, false, false]);
});

test('one in use is never closed, and one that was is the last of its address', async () => {
  const busy = await connection();
  const over = await using(busy);
  const first = await connection();
  const end = await using(first);
  end();
  end();
  const others = [await connection(), await connection()];
  expect(closed(busy, first, ...others)).toEqual([false, false, false, false]);
  await connection();
  await once(others[0]!, 'close');
  over();
  await once(others[1]!, 'close');
  expect(closed(busy, first)).toEqual([false, false]);
});

test('the newest is never closed for those that were in use', async () => {
  const used = [await connection(), await connection(), await connection()];
  for (const socket of used) (await using(socket))();
  const newest = await connection();
  await once(used[0]!, 'close');
  expect(closed(...used, newest)).toEqual([true, false, false, false]);
  (await using(newest))();
  await connection();
  await once(used[1]!, 'close');
  expect(closed(...used, newest)).toEqual([true, true, false, false]);
});

const upgrade = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n';

test('a stream that nobody known has asked for is not in use', async () => {
  const first = await connection();
  first.write(`${upgrade}\r\n`);
  await once(first, 'data');
  for (let i = 0; i < 3; i += 1) await connection();
  await once(first, 'close');
});

test('a stream is in use until it is closed', async () => {
  const stream = await connection();
  stream.write(`${upgrade}Authorization: me\r\n\r\n`);
  await once(stream, 'data');
  const others = [];
  for (let i = 0; i < 5; i += 1) others.push(await connection());
  await once(others[1]!, 'close');
  expect(closed(stream, ...others)).toEqual([false, true, true, false, false, false]);
});

test('a request of nobody known keeps no connection', async () => {
  const first = await connection();
  first.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(first, 'data');
  for (let i = 0; i < 3; i += 1) await connection();
  await once(first, 'close');
});
