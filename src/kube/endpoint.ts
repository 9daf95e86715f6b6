import { createHash } from 'node:crypto';
import type { ClientHttp2Session } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import type { buildConnector, Dispatcher } from 'undici';
import requestOf from 'undici/lib/api/api-request.js';
import connectorOf from 'undici/lib/core/connect.js';
import symbols from 'undici/lib/core/symbols.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import { ReplacedError } from './errors.ts';
import { type Cut, exchange, type WholeReply } from './exchange.ts';
import { dropOrphanedStreams } from './orphans.ts';

type Socket = Parameters<buildConnector.Callback>[1] & object;
type ConnectionPool = InstanceType<typeof Pool>;

/** Milliseconds that calls on a connection being replaced get to finish before it is cut. */
const drainMs = 1_000;

const connectTimeoutMs = 5_000;

/** How soon after another a renewal is asked for in vain: a burst of refusals is one reason, not many. */
const renewBackoffMs = 1_000;

/** How long a server has to answer a PING. */
const probeMs = 4_000;

/** How often a call that was not sent follows from one pool to the next at once; a server that ends every connection is not asked faster. */
const movesMost = 2;

/** How long an idle connection stays open. */
const idleMs = 60_000;

/** Connections to a server, or a proxy before it, that speaks HTTP/1.1 only: every watch takes one. */
const http1Connections = 64;

/** After so long without a byte the kernel asks every second whether the other side is there; ten times in vain are the end. */
const keepAliveMs = 5_000;

/** A watch that is not read for a moment must not hold up the other streams of its connection. */
const connectionWindowBytes = 8 * 1024 * 1024;

/** One origin with one TLS identity: at most one HTTP/2 connection at any time (several only where the server speaks HTTP/1.1). */
export interface Endpoint {
  /** A call whose reply is wanted whole. */
  exchange(
    options: Dispatcher.DispatchOptions,
    cut: Cut,
    shorten?: (text: Buffer) => Buffer,
  ): Promise<WholeReply>;
  /** A call whose reply is read as it comes. */
  request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData>;
  /**
   * Finds out whether the connection is dead, and if so drops it: a call waits for its answer suspiciously long. Only of HTTP/2:
   * over HTTP/1.1 nothing can be asked over the connection of a call that waits.
   */
  suspect(): void;
  /** Replaces the connection, reading certificates again; calls under way get a moment to finish where others wait. */
  renew(): void;
  /** Told when the server wants the connection to end (GOAWAY), so that long streams can move to the next one. */
  onMoved(listener: () => void): () => void;
  /** Open sockets now. */
  connections(): number;
  /** Sockets opened since the start. */
  opened(): number;
  close(): Promise<void>;
}

function fingerprint(tls: ConnectionOptions): string {
  return createHash('sha256').update(JSON.stringify(tls)).digest('base64');
}

function connect(connector: buildConnector.connector, options: buildConnector.Options): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connector(options, (error, socket) => {
      // A failure comes without a second argument, whatever undici's types say.
      if (error === null) resolve(socket);
      else reject(error);
    });
  });
}

export interface EndpointOptions {
  /** Speak HTTP/1.1 over up to this many connections, each with one call at a time. Default: HTTP/2 where the server has it. */
  readonly http1Only?: { readonly connections: number };
}

/** @param readTls - TLS material, asked for before every new connection so that rotated files count at once. */
export function createEndpoint(
  origin: string,
  readTls: () => Promise<ConnectionOptions>,
  options: EndpointOptions = {},
): Endpoint {
  dropOrphanedStreams();
  return new PooledEndpoint(origin, readTls, options);
}

/** Without an error a reply that has begun and tells no length would pass as complete. */
class CutError extends Error {
  constructor() {
    super('the connection was replaced by another');
  }
}

class PooledEndpoint implements Endpoint {
  readonly #origin: string;
  readonly #readTls: () => Promise<ConnectionOptions>;
  readonly #http1Only: EndpointOptions['http1Only'];
  /** Open sockets, with the pool that each is of. */
  readonly #live = new Map<Socket, ConnectionPool>();
  /** Pools that were replaced and have calls left. */
  readonly #replaced = new Set<ConnectionPool>();
  readonly #probed = new WeakSet<Socket>();
  readonly #listeners = new Set<() => void>();
  #pool: ConnectionPool;
  #opened = 0;
  /** One connection carries all calls; false from when the server turned out to speak HTTP/1.1. */
  #multiplexed: boolean;
  #connector: { readonly fingerprint: string; readonly connect: buildConnector.connector } | undefined;
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(origin: string, readTls: () => Promise<ConnectionOptions>, { http1Only }: EndpointOptions) {
    this.#origin = origin;
    this.#readTls = readTls;
    this.#http1Only = http1Only;
    this.#multiplexed = http1Only === undefined && origin.startsWith('https:');
    this.#pool = this.#createPool();
  }

  exchange(
    options: Dispatcher.DispatchOptions,
    cut: Cut,
    shorten?: (text: Buffer) => Buffer,
  ): Promise<WholeReply> {
    return this.#moving((pool) => exchange(pool, options, cut, shorten));
  }

