import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Svc3Error } from '../../errors.ts';
import type { ApiSurface } from '../call/apisurface.ts';
import { largeBytes, Pieces } from './pieces.ts';
import { findState, stateOf } from '../call/requeststate.ts';
import type { Reply, Route } from '../call/route.ts';
import type { Services } from '../call/services.ts';
import { refusalFrom } from '../call/status.ts';

/** A text as one `Warning` header (RFC 9111, 5.5): ASCII only, since Node refuses to write others. */
function warningHeader(text: string): string {
  return `299 - "${text
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .replaceAll(/["\\]/g, "'")
    .slice(0, 1000)}"`;
}

/** What is sent of a stream: to HEAD nothing, whose end ends the stream too. Fastify would read all of it, behind a request that is over. */
function contentFor({ method }: FastifyRequest, stream: Readable): Readable {
  if (method !== 'HEAD') return stream;
  stream.on('error', () => undefined).destroy();
  return Readable.from([]);
}

/**
 * Sends an answer of a handler: its stream or raw bytes as they are, else JSON. A large JSON goes out in pieces, since TLS would encrypt all
 * of it at once for each reader. To HEAD no stream is read.
 */
export function send(request: FastifyRequest, reply: FastifyReply, answer: Reply): FastifyReply {
  void reply.code(answer.status ?? 200);
  for (const [name, value] of Object.entries(answer.headers ?? {})) void reply.header(name, value);
  if (answer.stream !== undefined) return reply.send(contentFor(request, answer.stream));
  if (answer.raw !== undefined) return reply.send(answer.raw);
  void reply.type('application/json; charset=utf-8');
  const json = answer.json ?? JSON.stringify(answer.body);
  if (typeof json === 'string' || json.length <= largeBytes) return reply.send(json);
  return reply.header('content-length', json.length).send(contentFor(request, new Pieces(json)));
}

export function addWarnings(request: FastifyRequest, reply: FastifyReply): void {
  const { warnings } = stateOf(request);
  if (warnings.length > 0) void reply.header('warning', warnings.map(warningHeader));
}

/** Headers that the API surface has for the route, whatever the answer: called before a refusal, too. */
export function addSurfaceHeaders(
  surface: ApiSurface,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const params = (findState(request)?.params ?? request.params) as Readonly<Record<string, string>>;
  void reply.headers({ ...surface.headers?.(route, params) });
}

/**
 * What an administrator has to look at is an error; where somebody else failed, as a kube-apiserver or runner that is away, the access log
 * says that, and this line why. All else is an answer that svc3 means to give.
 */
function logRefusal(refusal: Svc3Error, requestId: string, log: Services['log']): void {
  const { status, reason, cause } = refusal;
  if (status < 500) return;
  const message = 'a request failed';
  if (cause instanceof Svc3Error) log.debug({ requestId, err: refusal }, message);
  else if (reason === 'InternalError') log.error({ requestId, err: cause ?? refusal }, message);
  else if (cause === undefined) log.debug({ requestId, err: refusal }, message);
  else log.warn({ requestId, err: refusal }, message);
}

/** Writes a refusal in the API surface's words; what we did not expect is told as InternalError. */
export function refuse(
  surface: ApiSurface,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  log: Services['log'],
): FastifyReply {
  const refusal = refusalFrom(error);
  logRefusal(refusal, request.id, log);
  const { retryAfterSeconds } = refusal.details;
  if (refusal.status === 429 || refusal.status === 503)
    void reply.header('retry-after', String(retryAfterSeconds ?? 1));
  if (refusal.status === 401) void reply.header('www-authenticate', 'Bearer realm="svc3"');
  // A body that was not read to its end cannot be followed by another request.
  if (refusal.status === 413 || !request.raw.complete) void reply.header('connection', 'close');
  if (findState(request) !== undefined) addWarnings(request, reply);
  const body = JSON.stringify(surface.refusal(refusal, request));
  return reply.code(refusal.status).type('application/json; charset=utf-8').send(body);
}
