import type { IncomingMessage } from 'node:http';
import { pipeline, type Duplex } from 'node:stream';
import { createWebSocketStream, WebSocketServer, type WebSocket } from 'ws';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import type { Authenticator } from '../auth/auth.ts';
import type { ConcurrencyLimit } from '../auth/limits.ts';
import { requireConsole } from '../routes/console.ts';
import type { Services } from '../server/services.ts';
import { keepLease } from './streamlease.ts';
import { failure, refusalFrom } from '../server/status.ts';
import { createStreamAdmission, usedTicket, type Admitted } from './streamadmission.ts';
import { readStreamRequest, type StreamRequest } from './streamrequest.ts';

export interface StreamOptions {
  readonly services: Services;
  readonly authenticator: Authenticator;
  readonly limit: ConcurrencyLimit;
  readonly drain: AbortSignal;
  readonly pingEveryMs?: number;
  /** How often the right to an open stream is asked for again; default 10 s. */
  readonly confirmEveryMs?: number;
}

/** The largest message that is taken from a client; noVNC's are some kilobytes. */
const maxMessageBytes = 16 * 1024 * 1024;

/** RFC 6455, 7.4.1: the endpoint ends the connection since a message, or here its sender, violates its policy. */
const policyViolation = 1008;
/** RFC 6455, 7.4.2: an application's own. The console page cannot have the stream now, and the reason says why. */
const unavailable = 4503;
/** What a close frame takes as a reason: 123 bytes. */
function closeReason(message: string): string {
  return message.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 123);
}

/** Ends a connection whose client answers no ping: it is gone without a word. */
function keepAlive(ws: WebSocket, everyMs: number): void {
  let isAlive = true;
  ws.on('pong', () => (isAlive = true));
  const heart = setInterval(() => {
    if (!isAlive) ws.terminate();
    else if (ws.readyState === ws.OPEN) ws.ping();
    isAlive = false;
  }, everyMs);
  ws.once('close', () => clearInterval(heart));
}

/** Takes the WebSocket routes of the server: checks ticket or token, opens the stream of the runner, joins both. */
export function createStreams(
  options: StreamOptions,
): (request: IncomingMessage, socket: Duplex, head: Buffer) => void {
  const { services, limit, drain, pingEveryMs = 30_000 } = options;
  const admission = createStreamAdmission(services, options.authenticator);
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
  });
  const cookies = new WeakMap<IncomingMessage, string>();
  sockets.on('headers', (headers, request) => {
    const cookie = cookies.get(request);
    if (cookie !== undefined) headers.push(`Set-Cookie: ${cookie}`);
  });

  /** Whoever's runner could not be reached keeps the ticket. */
  async function openRunner({ vm, once, giveBack }: Admitted, asked: StreamRequest): Promise<Duplex> {
    const { runners } = services;
    try {
      if (asked.kind === 'tunnel') return await runners.openTunnel(vm, asked.query.port ?? 22);
      if (asked.kind === 'serial') return await runners.openSerial(vm);
      requireConsole(vm);
      return await runners.openVnc(vm, once);
    } catch (error) {
      // Another replica brought the ticket to the runner before.
      if (once !== undefined && isSvc3Error(error, 'Gone')) throw usedTicket();
      giveBack();
      throw error;
    }
  }

  /** Ends the stream as soon as its user may not have it any more. */
  function watch(ws: WebSocket, runner: Duplex, admitted: Admitted): void {
    const end = keepLease(
      admitted,
      services.caches.accounts,
      ({ message }) => {
        ws.close(policyViolation, closeReason(message));
        runner.destroy();
      },
      options.confirmEveryMs,
    );
    ws.once('close', end);
  }

  function join(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    runner: Duplex,
    admitted: Admitted,
  ): void {
    sockets.handleUpgrade(request, socket, head, (ws) => {
      watch(ws, runner, admitted);
      const stream = createWebSocketStream(ws, { allowHalfOpen: false });
      pipeline(stream, runner, () => stream.destroy());
      pipeline(runner, stream, () => ws.close());
      ws.on('error', () => runner.destroy());
      keepAlive(ws, pingEveryMs);
    });
  }

  /** A page is not told the reply to an upgrade that is refused, only what an open WebSocket ends with. */
  function refusePage(request: IncomingMessage, socket: Duplex, head: Buffer, message: string): void {
    sockets.handleUpgrade(request, socket, head, (ws) => ws.close(unavailable, closeReason(message)));
  }

  async function open(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    if (drain.aborted) throw new Svc3Error('ServiceUnavailable', 'this server is going away, try again');
    const asked = readStreamRequest(request);
    const admitted = await admission.admit(request, asked);
    const release = limit.take(admitted.key);
    socket.once('close', release);
    // A client may have gone before anybody listened.
    if (socket.destroyed) release();
    let runner: Duplex;
    try {
      runner = await openRunner(admitted, asked);
    } catch (error) {
      if (admitted.claims?.stream !== 'reconnect') throw error;
      refusePage(request, socket, head, messageOf(error));
      return;
    }
    // Whatever becomes of the client, the runner learns of it.
    socket.once('close', () => runner.destroy());
    if (socket.destroyed) {
      runner.destroy();
      return;
    }
    const cookie =
      admitted.claims === undefined
        ? undefined
        : admission.reconnectCookie(admitted.claims, request.url ?? '/');
    if (cookie !== undefined) cookies.set(request, cookie);
    join(request, socket, head, runner, admitted);
  }

  return (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    open(request, socket, head).catch((error: unknown) => {
      const refusal = refusalFrom(error);
      const body = JSON.stringify(failure(refusal));
      const retry = refusal.status === 429 || refusal.status === 503 ? 'Retry-After: 1\r\n' : '';
      socket.end(
        `HTTP/1.1 ${refusal.status} ${refusal.reason}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${retry}Connection: close\r\n\r\n${body}`,
      );
    });
  };
}
