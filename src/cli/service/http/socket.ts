import type { Duplex } from 'node:stream';
import { createWebSocketStream, WebSocket } from 'ws';
import { Svc3Error } from '../../../errors.ts';
import { closeCodes, isEnd, keepAlive, slowCloseOptions } from '../../../net/websocket.ts';
import { refusalIn, refusalNamed, unreachable } from './refusal.ts';

const handshakeTimeoutMs = 30_000;
/** The api passes on what a runner sends at once. */
const largestFrame = 16 * 1024 * 1024;

/** How often the server is asked whether it is still there, in milliseconds. It asks more often, also where it reads nothing meanwhile. */
const pingEveryMs = 60_000;

/** Why a WebSocket is over; undefined where its stream has come to its end. */
function faultOf(origin: string, code: number, reason: string): Svc3Error | undefined {
  if (isEnd(code)) return undefined;
  // The server has found out that its caller may not have the stream any more.
  if (code === closeCodes.policyViolation)
    return refusalNamed(reason.startsWith('Unauthorized') ? 'Unauthorized' : 'Forbidden', reason);
  if (code === closeCodes.badGateway && reason !== '') return new Svc3Error('BadGateway', reason);
  const why = reason === '' ? '' : `: ${reason}`;
  return new Svc3Error('BadGateway', `the connection to ${origin} was cut${why}`);
}

/** Opens a WebSocket and gives its bytes as a stream; a refusal, also a later one, is the server's own words, and so is what cuts it an error of the stream. */
export function openSocket({ url, token, ca }: { url: string; token: string; ca?: string }): Promise<Duplex> {
  const { origin } = new URL(url);
  const socket = new WebSocket(url.replace(/^http/, 'ws'), {
    headers: { authorization: `Bearer ${token}` },
    perMessageDeflate: false,
    maxPayload: largestFrame,
    handshakeTimeout: handshakeTimeoutMs,
    ...slowCloseOptions,
    ...(ca === undefined ? {} : { ca }),
  });
  return new Promise((resolve, reject) => {
    socket.once('open', () => {
      keepAlive(socket, pingEveryMs);
      // ws takes every close for the end of the stream; whoever listens before it comes first.
      socket.once('close', (code, reason) => {
        const fault = faultOf(origin, code, reason.toString('utf8'));
        if (fault !== undefined) stream.destroy(fault);
      });
      const stream = createWebSocketStream(socket);
      resolve(stream);
    });
    socket.once('unexpected-response', (_request, response) => {
      const { statusCode: status = 502, headers } = response;
      void refusalIn({ status, headers, body: response }, { baseUrl: origin, method: 'GET' }).then(
        (refusal) => {
          reject(refusal);
          socket.terminate();
        },
      );
    });
    // Stays for the life of the socket: what comes after the handshake is the stream's error too.
    socket.on('error', (error) => reject(unreachable(origin, error)));
  });
}
