import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocket } from 'ws';
import { refusalOf, unreachable } from './client.ts';

const handshakeTimeoutMs = 30_000;

/** Opens a WebSocket and gives its bytes as a stream; a refusal is the server's own words. */
export function openSocket({ url, token, ca }: { url: string; token: string; ca?: string }): Promise<Duplex> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), {
    headers: { authorization: `Bearer ${token}` },
    perMessageDeflate: false,
    handshakeTimeout: handshakeTimeoutMs,
    ...(ca === undefined ? {} : { ca }),
  });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(createWebSocketStream(socket)));
    socket.once('unexpected-response', (_request, response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('end', () => {
        reject(refusalOf(response.statusCode ?? 502, Buffer.concat(chunks).toString('utf8')));
        socket.terminate();
      });
    });
    // Stays for the life of the socket: what comes after the handshake is the stream's error too.
    socket.on('error', (error) => reject(unreachable(new URL(url).origin, error)));
  });
}
