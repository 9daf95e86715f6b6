import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { forwardAddress, PortRelay } from '../../../src/runner/relay.ts';

const log = pino({ level: 'silent' });

/** Stands in for QEMU's forward: answers all it is told when the other end has no more to say. */
async function echoOfConnections(): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let said = '';
    socket.on('data', (data) => (said += String(data)));
    socket.on('end', () => socket.end(`heard ${said}`));
  });
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function echoOfDatagrams(): Promise<number> {
  const socket = createSocket('udp4');
  onTestFinished(() => void socket.close());
  socket.on('message', (data, { address, port }) => socket.send(`heard ${String(data)}`, port, address));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return socket.address().port;
}

test('a connection to the port over IPv6 leads to the forward, and each end hears the other to its end', async () => {
  const port = await echoOfConnections();
  await new PortRelay('::1', log).lead([{ podPort: port, guestPort: 22, protocol: 'TCP' }]);
  const socket = connect({ host: '::1', port, allowHalfOpen: true });
  socket.end('hello');
  expect(await text(socket)).toBe('heard hello');
});

test('a datagram to the port over IPv6 is answered to whoever sent it', async () => {
  const port = await echoOfDatagrams();
  await new PortRelay('::1', log).lead([{ podPort: port, guestPort: 53, protocol: 'UDP' }]);
  const answers = ['one', 'two'].map(async (word) => {
    const socket = createSocket('udp6');
    onTestFinished(() => void socket.close());
    socket.send(word, port, '::1');
    const [data] = await once(socket, 'message');
    return String(data);
  });
  expect(await Promise.all(answers)).toEqual(['heard one', 'heard two']);
});

test('a port that is taken keeps nobody from starting', async () => {
  const taken = createServer();
  onTestFinished(() => void taken.close());
  taken.listen(0, '::1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const ports = [{ podPort: port, guestPort: 22, protocol: 'TCP' as const }];
  await expect(new PortRelay('::1', log).lead(ports)).resolves.toBeUndefined();
});

test.each([
  ['::', '0.0.0.0'],
  ['::1', '127.0.0.1'],
  ['0.0.0.0', '0.0.0.0'],
  ['127.0.0.1', '127.0.0.1'],
])('bound to %s, forwards listen on %s', (bind, address) => {
  expect(forwardAddress(bind)).toBe(address);
});
