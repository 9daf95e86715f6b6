import type { ChildProcess } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

export type SshEndpoint =
  | { readonly host: string; readonly port: number }
  /** A Unix socket of a local cluster that leads to `address` inside. */
  | { readonly through: string; readonly address: string };

/**
 * How often another try begins, in milliseconds; less often while some were taken but not answered, which go on
 * meanwhile.
 */
const everyMs = 25;
const everyMsWhenTaken = 100;
const inFlight = 100;

/** Resolves when an SSH server behind the endpoint has greeted. Throws when `process` ends before, or after five minutes. */
export async function untilBanner(endpoint: SshEndpoint, process?: ChildProcess): Promise<void> {
  const tries = new Set<Socket>();
  const greeting = new AbortController();
  const deadline = performance.now() + 300_000;
  try {
    while (!greeting.signal.aborted) {
      if (process !== undefined && process.exitCode !== null) throw new Error('QEMU ended');
      if (performance.now() > deadline) throw new Error('no SSH server has answered for five minutes');
      // A connection that QEMU took while the guest was not listening is lost; old ones are given up.
      if (tries.size >= inFlight) tries.values().next().value?.destroy();
      const socket = connectTo(endpoint, () => greeting.abort());
      tries.add(socket);
      socket.once('close', () => tries.delete(socket));
      const intervalMs = tries.size < 4 ? everyMs : everyMsWhenTaken;
      await delay(intervalMs, undefined, { signal: greeting.signal }).catch(() => undefined);
    }
  } finally {
    for (const socket of tries) socket.destroy();
  }
}

function connectTo(endpoint: SshEndpoint, greeted: () => void): Socket {
  const socket = 'port' in endpoint ? connect(endpoint.port, endpoint.host) : connect(endpoint.through);
  if ('through' in endpoint) socket.write(`CONNECT ${endpoint.address} HTTP/1.1\r\n\r\n`);
  let text = '';
  socket.setEncoding('latin1');
  socket.on('data', (chunk: string) => {
    text += chunk;
    if (/(^|\r\n\r\n)SSH-2\.0/.test(text)) greeted();
  });
  socket.on('error', () => undefined);
  return socket;
}
