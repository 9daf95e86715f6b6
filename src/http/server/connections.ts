import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2SecureServer, ServerHttp2Session } from 'node:http2';
import { Server as TcpServer, type Socket } from 'node:net';

/** The open connections of a listener, and how they end without losing a request. */
export interface Connections {
  /** From now on clients are told to use another connection; everything is still served. */
  leave(): void;
  /** Whether `leave` was called: replies over HTTP/1.1 say `Connection: close`. */
  readonly leaving: boolean;
  /** Aborted a moment before what is left is cut: those who can be told shall be told now. */
  readonly ending: AbortSignal;
  /** Takes no more connections, ends idle ones, waits for the others, and cuts them after `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** So long before they are cut the clients of streams are told, in milliseconds. */
const farewellMs = 1_000;

const lastOfAllStreams = 2 ** 31 - 1;

export function trackConnections(server: Http2SecureServer): Connections {
  const sessions = new Set<ServerHttp2Session>();
  /** Sockets with the number of HTTP/1.1 requests that run on each, or one that has become a WebSocket. */
  const sockets = new Map<Socket, number>();
  const ending = new AbortController();
  let leaving = false;
  let closing = false;

  /** RFC 9113, 6.8: first a warning that refuses nothing, later the end. */
  function warn(session: ServerHttp2Session): void {
    if (!session.destroyed && !session.closed) session.goaway(0, lastOfAllStreams);
  }

  function count(socket: Socket, change: 1 | -1): void {
    const running = (sockets.get(socket) ?? 0) + change;
    if (sockets.has(socket)) sockets.set(socket, running);
    // What was written goes out first. Node's own closeIdleConnections() cuts a reply that is still on its way.
    if (closing && running <= 0) socket.destroySoon();
  }

  server.on('secureConnection', (socket: Socket) => {
    sockets.set(socket, 0);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('session', (session: ServerHttp2Session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
    session.on('error', () => session.destroy());
    if (leaving) warn(session);
  });
  server.on('request', (request: IncomingMessage, reply: ServerResponse) => {
    if (request.httpVersionMajor !== 1) return;
    const { socket } = request;
    count(socket, 1);
    reply.once('close', () => count(socket, -1));
  });
  // Runs until the socket closes.
  server.on('upgrade', (_request: IncomingMessage, socket: Socket) => count(socket, 1));

  return {
    ending: ending.signal,
    get leaving() {
      return leaving;
    },
    leave() {
      leaving = true;
      sessions.forEach(warn);
    },
    async close(graceMs) {
      leaving = true;
      closing = true;
      const ended = new Promise<void>((resolve) => {
        TcpServer.prototype.close.call(server, () => resolve());
      });
      for (const session of sessions) session.close();
      for (const [socket, running] of sockets) if (running <= 0 && !isOfSession(socket)) socket.destroySoon();
      const farewell = setTimeout(() => ending.abort(), Math.max(0, graceMs - farewellMs));
      const cut = setTimeout(() => {
        for (const session of sessions) session.destroy();
        for (const socket of sockets.keys()) socket.destroy();
      }, graceMs);
      await ended;
      clearTimeout(farewell);
      clearTimeout(cut);
    },
  };
}

/** HTTP/2 sessions end their socket themselves. */
function isOfSession(socket: Socket): boolean {
  return (socket as Socket & { alpnProtocol?: string | false }).alpnProtocol === 'h2';
}
