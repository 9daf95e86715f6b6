import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { KeyObject } from 'node:crypto';
import type { Logger } from 'pino';
import { WebSocketServer } from 'ws';
import { isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import {
  TokenError,
  verifyControlToken,
  type ControlAction,
  type ControlClaims,
} from '../runnerapi/token.ts';
import { streamEndsHeader } from '../runnerapi/streamends.ts';
import { createUses, type Uses } from '../runnerapi/uses.ts';
import { readWhole } from '../net/foreign.ts';
import { closeCodes, slowCloseOptions } from '../net/websocket.ts';
import { bridge, dialTarget, type StreamTarget } from './bridge.ts';
import type { RunnerCertificate } from './certificate.ts';
import { RunnerFailure } from './failure.ts';

/** What a route gets. */
export interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** Path segments that the route's pattern left open. */
  readonly parameters: readonly string[];
  /** The parsed JSON body, `{}` where there is none. */
  readonly body: unknown;
  /** Aborted when the connection ends: nobody waits for an answer any more. */
  readonly wanted: AbortSignal;
}

/** A route is data: its action is what the caller's token must name. `undefined` answers have been sent already. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly pattern: RegExp;
  /** Undefined: needs no token (probes), or brings its own proof (tickets). */
  readonly action?: ControlAction;
  readonly run: (call: Call) => Promise<unknown>;
}

/** A WebSocket route: names where the bytes go. */
export interface StreamRoute {
  readonly path: string;
  readonly action: ControlAction;
  readonly target: (query: URLSearchParams) => Promise<StreamTarget>;
}

export interface ControlOptions {
  /** The UID that tokens for this action have to name. */
  uid(action: ControlAction): string;
  readonly certificate: RunnerCertificate;
  readonly keys: () => Promise<readonly KeyObject[]>;
  readonly routes: readonly Route[];
  readonly streams: readonly StreamRoute[];
  readonly log: Logger;
}

const largestBody = 256 * 1024;
/** What the api takes of its clients, which it passes on. */
const largestFrame = 16 * 1024 * 1024;
/** How long those who have a stream may take to answer that it is over. */
const goodbyeMs = 500;
/** Longer than any ticket of the api is good for, and any token: nine minutes, where the clocks of caller and node differ by as much as they may. */
const usesRememberedMs = 600_000;

/** The runner's HTTPS endpoint. `listen` resolves with the port; `close` ends every connection. */
export function createControlServer(options: ControlOptions): {
  listen(host: string, port: number): Promise<number>;
  close(): Promise<void>;
} {
  const { certificate } = options;
  const server = createServer(
    {
      key: certificate.key,
      cert: certificate.certificate,
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['http/1.1'],
      maxHeaderSize: 16 * 1024,
    },
    (request, response) => void answer(options, request, response),
  );
  // Verbs wait for guests: only the arrival of a request is bounded, not its answer.
  server.headersTimeout = 10_000;
  server.requestTimeout = 30_000;
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    clientTracking: true,
    maxPayload: largestFrame,
    ...slowCloseOptions,
  });
  sockets.on('headers', (headers) => headers.push(`${streamEndsHeader}: told`));
  const uses = createUses(usesRememberedMs);
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => socket.destroy());
    void upgrade(options, { sockets, uses }, { request, socket, head });
  });
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return {
    listen: (host, port) => listen(server, host, port),
    close: async () => {
      await endStreams(sockets);
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Says to who has a stream that there will be none any more; who does not answer at once is cut. */
async function endStreams({ clients }: WebSocketServer): Promise<void> {
  const over = [...clients].map((ws) => new Promise((resolve) => ws.once('close', resolve)));
  for (const ws of clients) ws.close(closeCodes.goingAway, "the VM's runner has ended");
  const late = setTimeout(() => {
    for (const ws of clients) ws.terminate();
  }, goodbyeMs);
  await Promise.all(over);
  clearTimeout(late);
  // Somebody may have come meanwhile.
  for (const ws of clients) ws.terminate();
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port));
  });
}

