import type { IncomingMessage } from 'node:http';
import type { Http2SecureServer, Http2ServerRequest, ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { clientOf } from '../auth/clientaddress.ts';

/**
 * Connections that are in nobody's use, of all addresses together. One over HTTP/2 takes about 75 KiB, one over HTTP/1.1 60 KiB and one before its
 * TLS handshake 20 KiB (measured with 2,000 of each on Node 26, resident memory). So many over HTTP/2, after 12,000 had come, took 140 MiB, of the
 * 512 MiB that the chart gives a process; 1,500 after 20,000 took 250 MiB.
 */
export const mostUnused = 1_200;

/** Keeps those who only connect from taking the memory of a process. */
export interface ConnectionLimit {
  /** The connection of this request, whose caller is known, is in use until the returned function is called, once, or it closes. */
  use(request: IncomingMessage | Http2ServerRequest): () => void;
}

interface Connection {
  readonly address: string;
  /** With TLS once its handshake is over. */
  socket: Socket;
  session: ServerHttp2Session | undefined;
  /** Requests of known callers that run on it; one that has become a stream stays in use. */
  uses: number;
}

/** Connections of an address that are in nobody's use, those that came first, or were used last, in front. */
interface Unused {
  /** Nobody known has ever used it. */
  readonly fresh: Set<Connection>;
  readonly used: Set<Connection>;
}

/**
 * Where more than `most` connections are in nobody's use, the address that has most of them loses one, never the one that came just now: the oldest that
 * never was in use, else the one that has not been for longest. One on which a request of a known caller runs is never closed, nor is a stream, so an address that many share, as that
 * of a proxy or of kube-apiserver, loses only what it does not need. A limit for all that refuses the newest would let one client keep out the others.
 */
export function limitConnections(server: Http2SecureServer, most = mostUnused): ConnectionLimit {
  const connections = new UnusedConnections(most);
  /** By the two ends of it: with TLS it is another socket, which does not say of what. */
  const byPeer = new Map<string, Connection>();
  const known = new WeakMap<object, Connection>();

  server.on('connection', (socket: Socket) => {
    const peer = peerOf(socket);
    const address = clientOf(socket.remoteAddress ?? '');
    const connection: Connection = { address, socket, session: undefined, uses: 0 };
    byPeer.set(peer, connection);
    socket.once('close', () => {
      if (byPeer.get(peer) === connection) byPeer.delete(peer);
      connections.remove(connection);
    });
    connections.add(connection, 'fresh');
  });
  server.on('secureConnection', (socket: Socket) => {
    const connection = byPeer.get(peerOf(socket));
    if (connection === undefined) return;
    connection.socket = socket;
    known.set(socket, connection);
  });
  server.on('session', (session: ServerHttp2Session) => {
    const connection = byPeer.get(peerOf(session.socket));
    if (connection === undefined) return;
    connection.session = session;
    known.set(session, connection);
  });

  const use = (carrier: object | undefined): (() => void) => {
    const connection = carrier === undefined ? undefined : known.get(carrier);
    if (connection === undefined) return () => undefined;
    connections.use(connection);
    let isOver = false;
    return () => {
      if (!isOver) connections.release(connection);
      isOver = true;
    };
  };
  return { use: (request) => use('stream' in request ? request.stream?.session : request.socket) };
}

/** Both ends of a connection. */
function peerOf(socket: Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress'>): string {
  return `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`;
}

class UnusedConnections {
  readonly #most: number;
  readonly #byAddress = new Map<string, Unused>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(connection: Connection, kind: keyof Unused): void {
    const { address } = connection;
    const unused = this.#byAddress.get(address) ?? { fresh: new Set(), used: new Set() };
    this.#byAddress.set(address, unused);
    unused[kind].add(connection);
    this.#count += 1;
    if (this.#count > this.#most) this.#closeOne(connection);
  }

  remove(connection: Connection): void {
    const unused = this.#byAddress.get(connection.address);
    if (unused === undefined) return;
    if (unused.fresh.delete(connection) || unused.used.delete(connection)) this.#count -= 1;
    if (sizeOf(unused) === 0) this.#byAddress.delete(connection.address);
  }

  use(connection: Connection): void {
    connection.uses += 1;
    this.remove(connection);
  }

  release(connection: Connection): void {
    connection.uses -= 1;
    if (connection.uses === 0 && !connection.socket.destroyed) this.add(connection, 'used');
  }

  /** Of those that were never in use, which may be about to be, as many as of those that were are left: else a client could keep out the newest. */
  #closeOne(newest: Connection): void {
    let largest: Unused | undefined;
    for (const unused of this.#byAddress.values())
      if (largest === undefined || sizeOf(unused) > sizeOf(largest)) largest = unused;
    if (largest === undefined) return;
    const { fresh, used } = largest;
    const [oldest] = fresh;
    const [longest = oldest] = used;
    const connection = oldest !== newest && fresh.size >= used.size ? oldest : longest;
    if (connection === undefined) return;
    this.remove(connection);
    const { session, socket } = connection;
    // It says which requests were taken: a client that sends one just now can send that again elsewhere. Node writes it in a later turn.
    if (session?.destroyed === false) session.goaway();
    setImmediate(() => socket.destroy());
  }
}

function sizeOf({ fresh, used }: Unused): number {
  return fresh.size + used.size;
}
