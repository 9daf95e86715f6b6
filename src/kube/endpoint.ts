import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import type { buildConnector, Dispatcher } from 'undici';
import requestOf from 'undici/lib/api/api-request.js';
import connectorOf from 'undici/lib/core/connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import { type Cut, exchange, type WholeReply } from './exchange.ts';
import { dropOrphanedStreams } from './orphans.ts';

type Socket = Parameters<buildConnector.Callback>[1] & object;

/** Milliseconds that calls on a connection being replaced get to finish before it is cut. */
const drainMs = 1_000;

const connectTimeoutMs = 5_000;

/** How soon after another a renewal is asked for in vain: a burst of refusals is one reason, not many. */
const renewBackoffMs = 1_000;

/** How long a server has to answer whether it is there; undici gives a PING the same time after that. */
const probeMs = 2_000;

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
  /** Finds out whether the connection is dead, and if so drops it: a call waits for its answer suspiciously long. */
  suspect(): void;
  /** Replaces the connection, reading certificates again; calls under way get a moment to finish. */
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
      if (error === null) {
        resolve(socket);
      } else {
        reject(error);
      }
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

class PooledEndpoint implements Endpoint {
  readonly #origin: string;
  readonly #readTls: () => Promise<ConnectionOptions>;
  readonly #http1Only: EndpointOptions['http1Only'];
  readonly #live = new Set<Socket>();
  readonly #listeners = new Set<() => void>();
  #pool: InstanceType<typeof Pool>;
  #opened = 0;
  /** One connection carries all calls; false from when the server turned out to speak HTTP/1.1. */
  #multiplexed: boolean;
  #connector: { readonly fingerprint: string; readonly connect: buildConnector.connector } | undefined;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #probing = false;

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
    return exchange(this.#pool, options, cut, shorten);
  }

  request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    return requestOf.call(this.#pool, options);
  }

  suspect(): void {
    if (this.#probing) return;
    this.#probing = true;
    void this.#probe().finally(() => {
      this.#probing = false;
    });
  }

  renew(): void {
    if (performance.now() - this.#renewedAt < renewBackoffMs) return;
    this.#renewedAt = performance.now();
    this.#replacePool();
    this.#listeners.forEach((listener) => listener());
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
    await this.#pool.destroy();
    this.#cutAll();
  }

  #createPool(): InstanceType<typeof Pool> {
    const pool = new Pool(this.#origin, {
      connections: this.#multiplexed ? 1 : (this.#http1Only?.connections ?? http1Connections),
      connect: (options, callback) => {
        this.#open(options).then(
          (socket) => callback(null, socket),
          (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
        );
      },
      allowH2: this.#http1Only === undefined,
      keepAliveTimeout: idleMs,
      h2Options: { connectionWindowSize: connectionWindowBytes },
    });
    pool.on('disconnect', (_origin, _targets, error) => {
      if (error.message.includes('GOAWAY')) this.#listeners.forEach((listener) => listener());
    });
    return pool;
  }

  #replacePool(): void {
    const old = this.#pool;
    this.#pool = this.#createPool();
    old.close().catch(() => undefined);
  }

  async #open(options: buildConnector.Options): Promise<Socket> {
    await this.#untilAlone();
    const socket = await connect(await this.#connectorNow(), options);
    this.#live.add(socket);
    // undici stops listening before the socket is done: a late error must not end the process.
    socket.on('error', () => undefined);
    this.#opened += 1;
    socket.once('close', () => this.#live.delete(socket));
    const { alpnProtocol } = socket as { alpnProtocol?: unknown };
    if (this.#multiplexed && alpnProtocol !== 'h2') {
      this.#multiplexed = false;
      this.#replacePool();
    }
    return socket;
  }

  /** GOAWAY leaves the old connection open beside its successor: wait for it, then cut it, so that there is never a second one. */
  async #untilAlone(): Promise<void> {
    const until = performance.now() + drainMs;
    const mustWait = (): boolean => this.#multiplexed && this.#live.size > 0;
    while (mustWait() && performance.now() < until) await sleep(10);
    if (mustWait()) this.#cutAll();
  }

  #cutAll(): void {
    this.#live.forEach((socket) => socket.destroy());
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

  /** undici sends a PING when a call has timed out and drops the connection when no answer comes, so one is made that may. */
  async #probe(): Promise<void> {
    try {
      const times = { headersTimeout: probeMs, bodyTimeout: probeMs };
      const reply = await requestOf.call(this.#pool, { method: 'GET', path: '/livez', ...times });
      await reply.body.dump();
    } catch {
      // The calls that wait hear of it themselves.
    }
  }
}
