import { setTimeout as sleep } from 'node:timers/promises';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { ConnectionConfig } from './connection.ts';
import { callerCredential, createCredential } from './credential.ts';
import type { Credential } from './credential.ts';
import type { Endpoint } from './endpoint.ts';
import { Cut } from './exchange.ts';
import { errorOfConnection, errorOfReply, retryAfterOf, wasNeverSent } from './errors.ts';
import { createEndpoints, createProvenTokens, hashOf } from './identities.ts';
import { withQuery } from './path.ts';
import { decode, warningsOf } from './reply.ts';
import type { Headers } from './reply.ts';
import { applyPatch, retryDelay } from './retry.ts';
import type { Failure } from './retry.ts';
import type { RawRequest, RawResponse, StreamRequest, StreamResponse } from './types.ts';

export const defaultTimeoutMs = 30_000;

/** Bookmarks come about once a minute: two and a half times that without a byte is a dead connection. */
export const defaultSilenceMs = 150_000;

/**
 * kube-apiserver reads an apply with a YAML parser, which at every brace looks ahead for a key until the line ends: in lines an
 * apply takes it a tenth less memory than in one.
 */
function indentOf(contentType: string): number {
  return contentType === applyPatch ? 1 : 0;
}

/** One finished call, for metrics. `code` 0: no answer came. */
export interface Call {
  readonly method: string;
  readonly code: number;
  readonly durationMs: number;
}

/** A call that waits so long for its answer makes the connection suspect. */
const defaultSuspectMs = 5_000;

export interface TransportOptions {
  userAgent?: string;
  /** Milliseconds that a call waits before the connection is probed. Default 5,000. */
  suspectMs?: number;
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

/**
 * Cuts a call after a time or with the caller's signal; `suspect` is told when it takes suspiciously long. Ends with the
 * returned function. One timer: there are thousands of calls in a second.
 */
function limitCall(
  cut: Cut,
  { signal, method, path }: RawRequest,
  { leftMs, suspectMs }: { readonly leftMs: number; readonly suspectMs: number },
  suspect: () => void,
): () => void {
  const end = (): void =>
    cut.cut(new Svc3Error('Timeout', `${method} ${path}: no answer within ${Math.round(leftMs)} ms`));
  const doubt = (): void => {
    timer = setTimeout(end, leftMs - suspectMs);
    suspect();
  };
  let timer = suspectMs < leftMs ? setTimeout(doubt, suspectMs) : setTimeout(end, leftMs);
  if (signal === undefined) return () => clearTimeout(timer);
  const forward = (): void => cut.cut(signal.reason as Error);
  if (signal.aborted) forward();
  signal.addEventListener('abort', forward, { once: true });
  return () => {
    clearTimeout(timer);
    signal.removeEventListener('abort', forward);
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
  const { userAgent = 'svc3', suspectMs = defaultSuspectMs } = options;
  const own = createCredential(config);
  const endpoints = createEndpoints(config, own);
  const proven = createProvenTokens();

  async function optionsOf(
    identity: Identity,
    request: RawRequest,
    limits: { headersTimeout: number; bodyTimeout: number },
  ) {
    const authorization = await identity.credential.authorization();
    const { method, contentType = 'application/json' } = request;
    const headers: Record<string, string> = { accept: 'application/json', 'user-agent': userAgent };
    if (request.body !== undefined) headers['content-type'] = contentType;
    if (authorization !== undefined) headers['authorization'] = authorization;
    Object.assign(headers, request.headers);
    const path = prefix + withQuery(request.path, request.query);
    const body =
      request.body === undefined ? undefined : JSON.stringify(request.body, null, indentOf(contentType));
    return { method, path, headers, ...(body === undefined ? {} : { body }), ...limits };
  }

  /** The error of a failed attempt; the caller's own abort comes out as it was given. */
  function failureOf(thrown: unknown, signal: Pick<AbortSignal, 'aborted' | 'reason'>): Failure {
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
    const cut = new Cut();
    const release = limitCall(cut, request, { leftMs, suspectMs }, () => identity.endpoint().suspect());
    let code = 0;
    try {
      // undici asks the server for a PING when its own time-out fires, and drops a connection that is dead: let it fire first.
      const headersTimeout = Math.max(1, Math.floor(leftMs * 0.95));
      const bodyTimeout = Math.max(1, Math.ceil(leftMs));
      const options = await optionsOf(identity, request, { headersTimeout, bodyTimeout });
      const reply = await identity.endpoint().exchange(options, cut);
      const { text } = reply;
      code = reply.statusCode;
      if (code >= 400) {
        refuse(identity, code, text, reply.headers);
      }
      identity.settle(code);
      if (request.onWarning !== undefined) {
        for (const warning of warningsOf(reply.headers)) request.onWarning(warning);
      }
      return { status: code, headers: reply.headers, body: decode(text, reply.headers) };
    } catch (error) {
      const failure = failureOf(error, { aborted: cut.reason !== undefined, reason: cut.reason });
      throw Object.assign(new Error('attempt failed', { cause: failure.error }), { failure });
    } finally {
      release();
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
      const { signal } = controller;
      const headersTimeout = request.timeoutMs ?? defaultTimeoutMs;
      const bodyTimeout = request.silenceMs ?? defaultSilenceMs;
      const options = await optionsOf(identity, request, { headersTimeout, bodyTimeout });
      signal.throwIfAborted();
      const reply = await identity.endpoint().request({ ...options, signal });
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
