import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface Balancer {
  readonly port: number;
  /** Open connections, by the port of the server that has them. */
  connections(): ReadonlyMap<number, number>;
  close(): Promise<void>;
}

/** One address for several servers, as a Service is: each connection goes to the next of those that take it. */
export async function startBalancer(upstreams: readonly number[]): Promise<Balancer> {
  const open = new Map<Socket, number>();
  let turn = 0;
  function pass(client: Socket, left: readonly number[]): void {
    const [port, ...others] = left;
    if (port === undefined) return void client.destroy();
    const onward = connect(port, '127.0.0.1');
    const refused = (): void => pass(client, others);
    onward.once('error', refused);
    onward.once('connect', () => {
      onward.off('error', refused);
      open.set(client, port);
      const end = (): void => {
        open.delete(client);
        client.destroy();
        onward.destroy();
      };
      for (const socket of [client, onward]) socket.on('error', end).on('close', end);
      client.pipe(onward).pipe(client);
    });
  }
  const server = createServer((client) => {
    client.on('error', () => client.destroy());
    const first = turn++ % upstreams.length;
    pass(client, [...upstreams.slice(first), ...upstreams.slice(0, first)]);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections() {
      const counts = new Map<number, number>();
      for (const port of open.values()) counts.set(port, (counts.get(port) ?? 0) + 1);
      return counts;
    },
    async close() {
      for (const client of open.keys()) client.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
