import { createServer } from 'node:net';

/**
 * Distinct loopback TCP ports that were free a moment ago. Somebody else may take one before it is bound: who uses them
 * must be ready to ask again (`isBindFailure`).
 */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => listen(host)));
  const ports = servers.map(({ port }) => port);
  await Promise.all(servers.map(({ close }) => close()));
  return ports;
}

/** True when the log of a server says that its port was taken. */
export function isBindFailure(log: string): boolean {
  return /address already in use|EADDRINUSE/.test(log);
}

async function listen(host: string): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, host, resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address');
  return { port: address.port, close: () => new Promise((resolve) => server.close(() => resolve())) };
}
