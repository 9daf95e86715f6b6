import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import { closeCodes, closeReason, joinWebSocket, keepAlive, type Cut } from '../../net/websocket.ts';
import type { Authenticator } from '../auth/auth.ts';
import type { ConcurrencyLimit } from '../auth/limits.ts';
import type { ConnectionLimit } from '../server/connectionlimit.ts';
import { requireConsole } from '../routes/console.ts';
import type { Services } from '../call/services.ts';
import type { FindPageCaller } from '../call/caller.ts';
import { keepLease } from './streamlease.ts';
import { failure, refusalFrom } from '../call/status.ts';
import { createStreamAdmission, usedTicket, type Admitted, type StreamAdmission } from './streamadmission.ts';
import { readStreamRequest, type StreamRequest } from './streamrequest.ts';

export interface StreamOptions {
  readonly services: Services;
  readonly authenticator: Authenticator;
  readonly findPageCaller: FindPageCaller;
  readonly limit: ConcurrencyLimit;
  /** Keeps the connection of a request until it closes, whatever others come. */
  readonly use: ConnectionLimit['use'];
  readonly drain: AbortSignal;
  /** Aborted a moment before open streams are cut. */
  readonly ending: AbortSignal;
  readonly pingEveryMs?: number;
  /** How often the right to an open stream is asked for again; default 10 s. */
  readonly confirmEveryMs?: number;
}

/** How long a client that is refused may take to read that and hang up, in milliseconds. */
const refusedMs = 1_000;
/** How often a client is asked whether it is still there, in milliseconds. */
const defaultPingMs = 30_000;
/** The largest message that is taken from a client; noVNC's are some kilobytes. */
const maxMessageBytes = 16 * 1024 * 1024;

/** RFC 6455, 7.4.2: an application's own. A page cannot have the stream now, and the reason says why. */
const unavailable = 4503;

/** What the client of an open stream is told when this process ends. */
const goingAway = 'this server is going away';

/** What a client is told of a runner's stream that did not come to its end. */
function cutOf(cause?: Error): Cut {
  const reason = isSvc3Error(cause) ? cause.message : "the connection to the VM's runner was cut";
  return { code: closeCodes.badGateway, reason };
}

/** Closes a stream whose process ends; when it is closed, so is the runner's. */
function leave(ws: WebSocket): void {
  ws.close(closeCodes.goingAway, goingAway);
  // Else its answer is not read.
  ws.resume();
}

/** Takes the WebSocket routes of the server: checks ticket or token, opens the stream of the runner, joins both. */
export function createStreams(
  options: StreamOptions,
): (request: IncomingMessage, socket: Duplex, head: Buffer) => void {
  const streams = new Streams(options);
  return (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    streams.open({ request, socket, head }).catch((error: unknown) => refuse(socket, error));
  };
}

/** A client that asks for a WebSocket, before it has one. */
interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

class Streams {
  readonly #options: StreamOptions;
  readonly #admission: StreamAdmission;
  readonly #cookies = new WeakMap<IncomingMessage, string>();
  readonly #sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
  });

  constructor(options: StreamOptions) {
    this.#options = options;
    const { services, authenticator, findPageCaller } = options;
    this.#admission = createStreamAdmission(services, authenticator, findPageCaller);
    this.#sockets.on('headers', (headers, request) => {
      const cookie = this.#cookies.get(request);
      if (cookie !== undefined) headers.push(`Set-Cookie: ${cookie}`);
    });
    options.ending.addEventListener('abort', () => this.#sockets.clients.forEach(leave), { once: true });
  }

  async open(upgrade: Upgrade): Promise<void> {
    const { request, socket } = upgrade;
    const { drain, limit, use } = this.#options;
    if (drain.aborted) throw new Svc3Error('ServiceUnavailable', 'this server is going away, try again');
    const asked = readStreamRequest(request);
    const admitted = await this.#admission.admit(request, asked);
    const release = limit.take(admitted.key);
    use(request);
    let runner: Duplex | undefined;
    const left = (): void => {
      // A guest that is slow still takes what was sent to it.
      if (runner === undefined || runner.closed) release();
      else runner.once('close', release);
    };
    socket.once('close', left);
    // A client may have gone before anybody listened.
    if (socket.destroyed) left();
    try {
      runner = await this.#openRunner(admitted, asked);
    } catch (error) {
      if (admitted.claims?.stream !== 'reconnect' && !asked.isOfPage) throw error;
      this.#refusePage(upgrade, messageOf(error));
      return;
    }
    if (socket.destroyed) {
      runner.destroy();
      return;
    }
    const { claims } = admitted;
    const cookie =
      claims === undefined ? undefined : this.#admission.reconnectCookie(claims, request.url ?? '/');
    if (cookie !== undefined) this.#cookies.set(request, cookie);
    this.#join(upgrade, runner, admitted);
  }

  /** Whoever's runner could not be reached keeps the ticket. */
  async #openRunner({ vm, once, giveBack }: Admitted, asked: StreamRequest): Promise<Duplex> {
    const { runners } = this.#options.services;
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

  #join({ request, socket, head }: Upgrade, runner: Duplex, admitted: Admitted): void {
    // Whatever becomes of the client, the runner learns of it.
    const destroy = () => void runner.destroy();
    socket.once('close', destroy);
    this.#sockets.handleUpgrade(request, socket, head, (ws) => {
      socket.off('close', destroy);
      this.#watch(ws, runner, admitted);
      joinWebSocket(ws, runner, cutOf);
      keepAlive(ws, this.#options.pingEveryMs ?? defaultPingMs);
      if (this.#options.ending.aborted) leave(ws);
    });
  }

  /** Ends the stream as soon as its user may not have it any more. */
  #watch(ws: WebSocket, runner: Duplex, admitted: Admitted): void {
    const end = keepLease(
      admitted,
      this.#options.services.caches.accounts,
      ({ message }) => {
        ws.close(closeCodes.policyViolation, closeReason(message));
        runner.destroy();
      },
      this.#options.confirmEveryMs,
    );
    ws.once('close', end);
  }

  /** A page is not told the reply to an upgrade that is refused, only what an open WebSocket ends with. */
  #refusePage({ request, socket, head }: Upgrade, message: string): void {
    this.#sockets.handleUpgrade(request, socket, head, (ws) => ws.close(unavailable, closeReason(message)));
  }
}

function refuse(socket: Duplex, error: unknown): void {
  const refusal = refusalFrom(error);
  const body = JSON.stringify(failure(refusal));
  const retry = refusal.status === 429 || refusal.status === 503 ? 'Retry-After: 1\r\n' : '';
  // What still comes is read: an end behind it would not be seen, and an answer before it could be lost.
  socket.resume();
  setTimeout(() => socket.destroy(), refusedMs).unref();
  socket.end(
    `HTTP/1.1 ${refusal.status} ${refusal.reason}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${retry}Connection: close\r\n\r\n${body}`,
  );
}
