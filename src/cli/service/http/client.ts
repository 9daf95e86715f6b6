import { readFile } from 'node:fs/promises';
import type { Duplex, Readable } from 'node:stream';
import { Agent } from 'undici';
import { readWhole } from '../../../net/foreign.ts';
import { isSvc3Error, Svc3Error } from '../../../errors.ts';
import { trustingMachine } from '../../authorities.ts';
import { interruptible } from '../interruptible.ts';
import { notOfApi, refusalIn, refusalText, unreachable } from './refusal.ts';
import type { ApiReply } from './reply.ts';
import type { BackendOptions, HttpTarget } from '../open.ts';

/** One request to the HTTP API. */
export interface ApiRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'DELETE';
  /** Below the base address, already encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
  /** Further headers, by their names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A body that is streamed as it is. */
  readonly stream?: { readonly content: Readable; readonly size?: number };
  readonly anonymous?: boolean;
  /** Takes the warnings of the reply, which are printed otherwise. */
  onWarning?(text: string): void;
  readonly signal?: AbortSignal;
  /** Milliseconds until the reply begins; a deploy waits for minutes. */
  readonly timeoutMs?: number;
}

/** The HTTP API of one installation, with the caller's token. */
export interface ApiClient {
  /** The reply's JSON. Refusals are the server's own words as `Svc3Error`. */
  json(request: ApiRequest): Promise<{ readonly status: number; readonly value: unknown }>;
  /** A reply of success (2xx), whatever it holds. Refusals are as those of `json`. */
  stream(request: ApiRequest): Promise<ApiReply>;
  /** A WebSocket as a byte stream. */
  socket(path: string, query?: Readonly<Record<string, string>>): Promise<Duplex>;
  /** What is told of warnings of replies where a request has no `onWarning`. */
  warn(text: string): void;
  readonly baseUrl: string;
  close(): Promise<void>;
}

const defaultTimeoutMs = 30_000;

/** Connects with the first request; `caFile` is read then, and its errors name it. Reads end with `signal`, see `interruptible`. */
export function createApiClient(
  target: HttpTarget & Pick<BackendOptions, 'warning'> & { readonly signal?: AbortSignal },
): ApiClient {
  const { baseUrl, warning } = target;
  const asked = interruptible(target.signal);
  const ca = target.caFile === undefined ? undefined : readAuthority(target.caFile);
  let opened: Promise<Agent> | undefined;
  const agent = () => (opened ??= (async () => new Agent({ connect: await tlsOf(ca) }))());

  /** A certificate authority that was named is the only one. */
  const connecting = <T>(connect: () => Promise<T>): Promise<T> =>
    ca === undefined ? trustingMachine(connect) : connect();

  /** Once more where the token was withdrawn before its end and there is another one; a body that was streamed is gone. */
  async function send(request: ApiRequest): Promise<ApiReply> {
    if (request.anonymous === true) return connecting(() => sendWith(undefined, request));
    const token = await target.token();
    // A body that is streamed is never the first to connect.
    const reply = await connecting(() => sendWith(token, request));
    if (reply.status !== 401 || request.stream !== undefined) return reply;
    const other = await target.token(token);
    if (other === token) return reply;
    await refusalText(reply.body);
    return sendWith(other, request);
  }

  async function sendWith(token: string | undefined, request: ApiRequest): Promise<ApiReply> {
    const { method, path, query, body, stream } = request;
    try {
      const url = new URL(`${baseUrl}${path}`);
      for (const [name, value] of Object.entries(query ?? {}))
        if (value !== undefined) url.searchParams.set(name, value);
      const reply = await (
        await agent()
      ).request({
        origin: url.origin,
        path: url.pathname + url.search,
        method,
        headers: { ...headersOf({ token, json: body !== undefined, stream }), ...request.headers },
        body: stream?.content ?? (body === undefined ? null : JSON.stringify(body)),
        // A stream of HTTP/2 that is given up with bytes under way has Node.js write frames of it without end at times.
        ...(stream === undefined ? {} : { allowH2: false }),
        signal: request.signal ?? null,
        headersTimeout: request.timeoutMs ?? defaultTimeoutMs,
        bodyTimeout: 0,
      });
      for (const text of warningsOf(reply.headers['warning'])) (request.onWarning ?? warning)(text);
      return { status: reply.statusCode, headers: reply.headers, body: reply.body };
    } catch (error) {
      throw unreachable(baseUrl, error);
    }
  }

  /** @throws Svc3Error of a reply that is none of success */
  async function answered(request: ApiRequest): Promise<ApiReply> {
    const { method } = request;
    const reply = await asked.by(method, () => send(request));
    if (reply.status < 200 || reply.status > 299) throw await refusalIn(reply, { baseUrl, method });
    return reply;
  }

  return {
    baseUrl,
    warn: warning,
    async json(request: ApiRequest) {
      const { status, body } = await answered(request);
      return { status, value: parsed(await textOf(body, baseUrl), baseUrl) };
    },
    stream: (request) => answered(request),
    async socket(path, query = {}) {
      const { openSocket } = await import('./socket.ts');
      const url = `${baseUrl}${path}?${new URLSearchParams(query).toString()}`;
      const tls = await tlsOf(ca);
      const token = await target.token();
      try {
        return await connecting(() => openSocket({ url, token, ...tls }));
      } catch (error) {
        if (!isSvc3Error(error, 'Unauthorized')) throw error;
        const other = await target.token(token);
        if (other === token) throw error;
        return openSocket({ url, token: other, ...tls });
      }
    },
    async close() {
      await (await opened)?.destroy();
    },
  };
}

async function readAuthority(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new Svc3Error('BadRequest', `caFile ${file} cannot be read`, { cause });
  }
}

async function tlsOf(ca: Promise<string> | undefined): Promise<{ ca?: string }> {
  return ca === undefined ? {} : { ca: await ca };
}

function headersOf(parts: {
  token: string | undefined;
  json: boolean;
  stream: ApiRequest['stream'];
}): Record<string, string> {
  const size = parts.stream?.size;
  return {
    accept: 'application/json',
    ...(parts.token === undefined ? {} : { authorization: `Bearer ${parts.token}` }),
    ...(parts.json ? { 'content-type': 'application/json' } : {}),
    ...(parts.stream === undefined ? {} : { 'content-type': 'application/octet-stream' }),
    ...(size === undefined ? {} : { 'content-length': String(size) }),
  };
}

/** Of a list of everything; one VM has about a kilobyte. */
const largestReply = 256 * 2 ** 20;

async function textOf(body: Readable, baseUrl: string): Promise<string> {
  const tooLarge = () => new Svc3Error('BadGateway', `${baseUrl} sent more than ${largestReply} bytes`);
  try {
    return (await readWhole(body, largestReply, tooLarge)).toString('utf8');
  } catch (error) {
    throw unreachable(baseUrl, error);
  }
}

function parsed(text: string, baseUrl: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw notOfApi(baseUrl, { cause });
  }
}

/** The text of every `Warning` header (code 299, RFC 9111). */
function warningsOf(header: string | string[] | undefined): string[] {
  const text = Array.isArray(header) ? header.join(', ') : (header ?? '');
  return Array.from(text.matchAll(/\b\d{3} \S+ "((?:[^"\\]|\\.)*)"/g), ([, message]) =>
    (message ?? '').replaceAll(/\\(.)/g, '$1'),
  );
}
