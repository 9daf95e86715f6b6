import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { bridge, dialTarget } from '../../../src/runner/bridge.ts';

let guest: Server;
let sockets: WebSocketServer;

const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;

beforeEach(async () => {
  guest = createServer({ allowHalfOpen: true });
  guest.listen(0, '127.0.0.1');
  sockets = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await Promise.all([once(guest, 'listening'), once(sockets, 'listening')]);
});

afterEach(() => {
  for (const client of sockets.clients) client.terminate();
  sockets.close();
  guest.close();
});

/** Whoever asked for the stream, and what becomes of it. */
async function opened(target: () => Promise<Duplex>, hasEnded?: () => Promise<boolean>) {
  const bridged = new Promise<void>((resolve, reject) => {
    const join = async (ws: WebSocket) => bridge(ws, await target(), hasEnded && { hasEnded });
    sockets.once('connection', (ws) => void join(ws).then(resolve, reject));
  });
  const client = new WebSocket(`ws://127.0.0.1:${portOf(sockets)}`, { perMessageDeflate: false });
  const chunks: Buffer[] = [];
  client.on('message', (data: Buffer) => chunks.push(data));
  const closed = new Promise<{ code: number; reason: string; received: Buffer }>((resolve) => {
    client.once('close', (code, reason) =>
      resolve({ code, reason: reason.toString(), received: Buffer.concat(chunks) }),
    );
  });
  await Promise.all([once(client, 'open'), bridged]);
  return { client, closed };
}

/** The same to a service of the guest, which does this with its connection. */
async function served(act: (socket: Socket) => void, hasEnded?: () => Promise<boolean>) {
  const accepted = once(guest, 'connection') as Promise<[Socket]>;
  const stream = await opened(() => dialTarget({ port: portOf(guest) }), hasEnded);
  const [socket] = await accepted;
  socket.on('error', () => undefined);
  act(socket);
  return { ...stream, socket };
}

describe('a stream of the runner', () => {
  test('ends without a code where the service of the guest closes, behind its last byte', async () => {
    const all = Buffer.alloc(4 * 1024 * 1024, 'download ');
    const { closed } = await served((socket) => socket.end(all));
    const { code, received } = await closed;
    expect([code, received.equals(all)]).toEqual([1005, true]);
  });

  test.each([
    ['no code where QEMU still runs', false, 1005, ''],
    ['a code where it has ended with QEMU', true, 1011, 'the guest has ended'],
  ])('that has come to its end has %s', async (_what, hasEnded, code, reason) => {
    const asked = Promise.withResolvers<boolean>();
    const { closed, client } = await served(
      (socket) => socket.end('the last word'),
      () => asked.promise,
    );
    await once(client, 'message');
    // The connection is gone by then.
    setImmediate(() => setImmediate(() => asked.resolve(hasEnded)));
    expect(await closed).toMatchObject({ code, reason, received: Buffer.from('the last word') });
  });

  test('is closed with a code and a sentence where the service resets its connection', async () => {
    const { closed } = await served((socket) => socket.resetAndDestroy());
    expect(await closed).toMatchObject({
      code: 1011,
      reason: expect.stringMatching(/^the connection to the guest broke: .*ECONNRESET/),
    });
  });

  test('is closed with a code where it is taken away from who does not read', async () => {
    const target = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
    const { closed } = await opened(() => Promise.resolve(target));
    target.destroy();
    expect(await closed).toMatchObject({ code: 1011, reason: 'the connection to the guest broke' });
  });

  test('brings all that was sent before its client ended it', async () => {
    const all = Buffer.alloc(4 * 1024 * 1024, 'upload ');
    const chunks: Buffer[] = [];
    const { client, socket } = await served((accepted) =>
      accepted.on('data', (chunk: Buffer) => chunks.push(chunk)),
    );
    client.send(all);
    client.close();
    await once(socket, 'end');
    expect(Buffer.concat(chunks).equals(all)).toBe(true);
    socket.end();
  });

  test('that is cut lets go of the guest', async () => {
    const { client, socket } = await served((accepted) => accepted.resume());
    const ended = once(socket, 'end');
    client.terminate();
    await ended;
    socket.destroy();
  });

  test('of a port where nobody listens is refused', async () => {
    const port = portOf(guest);
    guest.close();
    await expect(dialTarget({ port })).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });
});
