/**
 * Generates load in a process of its own, so that it does not share a thread with what is measured. Reads a `Load` as JSON
 * from its standard input, writes a `LoadResult`.
 */
import { text } from 'node:stream/consumers';
import { Pool } from 'undici';
import { percentile } from './figures.ts';

export interface Load {
  readonly origin: string;
  readonly caPem: string;
  readonly token: string;
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
}

async function run(load: Load): Promise<LoadResult> {
  const pool = new Pool(load.origin, {
    connect: { ca: load.caPem },
    allowH2: false,
    connections: load.clients,
    pipelining: 1,
    headersTimeout: 120_000,
    bodyTimeout: 120_000,
  });
  const headers = {
    authorization: `Bearer ${load.token}`,
    accept: 'application/json',
    ...(load.body === undefined ? {} : { 'content-type': 'application/json' }),
  };
  const once = async (path: string, method: Load['method'], body?: string): Promise<number> => {
    const reply = await pool.request({ method, path, headers, ...(body === undefined ? {} : { body }) });
    let bytes = 0;
    for await (const chunk of reply.body as AsyncIterable<Buffer>) bytes += chunk.length;
    if (reply.statusCode >= 300) throw new Error(`${method} ${path} was answered ${reply.statusCode}`);
    return bytes;
  };
  // Connections are opened before, by something that both servers answer cheaply.
  await Promise.all(Array.from({ length: load.clients }, () => once('/version', 'GET').catch(() => 0)));
  const times: number[] = [];
  let next = 0;
  let bytes = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: load.clients }, async () => {
      for (let index = next++; index < load.requests; index = next++) {
        const start = performance.now();
        const received = await once(load.path, load.method, load.body?.replace('{index}', String(index)));
        times.push(performance.now() - start);
        bytes += received;
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  await pool.close();
  return {
    perSecond: load.requests / seconds,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    bytesPerReply: Math.round(bytes / load.requests),
  };
}

if (import.meta.main) {
  const load = JSON.parse(await text(process.stdin)) as Load;
  process.stdout.write(JSON.stringify(await run(load)));
}
