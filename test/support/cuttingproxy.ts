import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { Transform } from 'node:stream';

export interface CuttingProxy {
  readonly port: number;
  /** The next connections are cut when so many bytes went up or down in them, one entry for each connection. */
  cut(...limits: { readonly up?: number; readonly down?: number }[]): void;
  /** Connections that were cut so far by what went through them. */
  readonly cuts: number;
  /** Cuts every connection that is open now. */
  cutAll(): void;
  close(): Promise<void>;
}

/** Passes connections on, and cuts them in the middle. */
export async function startCuttingProxy(upstream: number): Promise<CuttingProxy> {
  const limits: { readonly up?: number; readonly down?: number }[] = [];
  let cuts = 0;
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((client) => {
    const onward = connect(upstream, '127.0.0.1');
    const limit = limits.shift() ?? {};
    const end = (): void => {
      client.destroy();
      onward.destroy();
    };
    for (const socket of [client, onward]) {
      sockets.add(socket);
      socket.on('error', end);
      socket.on('close', end);
    }
    const passing = (most = Number.POSITIVE_INFINITY): Transform => {
      let passed = 0;
      return new Transform({
        transform(chunk: Buffer, _encoding, done) {
          passed += chunk.length;
          if (passed < most) return done(null, chunk);
          cuts += 1;
          // What is on its way arrives.
          setTimeout(end, 20);
          return undefined;
        },
      });
    };
    client.pipe(passing(limit.up)).pipe(onward);
    onward.pipe(passing(limit.down)).pipe(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cutAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: (...next) => void limits.push(...next),
    get cuts() {
      return cuts;
    },
    cutAll,
    async close() {
      cutAll();
      server.close();
      await once(server, 'close');
    },
  };
}
