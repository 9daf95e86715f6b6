import { once } from 'node:events';
import type { Http2SecureServer, Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { createSecureServer } from 'node:http2';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLineSplitter } from '../../src/kube/lines.ts';
import { createAuthority } from '../../src/x509.ts';

/** What the proxy does to a request instead of just passing it on to the real kube-apiserver. */
export type Fault =
  /** Answered by the proxy; the server never sees it. */
  | { kind: 'status'; code: number; headers?: Record<string, string>; body?: unknown }
  /** Passed on after a while. */
  | { kind: 'delay'; ms: number }
  /** Passed on with another query. */
  | { kind: 'query'; set: Record<string, string> }
  /** Never answered; the server never sees it. */
  | { kind: 'hang' }
  /** The whole connection is cut, before the server has seen the request or after it has answered. */
  | { kind: 'cut'; when: 'before' | 'after' }
  /** The reply is cut, and its connection with it, after so many bytes. */
  | { kind: 'cutReply'; bytes: number }
  /** The connection gets a GOAWAY; the request is answered. */
  | { kind: 'goaway' }
  /** The body is remade, for a list. */
  | { kind: 'body'; change: (text: string) => string }
  /** Every line of the reply becomes others, for a watch. */
  | { kind: 'lines'; change: (line: string) => string[] }
  /** The reply begins and then nothing more comes, for a watch. */
  | { kind: 'silence' };

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
}

export type Matcher = (request: SeenRequest) => boolean;

export interface FaultProxy {
  readonly server: string;
  readonly caPem: string;
  readonly seen: readonly SeenRequest[];
  /** Does it to the next `times` requests that match (default: all), until the returned function is called. */
  inject(match: Matcher, fault: Fault, times?: number): () => void;
  /** Cuts every connection. */
  cutAll(): void;
  /** Ends every connection the way kube-apiserver does with its --goaway-chance. */
  goawayAll(): void;
  /** From now on the certificate is another authority's; connections are cut. */
  rotateAuthority(): Promise<{ caPem: string }>;
  connections(): { open: number; most: number; opened: number };
  close(): Promise<void>;
}

interface Rule {
  readonly match: Matcher;
  readonly fault: Fault;
  left: number;
}

export const isWatch: Matcher = ({ query }) => query.get('watch') === 'true';
export const isList: Matcher = ({ method, query }) => method === 'GET' && !query.has('watch');

