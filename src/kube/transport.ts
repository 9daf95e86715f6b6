import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import type { Dispatcher } from 'undici';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { ConnectionConfig } from './connection.ts';
import { readPem } from './connection.ts';
import { callerCredential, createCredential } from './credential.ts';
import type { Credential } from './credential.ts';
import { createEndpoint } from './endpoint.ts';
import type { Endpoint } from './endpoint.ts';
import { errorOfConnection, errorOfReply, retryAfterOf, wasNeverSent } from './errors.ts';
import { withQuery } from './path.ts';
import { retryDelay } from './retry.ts';
import type { Failure } from './retry.ts';
import type { RawRequest, RawResponse, StreamRequest, StreamResponse } from './types.ts';

export const defaultTimeoutMs = 30_000;

/** Bookmarks come about once a minute: two and a half times that without a byte is a dead connection. */
export const defaultSilenceMs = 150_000;

/** How long a caller's token that was accepted once counts as proven. */
const provenMs = 5 * 60_000;
const provenLimit = 10_000;

/** One finished call, for metrics. `code` 0: no answer came. */
export interface Call {
  readonly method: string;
  readonly code: number;
  readonly durationMs: number;
}

export interface TransportOptions {
  userAgent?: string;
  onCall?: (call: Call) => void;
}

export interface Transport {
  readonly credential: Credential;
  /** @param guard - runs before every attempt; what it throws ends the call. */
  call(request: RawRequest, guard?: () => void): Promise<RawResponse>;
  stream(request: StreamRequest): Promise<StreamResponse>;
  withToken(token: string): Transport;
  /** Open sockets of the whole family of transports now, and opened since the start. */
  connections(): { open: number; opened: number };
  close(): Promise<void>;
}

/** Reply headers as undici gives them. */
type Headers = Dispatcher.ResponseData['headers'];

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64');
}

/** Tokens that kube-apiserver has accepted, by hash, forgotten after a while. */
function createProvenTokens() {
  const until = new Map<string, number>();
  return {
    has: (hash: string): boolean => (until.get(hash) ?? 0) > performance.now(),
    settle(hash: string, accepted: boolean): void {
      until.delete(hash);
      if (!accepted) {
        return;
      }
      until.set(hash, performance.now() + provenMs);
      const [oldest] = until.keys();
      if (until.size > provenLimit && oldest !== undefined) {
        until.delete(oldest);
      }
    },
  };
}

/**
 * The three connections that one process has to one kube-apiserver: its own, one for callers whose token was accepted
 * lately, one for all others. kube-apiserver answers a refused token with GOAWAY on that connection, so strangers must
 * not share one with watches, nor with callers that behave.
 */
function createEndpoints(config: ConnectionConfig, credential: Credential) {
  const origin = new URL(config.server).origin;
  const readTls = async (own: boolean): Promise<ConnectionOptions> => {
    const certificate = own ? await credential.clientCertificate() : undefined;
    return {
      ...(config.ca === undefined ? {} : { ca: await readPem(config.ca) }),
      ...(config.insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {}),
      ...(config.tlsServerName === undefined ? {} : { servername: config.tlsServerName }),
      ...certificate,
    };
  };
  const made = new Map<string, Endpoint>();
  return {
    get(role: 'own' | 'proven' | 'unproven'): Endpoint {
      const endpoint = made.get(role) ?? createEndpoint(origin, () => readTls(role === 'own'));
      made.set(role, endpoint);
      return endpoint;
    },
    all: (): Endpoint[] => [...made.values()],
  };
}

