import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { GuestAgent } from './agent.ts';
import type { GuestPorts } from './usernet.ts';

const bannerTimeoutMs = 2000;
const firstMinuteEveryMs = 500;
const laterEveryMs = 5000;

/**
 * Resolves true as soon as the guest answers: its agent, or its SSH server with a banner (a connection alone proves
 * nothing: the user-mode network accepts before the guest is up). False when the signal comes first.
 */
export async function waitForGuest(
  agent: GuestAgent,
  ports: GuestPorts,
  signal: AbortSignal,
): Promise<boolean> {
  const begin = performance.now();
  while (!signal.aborted) {
    const answers = await Promise.all([agent.isAnswering(), sendsBanner(ports, signal)]);
    if (answers.includes(true)) return !signal.aborted;
    const pause = performance.now() - begin < 60_000 ? firstMinuteEveryMs : laterEveryMs;
    await delay(pause, undefined, { signal }).catch(() => undefined);
  }
  return false;
}

async function sendsBanner(ports: GuestPorts, signal: AbortSignal): Promise<boolean> {
  try {
    return await readsBanner(await ports.loopbackPort(22), signal);
  } catch {
    return false;
  }
}

/** Whether something behind the port says `SSH-`. */
export function readsBanner(port: number, signal?: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    const done = (answer: boolean) => {
      signal?.removeEventListener('abort', onAbort);
      socket.destroy();
      resolve(answer);
    };
    const onAbort = () => done(false);
    signal?.addEventListener('abort', onAbort, { once: true });
    socket.setTimeout(bannerTimeoutMs, () => done(false));
    socket.once('error', () => done(false));
    socket.once('close', () => done(false));
    socket.once('data', (chunk: Buffer) => done(chunk.toString('latin1').startsWith('SSH-')));
  });
}