async function answer(
  options: ControlOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const wanted = untilHungUp(response);
  try {
    const url = new URL(request.url ?? '/', 'https://runner');
    const { route, parameters } = findRoute(options.routes, request.method ?? 'GET', url.pathname);
    if (route.action !== undefined) await authorize(options, request, route.action);
    const body = await readBody(request);
    const query = url.searchParams;
    const reply = await route.run({ request, response, query, parameters, body, wanted });
    if (reply !== undefined) send(response, 200, reply);
  } catch (error) {
    const { status, body } = describe(error);
    if (status >= 500)
      options.log.warn({ method: request.method, status }, `request failed: ${body.message}`);
    if (response.headersSent) response.destroy();
    else send(response, status, body);
  }
}

function untilHungUp(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const why = new Svc3Error('ServiceUnavailable', 'whoever asked for this has hung up');
  response.once('close', () => gone.abort(why));
  return gone.signal;
}

function findRoute(
  routes: readonly Route[],
  method: string,
  path: string,
): { route: Route; parameters: string[] } {
  const found = routes.filter((route) => route.pattern.test(path));
  const route = found.find((candidate) => candidate.method === method);
  if (route !== undefined) return { route, parameters: (route.pattern.exec(path) ?? []).slice(1) };
  throw found.length === 0
    ? new Svc3Error('NotFound', `there is no ${path}`)
    : new Svc3Error('MethodNotAllowed', `${method} is not for ${path}`);
}

/** Throws Unauthorized; the reply says which check failed, and nothing of the token. */
async function authorize(
  options: ControlOptions,
  request: IncomingMessage,
  action: ControlAction,
): Promise<ControlClaims> {
  const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1];
  if (token === undefined) throw new Svc3Error('Unauthorized', 'a control token is required');
  const expected = {
    vmUid: options.uid(action),
    action,
    fingerprint: options.certificate.fingerprint,
    nowSeconds: Date.now() / 1000,
  };
  try {
    return verifyControlToken(token, await options.keys(), expected);
  } catch (error) {
    if (!(error instanceof TokenError)) throw error;
    throw new Svc3Error('Unauthorized', `the control token is refused: ${error.message}`);
  }
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const tooLarge = () => new Svc3Error('RequestEntityTooLarge', `a body has at most ${largestBody} bytes`);
  const body = await readWhole(request, largestBody, tooLarge);
  if (body.length === 0) return {};
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (cause) {
    throw new Svc3Error('BadRequest', 'the body is not JSON', { cause });
  }
}

interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

async function upgrade(
  options: ControlOptions,
  { sockets, uses }: { readonly sockets: WebSocketServer; readonly uses: Uses },
  { request, socket, head }: Upgrade,
): Promise<void> {
  try {
    const url = new URL(request.url ?? '/', 'https://runner');
    const route = options.streams.find((stream) => stream.path === url.pathname);
    if (route === undefined) throw new Svc3Error('NotFound', `there is no ${url.pathname}`);
    const { once } = await authorize(options, request, route.action);
    const named = await route.target(url.searchParams);
    const target = await dialTarget(named);
    if (once !== undefined && !uses.take(once)) {
      target.destroy();
      throw new Svc3Error('Gone', 'what may be used once has been used');
    }
    const leave = () => void target.destroy();
    socket.once('close', leave);
    if (socket.destroyed) leave();
    sockets.handleUpgrade(request, socket, head, (ws) => {
      socket.off('close', leave);
      bridge(ws, target, named);
    });
  } catch (error) {
    const { status, body } = describe(error);
    const text = JSON.stringify(body);
    socket.end(
      `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
    );
  }
}

/** Sends JSON. */
export function send(response: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  });
  response.end(text);
}

function describe(error: unknown): { status: number; body: { reason: string; message: string } } {
  if (isSvc3Error(error))
    return { status: error.status, body: { reason: error.reason, message: error.message } };
  if (error instanceof RunnerFailure)
    return { status: 503, body: { reason: error.reason, message: error.message } };
  return { status: 500, body: { reason: 'InternalError', message: messageOf(error) } };
}