/** Text of every `Warning` header (code 299, RFC 9111); HTTP/2 joins several with commas. */
export function warningsOf(headers: Headers): string[] {
  const value = headers['warning'];
  const text = Array.isArray(value) ? value.join(', ') : (value ?? '');
  return [...text.matchAll(/\b\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map(([, message]) =>
    (message ?? '').replaceAll(/\\(.)/g, '$1'),
  );
}

function decode(text: string, headers: Headers): unknown {
  const type = String(headers['content-type'] ?? '');
  if (!type.includes('json')) {
    return text;
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Svc3Error('BadGateway', 'kube-apiserver answered with broken JSON', { cause });
  }
}

/** An abort signal that fires with the caller's or after a time, and lets go of the caller's when done. */
function deadline(signal: AbortSignal | undefined, ms: number, what: string) {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Svc3Error('Timeout', `${what}: no answer within ${Math.round(ms)} ms`)),
    ms,
  );
  const forward = (): void => controller.abort(signal?.reason);
  if (signal?.aborted === true) {
    forward();
  }
  signal?.addEventListener('abort', forward, { once: true });
  return {
    controller,
    stopTimer: (): void => clearTimeout(timer),
    release(): void {
      clearTimeout(timer);
      signal?.removeEventListener('abort', forward);
    },
  };
}

interface Identity {
  readonly credential: Credential;
  endpoint(): Endpoint;
  settle(code: number): void;
}

