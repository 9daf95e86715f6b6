import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Svc3Error } from '../../errors.ts';
import type { LogAnswer } from './accesslog.ts';
import type { ApiSurface } from '../call/apisurface.ts';
import { hasNoBody, requireJson } from './body.ts';
import type { ByteBudget } from '../call/bytebudget.ts';
import { validate } from '../../wire/fields.ts';
import type { JsonValue } from '../../wire/fields.ts';
import { clientOf } from '../auth/clientaddress.ts';
import type { ConcurrencyLimit } from '../auth/limits.ts';
import type { ConnectionLimit } from './connectionlimit.ts';
import type { HttpMetrics } from './metrics.ts';
import { requireTaken, uploadOf } from '../uploads/multipart.ts';
import { attributesOf, refusedFor } from '../auth/permission.ts';
import type { ReplyCheck } from './replycheck.ts';
import { addSurfaceHeaders, addWarnings, refuse, send } from './reply.ts';
import { beginState, type RequestState, stateOf } from '../call/requeststate.ts';
import type { Call, Route, Upload } from '../call/route.ts';
import type { Caller } from '../call/caller.ts';
import type { Services } from '../call/services.ts';

export interface Limits {
  readonly short: ConcurrencyLimit;
  readonly long: ConcurrencyLimit;
  /** Of callers. */
  readonly bodies: ByteBudget;
  /** Of those who have shown no token. */
  readonly openBodies: ByteBudget;
}

export interface PipelineContext {
  readonly services: Services;
  readonly limits: Limits;
  readonly connections: ConnectionLimit;
  readonly metrics: HttpMetrics;
  readonly drain: AbortSignal;
  readonly answered: LogAnswer;
  readonly checkReply?: ReplyCheck;
}

/** Beginning of every request of every API surface, also of those that no route takes. */
export function beginRequest(request: FastifyRequest, reply: FastifyReply, context: PipelineContext): void {
  const state = beginState(request);
  context.metrics.started();
  void reply.header('x-request-id', request.id);
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) state.hangUp();
    endRequest(request, reply, context);
  });
}

/** Surface and route for access log and metrics, also of requests that no route of an API surface took. */
function namesOf(request: FastifyRequest, state: RequestState): { surface: string; route: string } {
  if (state.route !== undefined) return { surface: state.surface ?? 'none', route: state.route.id };
  const { route = 'none', surface = 'none' } = request.routeOptions.config as {
    route?: string;
    surface?: string;
  };
  return { surface, route };
}

/** End of every request: one line of access log, without address, query, header or body, and the metrics. */
function endRequest(request: FastifyRequest, reply: FastifyReply, context: PipelineContext): void {
  const state = stateOf(request);
  state.ended = true;
  state.release?.();
  state.body?.release();
  state.leaveConnection?.();
  const { surface, route } = namesOf(request, state);
  const { id: requestId, method } = request;
  const { statusCode: status } = reply;
  const seconds = (performance.now() - state.startedAt) / 1000;
  context.metrics.ended({ surface, route, method, status, seconds });
  const { namespace } = (state.params ?? {}) as { namespace?: string };
  const durationMs = Math.round(seconds * 10_000) / 10;
  context.answered({ requestId, surface, route, method, status, durationMs, namespace });
}

/** Whether a route has a body that is read before its handler runs: its right is asked first. */
function readsBody({ bodyKind }: Route): boolean {
  return bodyKind === 'json';
}

/**
 * What has to hold before anything is read of a request. Who calls comes first, because limits are counted by identity; the limit comes
 * before the right, because to ask for a right is a call of kube-apiserver, of which one caller may not have any number under way; the
 * right comes before the body, because a body takes memory. Open and delegated routes have no right to ask for: their bodies are read of
 * everybody, and of everybody with a token, and what keeps these from taking the memory of others is how it is divided (`ByteBudget`).
 */
async function admit(
  route: Route,
  surface: ApiSurface,
  request: FastifyRequest,
  context: PipelineContext,
): Promise<void> {
  const state = stateOf(request);
  state.route = route;
  state.surface = surface.name;
  if (route.permission.kind !== 'open') {
    const caller = surface.caller(request);
    // Most are known at once: no turn of the event loop is spent on them.
    state.caller = caller instanceof Promise ? await caller : caller;
    // `endRequest` has run: nothing would release what is taken from here on.
    if (state.ended) throw new Svc3Error('BadRequest', 'the client hung up');
    state.leaveConnection = context.connections.use(request.raw);
  }
  const limit = route.longRunning === true ? context.limits.long : context.limits.short;
  const identity = state.caller?.key ?? clientOf(request.ip);
  state.release = limit.take(identity);
  route.precondition?.({ header: (name) => headerOf(request, name), services: context.services });
  if (readsBody(route)) {
    const { bodies, openBodies } = context.limits;
    state.body = (state.caller === undefined ? openBodies : bodies).open(identity);
  }
  state.params = validate(
    route.params,
    { ...(request.params as Record<string, string>), ...surface.parameters?.(request) },
    'path',
    () => undefined,
  );
  // A native write is made with the caller's token, so kube-apiserver authorises it; its right is asked here only to spare reading a body.
  const attributes = attributesOf(route.permission, state.params);
  if (attributes !== undefined && (route.permission.kind === 'checked' || readsBody(route)))
    await state.caller?.authorize(attributes);
}