/** A proxy that speaks HTTP/2 to the client and passes everything on to the real kube-apiserver, faults excepted. */
export async function startFaultProxy(upstream: { server: string; caPem: string }): Promise<FaultProxy> {
  const target = new URL(upstream.server);
  const agent = new Agent({ ca: upstream.caPem, keepAlive: true, maxSockets: 50 });
  const sockets = new Set<TLSSocket>();
  const sessions = new Set<Http2ServerRequest['stream']['session']>();
  const rules: Rule[] = [];
  const seen: SeenRequest[] = [];
  const counts = { most: 0, opened: 0 };
  let authority = await createAuthority('fault-proxy-1');
  const pair = await authority.issue({
    commonName: 'proxy',
    hosts: ['127.0.0.1', 'localhost'],
    usages: ['server'],
  });
  const server: Http2SecureServer = createSecureServer({
    cert: pair.certPem,
    key: pair.keyPem,
    allowHTTP1: true,
  });

  function faultOf(request: SeenRequest): Fault | undefined {
    const rule = rules.find(({ match, left }) => left > 0 && match(request));
    if (rule !== undefined) rule.left -= 1;
    return rule?.fault;
  }

  async function pass(request: Http2ServerRequest, response: Http2ServerResponse): Promise<void> {
    const url = new URL(request.url, target);
    const about = { method: request.method, path: url.pathname, query: url.searchParams };
    seen.push(about);
    const fault = faultOf(about);
    const cut = () => request.stream?.session?.socket.destroy();
    switch (fault?.kind) {
      case 'status':
        response.writeHead(fault.code, { 'content-type': 'application/json', ...fault.headers });
        response.end(fault.body === undefined ? '' : JSON.stringify(fault.body));
        return;
      case 'hang':
        return;
      case 'delay':
        await sleep(fault.ms);
        break;
      case 'query':
        Object.entries(fault.set).forEach(([key, value]) => url.searchParams.set(key, value));
        break;
      case 'cut':
        if (fault.when === 'before') {
          cut();
          return;
        }
        break;
      case 'goaway':
        request.stream.session?.goaway();
        request.stream.session?.close();
        break;
      default:
    }
    forward(request, response, url, fault, cut);
  }

  function forward(
    request: Http2ServerRequest,
    response: Http2ServerResponse,
    url: URL,
    fault: Fault | undefined,
    cut: () => void,
  ): void {
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(([name]) => !name.startsWith(':')),
    );
    const onward = httpsRequest(
      {
        host: target.hostname,
        port: target.port,
        path: url.pathname + url.search,
        method: request.method,
        headers,
        agent,
      },
      (reply) => answer(reply, response, fault, cut),
    );
    onward.on('error', () => request.stream.close(2));
    request.pipe(onward);
    response.on('close', () => onward.destroy());
  }

  function answer(
    reply: IncomingMessage,
    response: Http2ServerResponse,
    fault: Fault | undefined,
    cut: () => void,
  ): void {
    const { connection: _c, 'transfer-encoding': _t, 'content-length': _l, ...headers } = reply.headers;
    if (fault?.kind === 'cut') {
      reply.resume().on('end', cut);
      return;
    }
    response.writeHead(reply.statusCode ?? 500, headers);
    reply.on('error', () => response.stream.close(2));
    if (fault?.kind === 'silence') reply.resume();
    else if (fault?.kind === 'lines') {
      const splitter = createLineSplitter((line) =>
        fault.change(line).forEach((each) => response.write(`${each}\n`)),
      );
      reply.on('data', (chunk: Buffer) => splitter.push(chunk)).on('end', () => response.end());
    } else if (fault?.kind === 'body') {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk: Buffer) => chunks.push(chunk));
      reply.on('end', () => response.end(fault.change(Buffer.concat(chunks).toString('utf8'))));
    } else if (fault?.kind === 'cutReply') cutAfter(reply, response, fault.bytes, cut);
    else reply.pipe(response);
  }

  function cutAfter(
    reply: IncomingMessage,
    response: Http2ServerResponse,
    bytes: number,
    cut: () => void,
  ): void {
    let left = bytes;
    reply.on('data', (chunk: Buffer) => {
      if (left <= 0) return;
      const part = chunk.subarray(0, left);
      left -= part.length;
      response.write(part, () => {
        // The bytes are to arrive before the end does.
        if (left <= 0) setTimeout(cut, 50);
      });
    });
  }

  server.on(
    'request',
    (request: Http2ServerRequest, response: Http2ServerResponse) => void pass(request, response),
  );
  server.on('secureConnection', (socket: TLSSocket) => {
    sockets.add(socket);
    counts.opened += 1;
    counts.most = Math.max(counts.most, sockets.size);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
  });
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session)).on('error', () => undefined);
  });
  server.on('sessionError', () => undefined).on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cutAll = (): void => sockets.forEach((socket) => socket.destroy());

  return {
    server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    caPem: authority.certPem,
    seen,
    inject(match, fault, times = Number.POSITIVE_INFINITY) {
      const rule = { match, fault, left: times };
      rules.unshift(rule);
      return () => {
        rule.left = 0;
      };
    },
    cutAll,
    goawayAll: () =>
      sessions.forEach((session) => {
        session?.goaway();
        session?.close();
      }),
    async rotateAuthority() {
      authority = await createAuthority('fault-proxy-2');
      const next = await authority.issue({
        commonName: 'proxy',
        hosts: ['127.0.0.1', 'localhost'],
        usages: ['server'],
      });
      server.setSecureContext({ cert: next.certPem, key: next.keyPem });
      cutAll();
      return { caPem: authority.certPem };
    },
    connections: () => ({ open: sockets.size, ...counts }),
    async close() {
      cutAll();
      agent.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
