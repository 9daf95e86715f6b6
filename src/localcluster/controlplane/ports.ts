import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Where free ports are looked for: below those that Linux gives to connections and to who asks for any port (32768 and
 * up), so that none of these takes one before it is bound.
 */
const range = { from: 12_000, to: 30_000 };

/**
 * Distinct loopback TCP ports that were free a moment ago. Somebody else who looks for one may take it before it is
 * bound: who uses them must be ready to ask again (`isBindFailure`).
 */
export async function freePorts(
  count: number,
  host = '127.0.0.1',
  draw = () => randomInt(range.from, range.to),
): Promise<number[]> {
  const held = new Map<number, Server>();
  while (held.size < count) {
    const port = draw();
    const server = await listen(port, host);
    if (server !== undefined) held.set(port, server);
  }
  await Promise.all(
    [...held.values()].map(async (server) => {
      server.close();
      await once(server, 'close');
    }),
  );
  return [...held.keys()];
}

/** True when the log of a server says that its port was taken. */
export function isBindFailure(log: string): boolean {
  return /address already in use|EADDRINUSE/.test(log);
}

/** A server on that port; undefined when somebody else has it. */
async function listen(port: number, host: string): Promise<Server | undefined> {
  const server = createServer();
  server.listen(port, host);
  try {
    await once(server, 'listening');
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return undefined;
    throw error;
  }
}
