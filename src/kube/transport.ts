import { setTimeout as sleep } from 'node:timers/promises';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { ConnectionConfig } from './connection.ts';
import { callerCredential, createCredential } from './credential.ts';
import type { Credential } from './credential.ts';
import type { Endpoint } from './endpoint.ts';
import { deadline, limitCall } from './deadline.ts';
import { Cut } from './exchange.ts';
import { errorOfConnection, errorOfReply, retryAfterOf, wasNeverSent } from './errors.ts';
import { createEndpoints, createProvenTokens, hashOf } from './identities.ts';
import { withQuery } from './path.ts';
import { decode, warningsOf } from './reply.ts';
import type { Headers } from './reply.ts';
import { applyPatch, retryDelay } from './retry.ts';
import type { Failure } from './retry.ts';
import type { RawRequest, RawResponse, StreamRequest, StreamResponse } from './types.ts';

const defaultTimeoutMs = 30_000;

/** Bookmarks come about once a minute: two and a half times that without a byte is a dead connection. */
const defaultSilenceMs = 150_000;

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

/** Who calls, and over which connection. */
interface Identity {
  readonly credential: Credential;
  endpoint(): Endpoint;
  /** Told the status of every reply, so that tokens that are refused are kept apart from those that are not. */
  answered(code: number): void;
}

/** What all identities of a transport have in common. */
interface Shared {
  readonly host: string;
  /** Path of the API server's root, without a slash at its end. */
  readonly prefix: string;
  readonly userAgent: string;
  readonly suspectMs: number;
  readonly onCall: TransportOptions['onCall'];
}

/**
 * HTTP to one kube-apiserver as the identity of the configuration, and by `withToken` as others: retries within the time of a call, time-outs in
 * milliseconds, renewal of a credential that was refused. Callers whose token has not been accepted yet share a few connections of their own, so that they
 * cannot take those of others. Nothing is connected before the first call.
 *
 * @throws TypeError where `config.server` is no URL; calls throw `Svc3Error` with the reason of kube-apiserver's Status, or that of the connection
 */
