import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createWebSocketStream, type WebSocket } from 'ws';

const pingEveryMs = 20_000;
const longestMs = 12 * 3_600_000;

/** Where a WebSocket leads: the screen's socket, a loopback port, or what the runner has at hand. */
export type StreamTarget =
  | { readonly path: string }
  | { readonly port: number }
  | { readonly stream: Duplex };

/** Connects before the WebSocket is accepted, so that a refusal can still be said in a reply. */
export function dialTarget(target: StreamTarget): Promise<Duplex> {
  if ('stream' in target) return Promise.resolve(target.stream);
  return new Promise((resolve, reject) => {
    const socket =
      'path' in target
        ? connect(target.path)
        : connect({ host: '127.0.0.1', port: target.port, noDelay: true });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/**
 * Carries bytes both ways until either side ends. The streams' own backpressure holds the faster side back; a peer
 * that answers no ping is gone, and nothing lasts longer than twelve hours.
 */
export async function bridge(ws: WebSocket, target: Duplex): Promise<void> {
  const stream = createWebSocketStream(ws, { allowHalfOpen: false });
  let isAlive = true;
  ws.on('pong', () => {
    isAlive = true;
  });
  const heart = setInterval(() => {
    if (!isAlive) ws.terminate();
    isAlive = false;
    ws.ping();
  }, pingEveryMs);
  const end = setTimeout(() => ws.close(1001, 'the session has lasted long enough'), longestMs);
  try {
    await Promise.race([pipeline(stream, target), pipeline(target, stream)]);
  } catch {
    // Either side has gone; there is nobody left to tell.
  } finally {
    clearInterval(heart);
    clearTimeout(end);
    stream.destroy();
    target.destroy();
  }
}
