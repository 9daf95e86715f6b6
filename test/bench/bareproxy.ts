/**
 * The least that a process between clients and kube-apiserver can be: TLS and HTTP/1.1 on one side, three HTTP/2 connections
 * on the other, and nothing looked at. What it loses is lost by every such process of Node on this machine. Reads a
 * `BareProxy` as JSON from its standard input, writes where it listens.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type ClientHttp2Session } from 'node:http2';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { selfSigned } from '../../src/http/server/certificate.ts';

export interface BareProxy {
  /** Of kube-apiserver. */
  readonly origin: string;
  readonly caPem: string;
}

export interface BareProxyListens {
  readonly port: number;
  readonly caPem: string;
}

/** As many as svc3 has. */
const connections = 3;

function whole(stream: Readable): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.once('end', () => resolve(Buffer.concat(chunks)));
    stream.once('error', reject);
  });
}

async function forward(upstream: ClientHttp2Session, request: IncomingMessage, response: ServerResponse) {
  const stream = upstream.request({
    ':method': request.method,
    ':path': request.url,
    'content-type': 'application/json',
    authorization: request.headers.authorization,
  });
  const head = new Promise<number>((resolve, reject) => {
    stream.once('response', (headers) => resolve(headers[':status'] ?? 0));
    stream.once('error', reject);
  });
  const answered = Promise.all([head, whole(stream)]);
  // It may fail while the request is still being read.
  answered.catch(() => undefined);
  stream.end(await whole(request));
  const [status, body] = await answered;
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length });
  response.end(body);
}

const { origin, caPem } = (await json(process.stdin)) as BareProxy;
const sessions = new Map<number, ClientHttp2Session>();

/** kube-apiserver closes what was idle for a while, as between the turns of others. */
function sessionOf(place: number): ClientHttp2Session {
  const known = sessions.get(place);
  if (known !== undefined && !known.closed && !known.destroyed) return known;
  const session = connect(origin, { ca: caPem });
  // Its requests fail with it.
  session.on('error', () => session.destroy());
  sessions.set(place, session);
  return session;
}

for (let place = 0; place < connections; place += 1) sessionOf(place);
const pair = await selfSigned(['localhost']);
let next = 0;
const server = createServer({ key: pair.key, cert: pair.cert, keepAliveTimeout: 75_000 });
server.on('request', (request, response) => {
  forward(sessionOf(next++ % connections), request, response).catch((error: unknown) =>
    response.destroy(error as Error),
  );
});
server.listen(0, '127.0.0.1', () => {
  const listens: BareProxyListens = { port: (server.address() as AddressInfo).port, caPem: pair.cert };
  process.stdout.write(`${JSON.stringify(listens)}\n`);
});