export function createTransport(config: ConnectionConfig, options: TransportOptions = {}): Transport {
  const { host, pathname } = new URL(config.server);
  const { userAgent = 'svc3', suspectMs = defaultSuspectMs, onCall } = options;
  const shared = { host, prefix: pathname.replace(/\/+$/, ''), userAgent, suspectMs, onCall };
  const own = createCredential(config);
  const endpoints = createEndpoints(config, own);
  const proven = createProvenTokens();

  function createFor(identity: Identity): Transport {
    const caller = new Caller(shared, identity);
    return {
      credential: identity.credential,
      call: (request, guard) => caller.call(request, guard),
      stream: (request) => caller.stream(request),
      withToken(token) {
        const hash = hashOf(token);
        return createFor({
          credential: callerCredential(token),
          endpoint: () => endpoints.get(proven.has(hash) ? 'proven' : 'unproven'),
          answered: (code) => proven.note(hash, code !== 401),
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

  return createFor({ credential: own, endpoint: () => endpoints.get('own'), answered: () => undefined });
}

/** The calls of one identity: attempts, retries within the time of a call, and streams. */
class Caller {
  readonly #shared: Shared;
  readonly #identity: Identity;

  constructor(shared: Shared, identity: Identity) {
    this.#shared = shared;
    this.#identity = identity;
  }

  async call(request: RawRequest, guard?: () => void): Promise<RawResponse> {
    const until = performance.now() + (request.timeoutMs ?? defaultTimeoutMs);
    let renewed = false;
    let earlier: unknown;
    for (let failures = 1; ; failures += 1) {
      request.signal?.throwIfAborted();
      guard?.();
      try {
        const attempt = () => this.#attempt(request, Math.max(1, until - performance.now()));
        return await (request.inTurn === undefined ? attempt() : request.inTurn(attempt));
      } catch (thrown) {
        const { failure } = thrown as { readonly failure?: Failure };
        if (failure === undefined) throw thrown;
        if (!renewed && isSvc3Error(failure.error, 'Unauthorized') && (await this.#renew())) {
          renewed = true;
          continue;
        }
        const delay = retryDelay(request, failure, failures, until - performance.now());
        if (delay === undefined)
          // Time ran out between two tries: what was wrong before says more.
          throw earlier !== undefined && isSvc3Error(failure.error, 'Timeout') ? earlier : failure.error;
        earlier = failure.error;
        await sleep(delay, undefined, request.signal === undefined ? {} : { signal: request.signal });
      }
    }
  }

  async #attempt(request: RawRequest, leftMs: number): Promise<RawResponse> {
    const started = performance.now();
    const cut = new Cut();
    const { suspectMs } = this.#shared;
    let endpoint: Endpoint | undefined;
    const release = limitCall(cut, request, { leftMs, suspectMs }, () => endpoint?.suspect());
    let code = 0;
    try {
      // undici asks the server for a PING when its own time-out fires, and drops a connection that is dead: let it fire first.
      const headersTimeout = Math.max(1, Math.floor(leftMs * 0.95));
      const bodyTimeout = Math.max(1, Math.ceil(leftMs));
      const options = await this.#optionsOf(request, { headersTimeout, bodyTimeout });
      endpoint = this.#identity.endpoint();
      const reply = await endpoint.exchange(options, cut, request.shorten);
      code = reply.statusCode;
      if (code >= 400) this.#refuse(code, reply.text, reply.headers);
      this.#identity.answered(code);
      if (request.onWarning !== undefined)
        for (const warning of warningsOf(reply.headers)) request.onWarning(warning);
      return { status: code, headers: reply.headers, body: decode(reply.text, reply.headers) };
    } catch (error) {
      const failure = this.#failureOf(error, { aborted: cut.reason !== undefined, reason: cut.reason });
      throw Object.assign(new Error('attempt failed', { cause: failure.error }), { failure });
    } finally {
      release();
      this.#report(request, code, started);
    }
  }

  async stream(request: StreamRequest): Promise<StreamResponse> {
    const started = performance.now();
    const { method, path, timeoutMs = defaultTimeoutMs, silenceMs = defaultSilenceMs } = request;
    const limit = deadline(request.signal, timeoutMs, `${method} ${path}`);
    const { controller } = limit;
    const forget = request.movable === true ? this.#onMoved(controller) : (): void => undefined;
    const release = (): void => {
      limit.release();
      forget();
    };
    let code = 0;
    try {
      const { signal } = controller;
      const options = await this.#optionsOf(request, { headersTimeout: timeoutMs, bodyTimeout: silenceMs });
      signal.throwIfAborted();
      const reply = await this.#identity.endpoint().request({ ...options, signal });
      code = reply.statusCode;
      if (code >= 400) {
        const text = await reply.body.text();
        if (code === 401) await this.#renew();
        this.#refuse(code, text, reply.headers);
      }
      this.#identity.answered(code);
      limit.stopTimer();
      return {
        status: code,
        headers: reply.headers,
        body: chunks(reply.body, (error) => this.#failureOf(error, signal).error, release),
        cancel: () => controller.abort(new Svc3Error('Timeout', 'cancelled')),
      };
    } catch (error) {
      release();
      throw this.#failureOf(error, controller.signal).error;
    } finally {
      this.#report(request, code, started);
    }
  }

  /** Ends a stream when the server wants its connection to end, so that it goes on over the next one. */
  #onMoved(controller: AbortController): () => void {
    const message = `kube-apiserver ${this.#shared.host} asked to use a new connection`;
    // By this code undici knows that the reason is this stream's alone, and not that of the calls that wait beside it.
    const reason = () =>
      Object.assign(new Svc3Error('ServiceUnavailable', message), { code: 'UND_ERR_INFO' });
    return this.#identity.endpoint().onMoved(() => controller.abort(reason()));
  }

  async #optionsOf(request: RawRequest, limits: { headersTimeout: number; bodyTimeout: number }) {
    const { prefix, userAgent } = this.#shared;
    const authorization = await this.#identity.credential.authorization();
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

  /** After a 401: whether there may be another token or certificate to try with. A certificate needs a connection of its own. */
  async #renew(): Promise<boolean> {
    const { credential } = this.#identity;
    if (!credential.renew()) return false;
    if ((await credential.clientCertificate()) !== undefined) this.#identity.endpoint().renew();
    return true;
  }

  /** The error of a failed attempt; the caller's own abort comes out as it was given. */
  #failureOf(thrown: unknown, signal: Pick<AbortSignal, 'aborted' | 'reason'>): Failure {
    if (signal.aborted) return { error: signal.reason, neverSent: false };
    if (isSvc3Error(thrown)) return { error: thrown, neverSent: false };
    return { error: errorOfConnection(thrown, this.#shared.host), neverSent: wasNeverSent(thrown) };
  }

  #refuse(code: number, text: string, headers: Headers): never {
    this.#identity.answered(code);
    let body: unknown = text;
    try {
      body = decode(text, headers);
    } catch {
      // The raw text says more than a parse error.
    }
    throw errorOfReply(code, body, retryAfterOf(headers['retry-after']));
  }

  #report({ method }: RawRequest, code: number, started: number): void {
    this.#shared.onCall?.({ method, code, durationMs: performance.now() - started });
  }
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
