import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

export interface TcpProxy {
  readonly server: string;
  /** Connections open now go silent in both directions and stay open, as behind a load balancer that lost them; new ones work. */
  freeze(): void;
  close(): Promise<void>;
}

/** Passes bytes on to a kube-apiserver: its certificate stays in sight. */
export async function startTcpProxy(upstream: string): Promise<TcpProxy> {
  const target = new URL(upstream);
  const pairs = new Set<[Socket, Socket]>();
  const server = createServer((client) => {
    const onward = connect(Number(target.port), target.hostname);
    const pair: [Socket, Socket] = [client, onward];
    pairs.add(pair);
    client.pipe(onward);
    onward.pipe(client);
    for (const socket of pair) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        pairs.delete(pair);
        pair.forEach((each) => each.destroy());
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    freeze: () =>
      pairs.forEach((pair) =>
        pair.forEach((socket) => {
          socket.unpipe();
          socket.pause();
        }),
      ),
    async close() {
      pairs.forEach((pair) => pair.forEach((socket) => socket.destroy()));
      server.close();
      await once(server, 'close');
    },
  };
}
