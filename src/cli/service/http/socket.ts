import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocket } from 'ws';
import { refusalOf, refusalText, unreachable } from './refusal.ts';

const handshakeTimeoutMs = 30_000;
/** The api passes on what a runner sends at once. */
const largestFrame = 16 * 1024 * 1024;

/** Opens a WebSocket and gives its bytes as a stream; a refusal is the server's own words. */
export function openSocket({ url, token, ca }: { url: string; token: string; ca?: string }): Promise<Duplex> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), {
    headers: { authorization: `Bearer ${token}` },
    perMessageDeflate: false,
    maxPayload: largestFrame,
    handshakeTimeout: handshakeTimeoutMs,
    ...(ca === undefined ? {} : { ca }),
  });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(createWebSocketStream(socket)));
    socket.once('unexpected-response', (_request, response) => {
      void refusalText(response).then((text) => {
        reject(refusalOf(response.statusCode ?? 502, text));
        socket.terminate();
      });
    });
    // Stays for the life of the socket: what comes after the handshake is the stream's error too.
    socket.on('error', (error) => reject(unreachable(new URL(url).origin, error)));
  });
}
