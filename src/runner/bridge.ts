import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { messageOf } from '../errors.ts';
import { closeCodes, joinWebSocket, keepAlive } from '../net/websocket.ts';

const pingEveryMs = 20_000;
const longestMs = 12 * 3_600_000;

/** Where a WebSocket leads: the screen's socket, a loopback port, or what the runner has at hand. */
export type StreamTarget = (
  | { readonly path: string }
  | { readonly port: number }
  | { readonly stream: Duplex }
) &
  Ending;

interface Ending {
  /** Whether the guest has ended, asked where what QEMU leads to has come to its end: the end of QEMU looks the same. */
  readonly hasEnded?: () => Promise<boolean>;
}

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
 * Carries bytes both ways until either side ends. The faster side is held back; a peer that answers no ping is gone, and nothing lasts
 * longer than twelve hours. The WebSocket is closed without a code at the end of the target only, else with one that says what broke.
 */
export function bridge(
  ws: WebSocket,
  target: Duplex,
  { hasEnded = () => Promise.resolve(false) }: Ending = {},
): void {
  const code = closeCodes.internalError;
  const cutOf = (cause?: Error) => ({
    code,
    reason: `the connection to the guest broke${cause === undefined ? '' : `: ${messageOf(cause)}`}`,
  });
  const cutAtEnd = async () => ((await hasEnded()) ? { code, reason: 'the guest has ended' } : undefined);
  joinWebSocket(ws, target, cutOf, cutAtEnd);
  keepAlive(ws, pingEveryMs);
  const end = setTimeout(() => {
    ws.close(closeCodes.goingAway, 'the session has lasted long enough');
  }, longestMs);
  ws.once('close', () => clearTimeout(end));
}
