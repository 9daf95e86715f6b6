/**
 * Generates load in a process of its own, so that it does not share a thread with what is measured. Reads a `Load` as JSON
 * from its standard input, writes a `LoadResult`. It speaks HTTP/1.1 straight on TLS sockets and only counts the bytes of
 * a reply: what it costs is taken from both sides that are compared, and hides the difference between them.
 */
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { OnReadOpts } from 'node:net';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { percentile } from './figures.ts';
import { createReplyCounter, type Reply } from './replycounter.ts';

export interface Load {
  readonly origin: string;
  readonly caPem: string;
  /** Of the callers, whose requests take turns. */
  readonly tokens: readonly string[];
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** `{index}` stands for the number of the request. */
  readonly body?: string;
  /** Connections, each with one request at a time (HTTP/1.1). */
  readonly clients: number;
  readonly requests: number;
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly bytesPerReply: number;
  /** Times that a request was put off (429) and sent again: kube-apiserver does that to large lists of many clients. */
  readonly putOff: number;
  /** Of the generator itself. */
  readonly loadCpuMs: number;
}

/** Longest wait for one reply, ms. */
const replyTimeoutMs = 120_000;

interface Connection {
  /** One request at a time. */
  ask(request: string): Promise<Reply>;
  end(): void;
}

/** What arrives is looked at before anything else can arrive: all connections share one buffer. */
const shared = Buffer.allocUnsafeSlow(256 * 1024);

function open(origin: URL, caPem: string): Promise<Connection> {
  return new Promise((resolve, reject) => {
    let waiting: PromiseWithResolvers<Reply> | undefined;
    const counter = createReplyCounter();
    const fail = (error: Error): void => {
      reject(error);
      waiting?.reject(error);
    };
    const onBytes = (length: number): boolean => {
      const reply = counter.take(shared, length);
      if (reply !== undefined) waiting?.resolve(reply);
      return true;
    };
    const options: ConnectionOptions & { onread: OnReadOpts } = {
      host: origin.hostname,
      port: Number(origin.port),
      ca: caPem,
      ALPNProtocols: ['http/1.1'],
      onread: { buffer: shared, callback: onBytes },
    };
    const socket: TLSSocket = connect(options);
    socket.setNoDelay(true);
    socket.setTimeout(replyTimeoutMs, () => socket.destroy(new Error('no reply came')));
    socket.once('error', fail);
    socket.once('close', () => fail(new Error('the connection was closed')));
    socket.once('secureConnect', () =>
      resolve({
        ask(request) {
          waiting = Promise.withResolvers();
          socket.write(request);
          return waiting.promise;
        },
        end() {
          socket.off('error', fail);
          socket.destroy();
        },
      }),
    );
  });
}

function requestsOf({ origin, method, path, tokens, body }: Load): (index: number) => string {
  const heads = tokens.map(
    (token) =>
      `${method} ${path} HTTP/1.1\r\nHost: ${new URL(origin).host}\r\n` +
      `Authorization: Bearer ${token}\r\nAccept: application/json\r\n`,
  );
  const headOf = (index: number) => heads[index % heads.length] ?? '';
  if (body === undefined) return (index) => `${headOf(index)}\r\n`;
  return (index) => {
    const filled = body.replace('{index}', `${index}`);
    return `${headOf(index)}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(filled)}\r\n\r\n${filled}`;
  };
}

async function run(load: Load): Promise<LoadResult> {
  const origin = new URL(load.origin);
  const requestOf = requestsOf(load);
  const connections = await Promise.all(Array.from({ length: load.clients }, () => open(origin, load.caPem)));
  const times = new Float64Array(load.requests);
  let next = 0;
  let bytes = 0;
  let putOff = 0;
  const usage = process.cpuUsage();
  const began = performance.now();
  await Promise.all(
    connections.map(async (connection) => {
      for (let index = next++; index < load.requests; index = next++) {
        const start = performance.now();
        let reply = await connection.ask(requestOf(index));
        // As client-go does; the waits are a part of the time.
        while (reply.status === 429 && reply.retryAfterSeconds !== undefined) {
          putOff += 1;
          await delay(reply.retryAfterSeconds * 1000);
          reply = await connection.ask(requestOf(index));
        }
        times[index] = performance.now() - start;
        bytes += reply.bytes;
        if (reply.status >= 300) throw new Error(`${load.method} ${load.path} was answered ${reply.status}`);
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(usage);
  for (const connection of connections) connection.end();
  return {
    perSecond: load.requests / seconds,
    p50Ms: percentile([...times], 0.5),
    p99Ms: percentile([...times], 0.99),
    bytesPerReply: Math.round(bytes / load.requests),
    putOff,
    loadCpuMs: (user + system) / 1000 / load.requests,
  };
}

if (import.meta.main) {
  const load = JSON.parse(await text(process.stdin)) as Load;
  process.stdout.write(JSON.stringify(await run(load)));
}
