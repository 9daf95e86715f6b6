import { createServer, type Server } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Connections, trackConnections } from '../../../../src/http/server/connections.ts';

let server: Server;
let connections: Connections;
/** Those that have become something else than HTTP. */
let upgraded: Socket[];

beforeEach(async () => {
  upgraded = [];
  server = createServer((_request, reply) => void reply.end('served'));
  // Without TLS a connection is as far as one with it once its handshake is over.
  server.on('connection', (socket) => server.emit('secureConnection', socket));
  connections = trackConnections(server as unknown as Http2SecureServer);
  server.on('upgrade', (_request, socket: Socket) => {
    upgraded.push(socket);
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

/** A connection on which something was answered. */
async function connection(headers = ''): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined);
  socket.write(`GET / HTTP/1.1\r\nHost: a\r\n${headers}\r\n`);
  await once(socket, 'data');
  socket.resume();
  return socket;
}

const upgrade = 'Connection: Upgrade\r\nUpgrade: x\r\n';

/** What has come to pass, in its order. */
function story(closing: Promise<void>, socket: Socket): string[] {
  const told: string[] = [];
  connections.ending.addEventListener('abort', () => told.push('ending'));
  socket.once('close', () => told.push('cut'));
  void closing.then(() => told.push('closed'));
  return told;
}

describe('a server that closes', () => {
  test('ends an idle connection at once', async () => {
    const socket = await connection();
    const told = story(connections.close(60_000), socket);
    await vi.waitFor(() => expect(told).toContain('closed'));
    expect(told).not.toContain('ending');
  });

  test('leaves one that was upgraded until its client closes it', async () => {
    const socket = await connection(upgrade);
    const told = story(connections.close(60_000), socket);
    const heard = once(socket, 'data');
    upgraded[0]?.write('still here');
    expect(String((await heard)[0])).toBe('still here');
    expect(told).toEqual([]);
    socket.end();
    upgraded[0]?.end();
    await vi.waitFor(() => expect(told).toContain('closed'));
    expect(told).not.toContain('ending');
  });

  test('says a second before that it cuts what is left', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const socket = await connection(upgrade);
    const told = story(connections.close(20_000), socket);
    vi.advanceTimersByTime(18_999);
    expect(told).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(told).toEqual(['ending']);
    expect(upgraded[0]?.destroyed).toBe(false);
    vi.advanceTimersByTime(1_000);
    expect(upgraded[0]?.destroyed).toBe(true);
  });

  test('says so at once where there is no second left', async () => {
    const socket = await connection(upgrade);
    const told = story(connections.close(50), socket);
    await vi.waitFor(() => expect(told).toContain('closed'));
    expect(told[0]).toBe('ending');
  });
});
