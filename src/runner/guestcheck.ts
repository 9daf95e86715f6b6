import { connect, type Socket } from 'node:net';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunnerReadiness } from '../api/runner.ts';
import type { GuestAgent } from './agent.ts';
import type { GuestPorts } from './usernet.ts';

/** One look at whether the guest answers; false where it does not within a few seconds. */
export type GuestCheck = (signal: AbortSignal) => Promise<boolean>;

const answerWithinMs = 2_000;
const sshPort = 22;

/** What `spec.readiness` asks for; undefined where nothing is to be asked. */
export function guestCheck(
  { tcp, http, guestAgent, none }: RunnerReadiness,
  agent: GuestAgent,
  ports: GuestPorts,
): GuestCheck | undefined {
  if (none !== undefined) return undefined;
  if (tcp !== undefined) return (signal) => listens(ports, tcp.port, signal);
  if (http !== undefined) return (signal) => servesHttp(ports, http, signal);
  if (guestAgent !== undefined) return (signal) => agent.isAnswering(undefined, signal);
  return async (signal) => {
    const answers = await Promise.all([agent.isAnswering(undefined, signal), sendsBanner(ports, signal)]);
    return answers.includes(true);
  };
}

/**
 * Whether the guest takes connections at a TCP port. That the loopback port accepts proves nothing, since QEMU's user-mode
 * network accepts before the guest is up; its table says whether the guest has taken the connection.
 */
async function listens(ports: GuestPorts, guestPort: number, signal: AbortSignal): Promise<boolean> {
  try {
    const port = await ports.loopbackPort(guestPort);
    return await withSocket(port, signal, async (isOpen) => {
      while (isOpen()) {
        if (await ports.isConnected(guestPort)) return true;
        await delay(100);
      }
      return false;
    });
  } catch {
    return false;
  }
}

async function withSocket(
  port: number,
  signal: AbortSignal,
  use: (isOpen: () => boolean) => Promise<boolean>,
): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port });
  const until = performance.now() + answerWithinMs;
  socket.on('error', () => undefined);
  try {
    return await use(() => !socket.closed && !signal.aborted && performance.now() < until);
  } finally {
    socket.destroy();
  }
}

/** As kubelets ask: any status from 200 to 399 is success. */
async function servesHttp(
  ports: GuestPorts,
  { port, path }: NonNullable<RunnerReadiness['http']>,
  signal: AbortSignal,
): Promise<boolean> {
  const loopback = await ports.loopbackPort(port).catch(() => undefined);
  if (loopback === undefined) return false;
  return new Promise((resolve) => {
    const asked = request(
      {
        host: '127.0.0.1',
        port: loopback,
        path,
        headers: { connection: 'close', host: `localhost:${port}` },
        signal: AbortSignal.any([signal, AbortSignal.timeout(answerWithinMs)]),
      },
      ({ statusCode = 0 }) => {
        resolve(statusCode >= 200 && statusCode < 400);
        asked.destroy();
      },
    );
    asked.once('error', () => resolve(false));
    asked.end();
  });
}

async function sendsBanner(ports: GuestPorts, signal: AbortSignal): Promise<boolean> {
  try {
    return await readsBanner(await ports.loopbackPort(sshPort), signal);
  } catch {
    return false;
  }
}

/** Whether something behind the port says `SSH-`. */
function readsBanner(port: number, signal?: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const socket: Socket = connect({ host: '127.0.0.1', port });
    const done = (answer: boolean) => {
      signal?.removeEventListener('abort', onAbort);
      socket.destroy();
      resolve(answer);
    };
    const onAbort = () => done(false);
    signal?.addEventListener('abort', onAbort, { once: true });
    socket.setTimeout(answerWithinMs, () => done(false));
    socket.once('error', () => done(false));
    socket.once('close', () => done(false));
    socket.once('data', (chunk: Buffer) => done(chunk.toString('latin1').startsWith('SSH-')));
  });
}
