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
const renewPauseMs = 1_000;

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
  exchange(options: Dispatcher.DispatchOptions, cut: Cut): Promise<WholeReply>;
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
  const live = new Set<Socket>();
  const listeners = new Set<() => void>();
  let opened = 0;
  const { http1Only } = options;
  let multiplexed = http1Only === undefined && origin.startsWith('https:');
  let cached: { fingerprint: string; connector: buildConnector.connector } | undefined;

  /** GOAWAY leaves the old connection open beside its successor: wait for it, then cut it, so that there is never a second one. */
  async function slot(): Promise<void> {
    const until = performance.now() + drainMs;
    const mustWait = (): boolean => multiplexed && live.size > 0;
    while (mustWait() && performance.now() < until) {
      await sleep(10);
    }
    if (mustWait()) {
      live.forEach((socket) => socket.destroy());
    }
  }

  async function connectorNow(): Promise<buildConnector.connector> {
    const tls = await readTls();
    const key = fingerprint(tls);
    if (cached?.fingerprint !== key) {
      // undici offers http/1.1 first unless told otherwise, and load balancers that follow the client's order then take it.
      cached = {
        fingerprint: key,
        connector: connectorOf({
          ...(tls as buildConnector.BuildOptions),
          allowH2: http1Only === undefined,
          preferH2: http1Only === undefined,
          timeout: connectTimeoutMs,
          keepAliveInitialDelay: keepAliveMs,
        }),
      };
    }
    return cached.connector;
  }

  async function open(options: buildConnector.Options): Promise<Socket> {
    await slot();
    const socket = await connect(await connectorNow(), options);
    live.add(socket);
    // undici stops listening before the socket is done: a late error must not end the process.
    socket.on('error', () => undefined);
    opened += 1;
    socket.once('close', () => live.delete(socket));
    const { alpnProtocol } = socket as { alpnProtocol?: unknown };
    if (multiplexed && alpnProtocol !== 'h2') {
      multiplexed = false;
      replacePool();
    }
    return socket;
  }

  function createPool() {
    const created = new Pool(origin, {
      connections: multiplexed ? 1 : (http1Only?.connections ?? http1Connections),
      connect: (options, callback) => {
        open(options).then(
          (socket) => callback(null, socket),
          (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
        );
      },
      allowH2: http1Only === undefined,
      keepAliveTimeout: idleMs,
      h2Options: { connectionWindowSize: connectionWindowBytes },
    });
    created.on('disconnect', (_origin, _targets, error) => {
      if (error.message.includes('GOAWAY')) {
        listeners.forEach((listener) => listener());
      }
    });
    return created;
  }

  let pool = createPool();

  let renewedAt = Number.NEGATIVE_INFINITY;
  let probing = false;

  /** undici sends a PING when a call has timed out and drops the connection when no answer comes, so one is made that may. */
  async function probe(): Promise<void> {
    try {
      const options = {
        method: 'GET',
        path: '/livez',
        headersTimeout: probeMs,
        bodyTimeout: probeMs,
      } as const;
      await (await requestOf.call(pool, options)).body.dump();
    } catch {
      // The calls that wait hear of it themselves.
    }
  }

  function replacePool(): void {
    const old = pool;
    pool = createPool();
    old.close().catch(() => undefined);
  }

  return {
    exchange: (options, cut) => exchange(pool, options, cut),
    request: (options) => requestOf.call(pool, options),
    suspect() {
      if (!probing) {
        probing = true;
        void probe().finally(() => {
          probing = false;
        });
      }
    },
    renew() {
      if (performance.now() - renewedAt < renewPauseMs) {
        return;
      }
      renewedAt = performance.now();
      replacePool();
      listeners.forEach((listener) => listener());
    },
    onMoved(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    connections: () => live.size,
    opened: () => opened,
    async close() {
      await pool.destroy();
      live.forEach((socket) => socket.destroy());
    },
  };
}
