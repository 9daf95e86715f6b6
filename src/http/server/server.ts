import { randomUUID } from 'node:crypto';
import type { Http2SecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import multipart from '@fastify/multipart';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify';
import { Svc3Error } from '../../errors.ts';
import { answersIn, type LogAnswer } from './accesslog.ts';
import { statusRefusal, type ApiSurface } from '../call/apisurface.ts';
import { installBodyReader } from './body.ts';
import { ByteBudget, type ByteBudgetLimits, openByteBudget } from '../call/bytebudget.ts';
import { type ConnectionLimit, limitConnections } from './connectionlimit.ts';
import { trackConnections } from './connections.ts';
import { ConcurrencyLimit } from '../auth/limits.ts';
import { createMalformedAnswers, type MalformedAnswers } from './malformed.ts';
import type { HttpMetrics } from './metrics.ts';
import { maxFieldBytes } from '../uploads/multipart.ts';
import { beginRequest, fastifyPath, serveRoute, type PipelineContext } from './pipeline.ts';
import { refuse } from './reply.ts';
import { installRequestStates } from '../call/requeststate.ts';
import type { ReplyCheck } from './replycheck.ts';
import type { Route } from '../call/route.ts';
import type { Services } from '../call/services.ts';
import type { ServingTls } from './tls.ts';

export interface ServerOptions extends ServerLimits {
  readonly services: Services;
  readonly metrics: HttpMetrics;
  readonly tls: ServingTls;
  /** Default: by the log of the services. */
  readonly answered?: LogAnswer;
  /** Looks at every reply before it is sent; default: nothing does. */
  readonly checkReply?: ReplyCheck;
  readonly surfaces: readonly { readonly surface: ApiSurface; readonly routes: readonly Route[] }[];
}

/** What clients may take of a process, and for how long. */
export interface ServerLimits {
  readonly concurrentPerIdentity?: number;
  readonly longRunningPerIdentity?: number;
  /** Of JSON bodies of callers that are held in memory. */
  readonly bodyBytes?: ByteBudgetLimits;
  /** Connections on which no known caller has a request or stream; beyond, the oldest of the address with most is closed. */
  readonly unusedConnections?: number;
  readonly headersTimeoutMs?: number;
  /** Until a JSON body has come whole; default 30 s. */
  readonly bodyTimeoutMs?: number;
}

export interface HttpServer {
  readonly app: FastifyInstance;
  /** The node server: WebSocket upgrades are taken from it. */
  readonly server: Http2SecureServer;
  /** Aborted when draining begins. */
  readonly drain: AbortSignal;
  /** Aborted a moment before what still runs is cut. */
  readonly ending: AbortSignal;
  /** Keeps the connection of a request whose caller is known until what is returned is called, or it closes. */
  readonly use: ConnectionLimit['use'];
  listen(address: { host: string; port: number }): Promise<AddressInfo>;
  /**
   * Tells clients for `leaveMs` to use other connections while everything is still served, then stops taking
   * connections, lets running requests end (waiting deploys answer 202), and closes after `graceMs` at the latest.
   */
  close(graceMs: number, leaveMs?: number): Promise<void>;
}

const maxHeaderBytes = 32 * 1024;
const maxPartLength = 1024;
/** How long HTTP/2 clients get at least to learn that they shall send no more. */
const goodbyeMs = 250;
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

function requestId(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

function fastifyOptions(
  options: ServerOptions,
  malformed: MalformedAnswers,
  refusePath: RefusePath,
): FastifyServerOptions {
  return {
    http2: true,
    https: {
      ...options.tls.options,
      allowHTTP1: true,
      // Else the last piece of a reply waits for the client's delayed acknowledgement.
      noDelay: true,
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: options.headersTimeoutMs ?? 20_000,
      // Node looks only this often for connections whose headers are late.
      connectionsCheckingInterval: Math.min(options.headersTimeoutMs ?? 5_000, 5_000),
      requestTimeout: 0,
      keepAliveTimeout: 75_000,
      handshakeTimeout: 20_000,
      settings: { maxConcurrentStreams: 250, maxHeaderListSize: maxHeaderBytes },
    },
    logger: false,
    http2SessionTimeout: 300_000,
    genReqId: (request: { headers: Record<string, string | string[] | undefined> }) =>
      requestId(request.headers['x-request-id']),
    forceCloseConnections: false,
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: maxPartLength, caseSensitive: true },
    clientErrorHandler: malformed.answer,
    frameworkErrors: refusePath,
  } as unknown as FastifyServerOptions;
}

type RefusePath = (
  error: Error & { readonly code?: string },
  request: FastifyRequest,
  reply: FastifyReply,
) => void;

/** What the router takes for no path is refused in the words of its API surface too. No hook of the server sees such a request. */
function createPathRefusal(ownerOf: (path: string) => ApiSurface): RefusePath {
  return ({ code: why }, request, reply) => {
    const isTooLong = why === 'FST_ERR_MAX_PARAM_LENGTH';
    const problem = isTooLong
      ? `has a part of more than ${maxPartLength} characters`
      : 'is not percent-encoded UTF-8';
    const causes = [{ field: 'path', message: problem }];
    const code = isTooLong ? 414 : 400;
    const error = new Svc3Error('BadRequest', `path: ${problem}`, { details: { causes } });
    const body = ownerOf(request.url).refusal(error, request) as Readonly<Record<string, unknown>>;
    void reply
      .code(code)
      .header('x-content-type-options', 'nosniff')
      .header('cache-control', 'no-store')
      // Of a Status alone.
      .send('code' in body ? { ...body, code } : body);
  };
}

const unknownPath: ApiSurface = {
  name: 'none',
  caller: () => {
    throw new Svc3Error('Unauthorized', 'Unauthorized');
  },
  refusal: statusRefusal,
};

/** Other methods of known paths answer 405 with `Allow`. */
function refuseOtherMethods(
  app: FastifyInstance,
  surface: ApiSurface,
  routes: readonly Route[],
  context: PipelineContext,
): void {
  const allowed = new Map<string, Set<string>>();
  for (const { path, method } of routes) {
    const shape = fastifyPath(path).replaceAll(/:\w+/g, ':_');
    const known = allowed.get(shape) ?? new Set();
    known.add(method);
    allowed.set(shape, known);
  }
  const done = new Set<string>();
  for (const { path } of routes) {
    const shape = fastifyPath(path).replaceAll(/:\w+/g, ':_');
    if (done.has(shape)) continue;
    done.add(shape);
    const known = allowed.get(shape) ?? new Set();
    const others = methods.filter((method) => !known.has(method));
    app.route({
      method: others,
      url: fastifyPath(path),
      config: { route: 'methodNotAllowed', surface: surface.name },
      handler: (request, reply) => {
        void reply.header('allow', [...known].join(', '));
        const error = new Svc3Error(
          'MethodNotAllowed',
          `${request.method} is not supported here, use ${[...known].join(' or ')}`,
        );
        return refuse(surface, request, reply, error, context.services.log);
      },
    });
  }
}

/** One TLS listener (HTTP/2 and HTTP/1.1) with the routes of its API surfaces. */
export function createServer(options: ServerOptions): HttpServer {
  const draining = new AbortController();
  const bodies = new ByteBudget(options.bodyBytes);
  const openBodies = new ByteBudget(openByteBudget);
  options.metrics.countBodies(() => bodies.total + openBodies.total);
  const malformed = createMalformedAnswers(maxHeaderBytes);
  const ownerOf = (path: string): ApiSurface =>
    options.surfaces.find(({ surface }) => surface.owns?.(path) === true)?.surface ?? unknownPath;
  const app: FastifyInstance = Fastify(fastifyOptions(options, malformed, createPathRefusal(ownerOf)));
  const server = app.server as unknown as Http2SecureServer;
  const inUse = limitConnections(server, options.unusedConnections);
  const context: PipelineContext = {
    services: options.services,
    connections: inUse,
    metrics: options.metrics,
    drain: draining.signal,
    answered: options.answered ?? answersIn(options.services.log),
    ...(options.checkReply === undefined ? {} : { checkReply: options.checkReply }),
    limits: {
      short: new ConcurrencyLimit(options.concurrentPerIdentity ?? 1000, 'requests of this identity'),
      long: new ConcurrencyLimit(options.longRunningPerIdentity ?? 500, 'waiting requests of this identity'),
      bodies,
      openBodies,
    },
  };
  options.tls.attach(server);
  malformed.follow(server);
  const connections = trackConnections(server);

  void app.register(multipart, {
    limits: { fileSize: Infinity, fieldSize: maxFieldBytes, fields: 16, files: 4, parts: 20 },
  });
  installRequestStates(app);
  app.addHook('onRequest', (request, reply, done) => {
    beginRequest(request, reply, context);
    done(malformed.refusal(request.raw));
  });
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (connections.leaving && request.raw.httpVersionMajor === 1) void reply.header('connection', 'close');
    if (request.raw.httpVersionMajor === 2) void reply.removeHeader('connection');
    void reply.header('x-content-type-options', 'nosniff');
    if (!reply.hasHeader('cache-control')) void reply.header('cache-control', 'no-store');
    done();
  });
  installBodyReader(app, options.bodyTimeoutMs);
  app.setErrorHandler((error, request, reply) => {
    void refuse(ownerOf(request.url), request, reply, error, context.services.log);
  });
  app.setNotFoundHandler((request, reply) => {
    return refuse(
      ownerOf(request.url),
      request,
      reply,
      new Svc3Error('NotFound', 'the server could not find the requested resource'),
      context.services.log,
    );
  });
  for (const { surface, routes: own } of options.surfaces) {
    for (const route of own) serveRoute(app, route, surface, context);
    refuseOtherMethods(app, surface, own, context);
  }

  return {
    app,
    server,
    drain: draining.signal,
    ending: connections.ending,
    use: inUse.use,
    async listen({ host, port }) {
      await app.listen({ host, port });
      return server.address() as AddressInfo;
    },
    async close(graceMs, leaveMs = 0) {
      connections.leave();
      await new Promise((resolve) => setTimeout(resolve, Math.max(leaveMs, goodbyeMs)));
      draining.abort(new Error('the server is draining'));
      await connections.close(graceMs);
      await app.close().catch(() => undefined);
    },
  };
}
