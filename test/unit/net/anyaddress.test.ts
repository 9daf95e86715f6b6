import { once } from 'node:events';
import { type AddressInfo, connect, createServer, Server } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { anyAddress } from '../../../src/net/anyaddress.ts';

test('who listens on it is reached by IPv4, and by IPv6 where there is any', async () => {
  const address = await anyAddress();
  const server = createServer((socket) => socket.end());
  onTestFinished(() => void server.close());
  server.listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  for (const host of address === '::' ? ['127.0.0.1', '::1'] : ['127.0.0.1']) {
    const socket = connect(port, host);
    await once(socket, 'connect');
    socket.destroy();
  }
});

test('where the kernel has no IPv6 it is that of IPv4', async () => {
  const { listen } = Server.prototype;
  const refusing = vi.spyOn(Server.prototype, 'listen').mockImplementation(function refuse(
    this: Server,
    ...given: unknown[]
  ) {
    if (given[1] !== '::') return Reflect.apply(listen, this, given) as Server;
    const code = 'EAFNOSUPPORT';
    setImmediate(() => this.emit('error', Object.assign(new Error(`listen ${code}`), { code })));
    return this;
  });
  onTestFinished(() => refusing.mockRestore());
  // What is found is kept for the process: a copy of the module looks anew.
  const copy = '../../../src/net/anyaddress.ts?copy';
  const fresh = (await import(copy)) as { anyAddress: typeof anyAddress };
  expect(await fresh.anyAddress()).toBe('0.0.0.0');
});
