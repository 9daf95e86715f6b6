import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

export interface TcpProxy {
  readonly server: string;
  /** Connections open now go silent in both directions and stay open, as behind a load balancer that lost them; new ones work. */
  freeze(): void;
  /** Keeps what the server sends on connections open now, in order, until it is released. */
  holdReplies(): HeldReplies;
  /** Cuts every connection. */
  cutAll(): void;
  close(): Promise<void>;
}

export interface HeldReplies {
  /** How many have come since, as they are on the wire. */
  bytes(): number;
  release(): void;
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
  const cutAll = (): void => pairs.forEach((pair) => pair.forEach((socket) => socket.destroy()));
  return {
    server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    freeze: () =>
      pairs.forEach((pair) =>
        pair.forEach((socket) => {
          socket.unpipe();
          socket.pause();
        }),
      ),
    holdReplies() {
      const held = [...pairs].map(([client, onward]) => {
        const chunks: Buffer[] = [];
        const keep = (chunk: Buffer): void => void chunks.push(chunk);
        onward.unpipe(client);
        onward.on('data', keep).resume();
        return { client, onward, chunks, keep };
      });
      return {
        bytes: () => held.flatMap(({ chunks }) => chunks).reduce((sum, { length }) => sum + length, 0),
        release: () =>
          held.forEach(({ client, onward, chunks, keep }) => {
            onward.off('data', keep);
            chunks.forEach((chunk) => client.write(chunk));
            onward.pipe(client);
          }),
      };
    },
    cutAll,
    async close() {
      cutAll();
      server.close();
      await once(server, 'close');
    },
  };
}