  request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    return this.#moving((pool) => requestOf.call(pool, options));
  }

  suspect(): void {
    if (!this.#multiplexed) return;
    for (const socket of this.#live.keys()) this.#probe(socket);
  }

  renew(): void {
    if (performance.now() - this.#renewedAt < renewBackoffMs) return;
    this.#renewedAt = performance.now();
    this.#move();
  }

  onMoved(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  connections(): number {
    return this.#live.size;
  }

  opened(): number {
    return this.#opened;
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool, ...this.#replaced].map((pool) => pool.destroy()));
    this.#cutAll();
  }

  /** What a pool has not sent before it was replaced is sent over the next. */
  async #moving<T>(send: (pool: ConnectionPool) => Promise<T>): Promise<T> {
    for (let moves = 0; ; moves += 1)
      try {
        return await send(this.#pool);
      } catch (error) {
        if (!(error instanceof ReplacedError) || moves >= movesMost) throw error;
      }
  }

  #createPool(): ConnectionPool {
    const pool: ConnectionPool = new Pool(this.#origin, {
      connections: this.#multiplexed ? 1 : (this.#http1Only?.connections ?? http1Connections),
      connect: (options, callback) => {
        this.#open(pool, options).then(
          (socket) => callback(null, socket),
          (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
        );
      },
      allowH2: this.#http1Only === undefined,
      keepAliveTimeout: idleMs,
      h2Options: { connectionWindowSize: connectionWindowBytes },
    });
    pool.on('disconnect', (_origin, _targets, error) => {
      if (pool === this.#pool && error.message.includes('GOAWAY')) this.#move();
    });
    return pool;
  }

  /**
   * Calls go on over another connection. undici would open it, too, but not before every call on the old one has ended: one that is held
   * would hold up all others. Streams are told when their next call can go there.
   */
  #move(): void {
    this.#replacePool();
    this.#listeners.forEach((listener) => listener());
  }

  #replacePool(): void {
    const old = this.#pool;
    this.#pool = this.#createPool();
    this.#replaced.add(old);
    const forget = (): boolean => this.#replaced.delete(old);
    old.close().then(forget, forget);
    setTimeout(() => this.#cutWhereOthersWait(old), drainMs).unref();
  }

  /**
   * Calls that the server has handed back with GOAWAY wait in their old pool until those beside them have ended: it opens no connection
   * then (`#open`), and they move. HTTP/1.1 sends what waits over the old connections.
   */
  #cutWhereOthersWait(old: ConnectionPool): void {
    if (!this.#multiplexed || old.stats.pending === 0) return;
    for (const [socket, pool] of this.#live) if (pool === old) socket.destroy(new CutError());
  }

  /** A connection for the pool that calls go to; for one that was replaced, ReplacedError: there would be two. */
  async #open(pool: ConnectionPool, options: buildConnector.Options): Promise<Socket> {
    await this.#untilAlone(pool);
    const connector = await this.#connectorNow();
    if (pool !== this.#pool) throw new ReplacedError();
    const socket = await connect(connector, options);
    // undici stops listening before the socket is done: a late error must not end the process.
    socket.on('error', () => undefined);
    if (pool !== this.#pool) {
      socket.destroy();
      throw new ReplacedError();
    }
    this.#live.set(socket, pool);
    this.#opened += 1;
    socket.once('close', () => this.#live.delete(socket));
    const { alpnProtocol } = socket as { alpnProtocol?: unknown };
    if (this.#multiplexed && alpnProtocol !== 'h2') {
      this.#multiplexed = false;
      this.#replacePool();
    }
    return socket;
  }

  /**
   * A connection that was replaced stays open until its calls have ended: its successor waits for it, then cuts it, so that there is
   * never a second one.
   */
  async #untilAlone(opener: ConnectionPool): Promise<void> {
    const until = performance.now() + drainMs;
    const mustWait = (): boolean => this.#multiplexed && this.#live.size > 0 && opener === this.#pool;
    while (mustWait() && performance.now() < until) await sleep(10);
    if (mustWait()) this.#cutAll();
  }

  #cutAll(): void {
    for (const socket of this.#live.keys()) socket.destroy(new CutError());
  }

  async #connectorNow(): Promise<buildConnector.connector> {
    const tls = await this.#readTls();
    const key = fingerprint(tls);
    if (this.#connector?.fingerprint !== key) {
      // undici offers http/1.1 first unless told otherwise, and load balancers that follow the client's order then take it.
      const connector = connectorOf({
        ...(tls as buildConnector.BuildOptions),
        allowH2: this.#http1Only === undefined,
        preferH2: this.#http1Only === undefined,
        timeout: connectTimeoutMs,
        keepAliveInitialDelay: keepAliveMs,
      });
      this.#connector = { fingerprint: key, connect: connector };
    }
    return this.#connector.connect;
  }

  /**
   * A PING is no request: one without a token kube-apiserver answers over HTTP/2 with the end of the connection. undici sends one only
   * when a call has timed out.
   */
  #probe(socket: Socket): void {
    const session = Reflect.get(socket, symbols.kHTTP2Session) as ClientHttp2Session | undefined;
    if (session === undefined || session.destroyed || this.#probed.has(socket)) return;
    this.#probed.add(socket);
    const drop = (): unknown => socket.destroy(new Error('no answer to a PING'));
    const timer = setTimeout(drop, probeMs).unref();
    session.ping(() => {
      clearTimeout(timer);
      this.#probed.delete(socket);
    });
  }
}