export function createTransport(config: ConnectionConfig, options: TransportOptions = {}): Transport {
  const { host, pathname } = new URL(config.server);
  const prefix = pathname.replace(/\/+$/, '');
  const own = createCredential(config);
  const endpoints = createEndpoints(config, own);
  const proven = createProvenTokens();

  async function send(
    identity: Identity,
    request: RawRequest,
    signal: AbortSignal,
    limits: { headersTimeout: number; bodyTimeout: number },
  ) {
    const authorization = await identity.credential.authorization();
    signal.throwIfAborted();
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    return identity.endpoint().request({
      method: request.method,
      path: prefix + withQuery(request.path, request.query),
      headers: {
        accept: 'application/json',
        'user-agent': options.userAgent ?? 'svc3',
        ...(body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' }),
        ...(authorization === undefined ? {} : { authorization }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body }),
      signal,
      ...limits,
    });
  }

  /** The error of a failed attempt; the caller's own abort comes out as it was given. */
  function failureOf(thrown: unknown, signal: AbortSignal): Failure {
    if (signal.aborted) {
      return { error: signal.reason, neverSent: false };
    }
    if (isSvc3Error(thrown)) {
      return { error: thrown, neverSent: false };
    }
    return { error: errorOfConnection(thrown, host), neverSent: wasNeverSent(thrown) };
  }

  function refuse(identity: Identity, code: number, text: string, headers: Headers): never {
    identity.settle(code);
    let body: unknown = text;
    try {
      body = decode(text, headers);
    } catch {
      // The raw text says more than a parse error.
    }
    throw errorOfReply(code, body, retryAfterOf(headers['retry-after']));
  }

  async function attempt(identity: Identity, request: RawRequest, leftMs: number): Promise<RawResponse> {
    const started = performance.now();
    const limit = deadline(request.signal, leftMs, `${request.method} ${request.path}`);
    const { signal } = limit.controller;
    let code = 0;
    try {
      // undici asks the server for a PING when its own time-out fires, and drops a connection that is dead: let it fire first.
      const headersTimeout = Math.max(1, Math.floor(leftMs * 0.95));
      const reply = await send(identity, request, signal, {
        headersTimeout,
        bodyTimeout: Math.max(1, Math.ceil(leftMs)),
      });
      code = reply.statusCode;
      const text = await reply.body.text();
      if (code >= 400) {
        refuse(identity, code, text, reply.headers);
      }
      identity.settle(code);
      warningsOf(reply.headers).forEach((warning) => request.onWarning?.(warning));
      return { status: code, headers: reply.headers, body: decode(text, reply.headers) };
    } catch (error) {
      const failure = failureOf(error, signal);
      throw Object.assign(new Error('attempt failed', { cause: failure.error }), { failure });
    } finally {
      limit.release();
      options.onCall?.({ method: request.method, code, durationMs: performance.now() - started });
    }
  }

  async function call(identity: Identity, request: RawRequest, guard?: () => void): Promise<RawResponse> {
    const until = performance.now() + (request.timeoutMs ?? defaultTimeoutMs);
    let renewed = false;
    let earlier: unknown;
    for (let failures = 1; ; failures += 1) {
      request.signal?.throwIfAborted();
      guard?.();
      try {
        return await attempt(identity, request, Math.max(1, until - performance.now()));
      } catch (thrown) {
        const { failure } = thrown as { failure: Failure };
        if (!renewed && isSvc3Error(failure.error, 'Unauthorized') && identity.credential.renew()) {
          renewed = true;
          if ((await identity.credential.clientCertificate()) !== undefined) {
            identity.endpoint().renew();
          }
          continue;
        }
        const delay = retryDelay(request, failure, failures, until - performance.now());
        if (delay === undefined) {
          // Time ran out between two tries: what was wrong before says more.
          throw earlier !== undefined && isSvc3Error(failure.error, 'Timeout') ? earlier : failure.error;
        }
        earlier = failure.error;
        await sleep(delay, undefined, request.signal === undefined ? {} : { signal: request.signal });
      }
    }
  }

  async function stream(identity: Identity, request: StreamRequest): Promise<StreamResponse> {
    const started = performance.now();
    const limit = deadline(
      request.signal,
      request.timeoutMs ?? defaultTimeoutMs,
      `${request.method} ${request.path}`,
    );
    const { controller } = limit;
    const moved = (): void =>
      controller.abort(
        new Svc3Error('ServiceUnavailable', `kube-apiserver ${host} asked to use a new connection`),
      );
    const forget = request.movable === true ? identity.endpoint().onMoved(moved) : (): void => undefined;
    const release = (): void => {
      limit.release();
      forget();
    };
    let code = 0;
    try {
      const reply = await send(identity, request, controller.signal, {
        headersTimeout: request.timeoutMs ?? defaultTimeoutMs,
        bodyTimeout: request.silenceMs ?? defaultSilenceMs,
      });
      code = reply.statusCode;
      if (code >= 400) {
        const text = await reply.body.text();
        if (
          code === 401 &&
          identity.credential.renew() &&
          (await identity.credential.clientCertificate()) !== undefined
        ) {
          identity.endpoint().renew();
        }
        refuse(identity, code, text, reply.headers);
      }
      identity.settle(code);
      limit.stopTimer();
      return {
        status: code,
        headers: reply.headers,
        body: chunks(reply.body, (error) => failureOf(error, controller.signal).error, release),
        cancel: () => controller.abort(new Svc3Error('Timeout', 'cancelled')),
      };
    } catch (error) {
      release();
      throw failureOf(error, controller.signal).error;
    } finally {
      options.onCall?.({ method: request.method, code, durationMs: performance.now() - started });
    }
  }

  function createFor(identity: Identity): Transport {
    return {
      credential: identity.credential,
      call: (request, guard) => call(identity, request, guard),
      stream: (request) => stream(identity, request),
      withToken(token) {
        const hash = hashOf(token);
        return createFor({
          credential: callerCredential(token),
          endpoint: () => endpoints.get(proven.has(hash) ? 'proven' : 'unproven'),
          settle: (code) => proven.settle(hash, code !== 401),
        });
      },
      connections: () => ({
        open: endpoints.all().reduce((sum, endpoint) => sum + endpoint.connections(), 0),
        opened: endpoints.all().reduce((sum, endpoint) => sum + endpoint.opened(), 0),
      }),
      async close() {
        await Promise.all(endpoints.all().map((endpoint) => endpoint.close()));
      },
    };
  }

  return createFor({ credential: own, endpoint: () => endpoints.get('own'), settle: () => undefined });
}

async function* chunks(
  body: AsyncIterable<Uint8Array>,
  errorOf: (error: unknown) => unknown,
  release: () => void,
): AsyncIterable<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw errorOf(error);
  } finally {
    release();
  }
}