/** Who calls an open route. */
const anonymous: Caller = {
  key: '',
  get client(): never {
    throw new Svc3Error('Unauthorized', 'Unauthorized');
  },
  authorize: () => Promise.reject(new Svc3Error('Unauthorized', 'Unauthorized')),
  user: () => Promise.resolve({}),
};

/** What the client calls this server, for links in replies: by the header, which is the client's own word, so only where it can be a host. */
function baseUrlOf(request: FastifyRequest): string {
  const host = request.headers.host ?? (request.headers[':authority'] as string | undefined) ?? request.host;
  return `https://${/^[A-Za-z0-9.:[\]-]{1,255}$/.test(host) ? host : 'localhost'}`;
}

/** Bytes of a body as JSON, of which no text is a part of the one that came (`parseJson`). */
function bytesOf(body: unknown): number {
  return body === undefined ? 0 : Buffer.byteLength(JSON.stringify(body));
}

function callOf(
  route: Route,
  request: FastifyRequest,
  context: PipelineContext,
): Call<unknown, unknown, unknown> {
  const state = stateOf(request);
  const warn = (text: string): void => state.warn(text);
  const query = validate(route.query, queryOf(request), 'query', warn);
  const body = readsBody(route)
    ? validate(route.body, request.body as JsonValue | undefined, 'body', warn)
    : undefined;
  // A handler may wait for minutes: it has the validated body, and the parsed one need not stay in memory so long.
  request.body = undefined;
  state.body?.shrink(bytesOf(body));
  return {
    params: state.params,
    query,
    body,
    caller: state.caller ?? anonymous,
    services: context.services,
    get signal() {
      return state.hungUp;
    },
    drain: context.drain,
    get baseUrl() {
      return baseUrlOf(request);
    },
    address: request.ip,
    ...(request.headers.accept === undefined ? {} : { accept: request.headers.accept }),
    header: (name) => headerOf(request, name),
    ...(route.bodyKind === 'upload' ? { upload: takenBy(route, request) } : {}),
    warn,
  };
}

/** @throws Svc3Error UnsupportedMediaType */
function takenBy({ takes }: Route, request: FastifyRequest): Upload {
  const upload = uploadOf(request);
  if (takes !== undefined) requireTaken(takes, upload);
  return upload;
}

function headerOf({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.at(-1) : value;
}

function queryOf(request: FastifyRequest): JsonValue {
  const query: Record<string, JsonValue> = {};
  for (const [key, value] of Object.entries(request.query as Record<string, string | string[]>)) {
    const text = Array.isArray(value) ? (value.at(-1) ?? '') : value;
    if (text.includes('\0') || !text.isWellFormed())
      throw new Svc3Error('Invalid', `${key}: must not contain NUL or a lone surrogate`, {
        details: { causes: [{ field: key, message: 'must not contain NUL or a lone surrogate' }] },
      });
    query[key] = text;
  }
  return query;
}

/** `/a/{b}` as Fastify writes it. */
export function fastifyPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

async function run(
  route: Route,
  surface: ApiSurface,
  request: FastifyRequest,
  reply: FastifyReply,
  context: PipelineContext,
): Promise<void> {
  const state = stateOf(request);
  try {
    const given = route.handler(callOf(route, request, context));
    const answer = given instanceof Promise ? await given : given;
    context.checkReply?.(route, answer);
    addWarnings(request, reply);
    addSurfaceHeaders(surface, route, request, reply);
    send(request, reply, answer);
  } catch (error) {
    addSurfaceHeaders(surface, route, request, reply);
    const refusal = await refusedFor(route, state.params, state.caller, error);
    refuse(surface, request, reply, refusal, context.services.log);
  }
}

/** Serves one route on an instance: authenticate, limit, authorise, read, validate, run, write. */
export function serveRoute(
  app: FastifyInstance,
  route: Route,
  surface: ApiSurface,
  context: PipelineContext,
): void {
  app.route({
    method: route.method,
    url: fastifyPath(route.path),
    config: { route: route.id, surface: surface.name },
    onRequest: async (request) => {
      await admit(route, surface, request, context);
      if (!readsBody(route)) return;
      // Over HTTP/2 a body may come with neither type nor length (kubectl create --raw): without a type it is not read.
      request.headers['content-type'] ||= 'application/json';
      // Clients name a type out of habit, also where they send no body.
      if (hasNoBody(request.raw)) request.headers['content-type'] = 'application/json';
      requireJson(request.headers['content-type']);
    },
    // Fastify waits for the reply to be sent. A promise that is returned would have to last until the reply's last byte.
    handler(request, reply) {
      // Unread, what a client sends along would be held for as long as the answer takes.
      if (route.bodyKind === 'none' && !hasNoBody(request.raw)) request.raw.resume();
      run(route, surface, request, reply, context).catch((error: unknown) => reply.send(error));
    },
    errorHandler(error, request, reply) {
      addSurfaceHeaders(surface, route, request, reply);
      void refuse(surface, request, reply, error, context.services.log);
    },
  });
}
