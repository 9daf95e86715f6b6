import { Agent, request, type Dispatcher } from 'undici';
import type { Readable } from 'node:stream';
import { isSvc3Error, Svc3Error, messageOf, type ErrorReason } from '../errors.ts';
import { scrub } from './scrub.ts';
import { createAuthorizer, type Authorizer, type RegistryCredentials } from './auth.ts';
import { toldConnector, type BeforeConnect } from './connector.ts';
import { flatHeaders, isGivenUp, isRetriable, repeated, secondsAskedFor } from './retry.ts';

/** One registry as somebody may reach it. */
export interface RegistryEndpoint {
  /** `host` or `host:port`; Docker Hub is `docker.io`. */
  readonly registry: string;
  readonly scheme: 'http' | 'https';
  /** Only where the administrator allowed it: do not verify the certificate. */
  readonly skipVerify?: boolean;
  /** PEM of further authorities. */
  readonly ca?: string;
  readonly credentials?: RegistryCredentials;
  readonly beforeConnect?: BeforeConnect;
  /** Told of requests that failed, after their retries. */
  readonly failed?: RegistryFailed | undefined;
}

/** `registry` as in the endpoint; `reason`: `Unreachable`, or what the answer means. */
export type RegistryFailed = (registry: string, reason: 'Unreachable' | ErrorReason) => void;

/** A request that failed, after its retries. */
export interface FailedRequest {
  readonly registry: string;
  readonly reason: Parameters<RegistryFailed>[1];
}

/** By the error that it failed with: refusals of the api and of runners are of the same class, and name no registry. */
const failedRequests = new WeakMap<Error, FailedRequest>();

/** The request to a registry that an error, or one of its causes, comes from; undefined where there was none. */
export function failedRequestOf(error: unknown): FailedRequest | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    const failed = failedRequests.get(each);
    if (failed !== undefined) return failed;
  }
  return undefined;
}

export interface RegistryRequest {
  method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  /** Absolute path with query, or an absolute URL as a `Location` gave it. */
  path: string;
  headers?: Record<string, string>;
  body?: Buffer | Readable;
  /** Of the token to ask for, e.g. `repository:a/b:pull`. */
  scope: string;
  /** Statuses that are answers, not errors. */
  accept: readonly number[];
  /** How long the answer may take to begin, where that is longer than usual. */
  headersTimeoutMs?: number;
  signal?: AbortSignal;
}

export interface RegistryReply {
  status: number;
  headers: Record<string, string | undefined>;
  body: Dispatcher.ResponseData['body'];
  /** The registry asked for a login, which it was sent; a token may be one that anybody has. */
  isAuthorized: boolean;
}

export interface RegistryTransport {
  readonly origin: string;
  send(request: RegistryRequest): Promise<RegistryReply>;
  close(): Promise<void>;
}

const reasonByStatus: Record<number, ErrorReason> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  413: 'RequestEntityTooLarge',
  416: 'RangeNotSatisfiable',
  429: 'TooManyRequests',
};

/** Docker Hub answers under another name than the one people write. */
function hostOf(registry: string): string {
  return registry === 'docker.io' ? 'registry-1.docker.io' : registry;
}

/** The registry's own words: code and message of its first error. None where what it says breaks off. */
async function wordsOf(body: RegistryReply['body']): Promise<string> {
  let text = '';
  try {
    for await (const chunk of body) {
      text += String(chunk);
      if (text.length > 8192) break;
    }
    const parsed = JSON.parse(text) as { errors?: Array<{ code?: string; message?: string }> };
    const first = parsed.errors?.[0];
    return [first?.code, first?.message].filter((part) => part !== undefined && part !== '').join(': ');
  } catch {
    return '';
  }
}

/** A body that is read from a stream cannot be sent twice. */
function isResendable({ body }: RegistryRequest): boolean {
  return body === undefined || Buffer.isBuffer(body);
}

/** What begins an upload or adds to one is not done twice, unless the registry had enough (429) and took nothing of it. */
function mayRepeat(wanted: RegistryRequest, status: number | undefined): boolean {
  if (!isResendable(wanted)) return false;
  if (status !== undefined && (!isRetriable(status) || wanted.accept.includes(status))) return false;
  return status === 429 || (wanted.method !== 'POST' && wanted.method !== 'PATCH');
}

/** As URLs have it, to be compared with theirs: without the scheme's own port, an IPv6 address in short. */
function originOf({ scheme, registry }: RegistryEndpoint): string {
  const written = `${scheme}://${hostOf(registry)}`;
  // What is no address fails when something is sent to it.
  return URL.parse(written)?.origin ?? written;
}

/**
 * HTTP to one registry: authentication, redirects (the credential stays with the registry), retries with full jitter
 * honouring Retry-After where a call may be repeated, and time-outs. Bodies are streams; whoever gets one has to read or
 * destroy it.
 */
export function createTransport(endpoint: RegistryEndpoint): RegistryTransport {
  const origin = originOf(endpoint);
  const connect = {
    timeout: 10_000,
    rejectUnauthorized: endpoint.skipVerify !== true,
    ...(endpoint.ca === undefined ? {} : { ca: endpoint.ca }),
  };
  const { beforeConnect } = endpoint;
  const agent = new Agent({
    connections: 8,
    headersTimeout: 60_000,
    bodyTimeout: 60_000,
    connect: beforeConnect === undefined ? connect : toldConnector(connect, beforeConnect),
  });
  const authorizer = createAuthorizer({
    agent,
    allowPlainRealm: endpoint.scheme === 'http',
    registry: endpoint.registry,
    ...(endpoint.credentials === undefined ? {} : { credentials: endpoint.credentials }),
  });

  async function send(wanted: RegistryRequest): Promise<RegistryReply> {
    const sending = { wanted, origin, agent, authorizer, registry: endpoint.registry };
    const reply = await repeated(() => sendOnce(sending), {
      mayRepeat: (status) => mayRepeat(wanted, status),
      refused: async (answer) => refusalOf(answer, { words: await wordsOf(answer.body), wanted }, endpoint),
      signal: wanted.signal,
    });
    const isInDoubt = mayBeOfRouter(reply, wanted);
    const isAccepted = wanted.accept.includes(reply.status);
    if (isAccepted && !isInDoubt) return reply;
    // Before the question: the answer may hold the connection that it needs.
    const words = await wordsOf(reply.body);
    if (isInDoubt) await assertRegistryAnswers(sending);
    if (isAccepted) return reply;
    throw refusalOf(reply, { words, wanted }, endpoint);
  }

  return {
    origin,
    async send(wanted) {
      try {
        return await send(wanted);
      } catch (error) {
        const reason = failureReason(error);
        if (reason !== undefined) {
          const { registry, failed } = endpoint;
          failedRequests.set(error as Error, { registry, reason });
          failed?.(registry, reason);
        }
        throw error;
      }
    },
    async close() {
      await agent.destroy();
    },
  };
}

interface Sending {
  wanted: RegistryRequest;
  origin: string;
  agent: Agent;
  authorizer: Authorizer;
  registry: string;
}

async function sendOnce({ wanted, origin, agent, authorizer, registry }: Sending): Promise<RegistryReply> {
  let url = targetOf(new URL(origin), wanted.path, registry);
  let challenged = false;
  let isAuthorized = false;
  for (let hop = 0; hop < 6; hop += 1) {
    const home = url.origin === origin;
    let authorization: string | undefined;
    const response = await reached({ wanted, registry }, async () => {
      authorization = home ? await authorizer.header(wanted.scope, wanted.signal) : undefined;
      return exchange(url, wanted, agent, authorization);
    });
    isAuthorized ||= authorization !== undefined;
    const headers = flatHeaders(response.headers);
    const reply: RegistryReply = {
      status: response.statusCode,
      headers,
      body: response.body,
      isAuthorized,
    };
    const location = headers['location'];
    if (
      [301, 302, 303, 307, 308].includes(reply.status) &&
      location !== undefined &&
      isRedirectable(wanted)
    ) {
      await reply.body.dump();
      url = targetOf(url, location, registry);
      continue;
    }
    const canAnswer = reply.status === 401 && home && !challenged && isResendable(wanted);
    if (!canAnswer) return reply;
    if (!(await authorizer.challenge(headers['www-authenticate'], wanted.scope, authorization))) return reply;
    challenged = true;
    await reply.body.dump();
  }
  throw new Svc3Error('BadGateway', `registry ${registry} redirects without end`);
}

function isRedirectable(wanted: RegistryRequest): boolean {
  return wanted.method === 'GET' || wanted.method === 'HEAD';
}

/** Where a location leads: a redirect, an upload, a next page. What came by https goes on by https. */
function targetOf(from: URL, location: string, registry: string): URL {
  const target = URL.parse(location, from);
  const scheme = target?.protocol.replace(':', '');
  if (target === null || (scheme !== 'https' && scheme !== 'http'))
    throw new Svc3Error('BadGateway', `registry ${registry} names a location that cannot be followed`);
  if (from.protocol === 'https:' && scheme !== 'https')
    throw new Svc3Error('BadGateway', `registry ${registry} redirects from https to ${scheme}`);
  return target;
}

function exchange(
  url: URL,
  wanted: RegistryRequest,
  agent: Agent,
  authorization: string | undefined,
): Promise<Dispatcher.ResponseData> {
  return request(url, {
    method: wanted.method,
    dispatcher: agent,
    headers: {
      'user-agent': 'svc3',
      ...wanted.headers,
      ...(authorization === undefined ? {} : { authorization }),
    },
    ...(wanted.body === undefined ? {} : { body: wanted.body }),
    ...(wanted.signal === undefined ? {} : { signal: wanted.signal }),
    ...(wanted.headersTimeoutMs === undefined ? {} : { headersTimeout: wanted.headersTimeoutMs }),
  });
}

/** What talks to the registry or its token service. */
async function reached<T>(
  { wanted, registry }: Pick<Sending, 'wanted' | 'registry'>,
  talk: () => Promise<T>,
): Promise<T> {
  try {
    return await talk();
  } catch (error) {
    // Svc3Error: what was told of the connection does not want it, or the token service has answered.
    if (isGivenUp(wanted.signal) || error instanceof Svc3Error) throw error;
    throw new RegistryUnreachable(registry, error);
  }
}

/** The registry did not answer, or not in the time that it had; `message` says how, in one line, without address details beyond its name. */
export class RegistryUnreachable extends Error {
  constructor(registry: string, cause: unknown) {
    super(`registry ${registry} could not be reached: ${messageOf(cause)}`, { cause });
    this.name = 'RegistryUnreachable';
  }
}

/** A registry that answers 404 to what is put there says nothing of what is put, nor of where that came from: it is at fault. */
export async function whereNothingIsMissing<T>(put: Promise<T>, fault: string): Promise<T> {
  try {
    return await put;
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
    throw new Svc3Error('BadGateway', `${fault}: ${messageOf(error)}`, { cause: error });
  }
}

/** What is begun in a repository: not every registry makes one that is not there. */
export function into<T>(registry: string, repository: string, put: Promise<T>): Promise<T> {
  const hint = '(the repository or its project may have to be made first)';
  return whereNothingIsMissing(put, `registry ${registry} takes nothing into ${repository} ${hint}`);
}

/** Undefined for what is none of the registry's: a request that was given up. */
function failureReason(error: unknown): Parameters<RegistryFailed>[1] | undefined {
  if (error instanceof RegistryUnreachable) return 'Unreachable';
  return error instanceof Svc3Error ? error.reason : undefined;
}

/** What a registry has answered a request with. */
interface Said {
  readonly wanted: RegistryRequest;
  /** As the registry has said them. */
  readonly words: string;
}

/**
 * Whether a 403 says that there is no room for what is to be stored, and nothing of the login: Harbor (`DENIED`, "... will exceed the configured upper
 * limit of ...") and Quay (`DENIED`, "Quota has been exceeded on namespace") answer so, and the distribution specification has no code for it. A name in
 * such an answer may be "quota" as well.
 */
function isOverQuota(status: number, { wanted: { method }, words }: Said): boolean {
  const isStored = method === 'POST' || method === 'PATCH' || method === 'PUT';
  return status === 403 && isStored && /\bexceed/i.test(words) && /\bquota\b|\bupper limit\b/i.test(words);
}

function refusalOf(
  { status, headers }: RegistryReply,
  said: Said,
  { registry, credentials }: RegistryEndpoint,
): Svc3Error {
  const { words } = said;
  const quoted = words.replaceAll(/\b(Basic|Bearer)\s+\S+/gi, '$1 ***');
  // Cut short at last: a half of a secret would not be found.
  const told = (credentials === undefined ? quoted : scrub(quoted, credentials)).slice(0, 300);
  const quote = told === '' ? '' : ` (${told})`;
  if (isOverQuota(status, said)) {
    const message = `registry ${registry} has no room for it: a quota there is used up${quote}`;
    return new Svc3Error('RequestEntityTooLarge', message, {});
  }
  const reason = reasonByStatus[status] ?? (status >= 500 ? 'BadGateway' : 'BadRequest');
  const seconds = isRetriable(status) ? secondsAskedFor(headers) : undefined;
  const wait = seconds === undefined ? '' : ` and asks to wait ${seconds} s`;
  const what =
    status === 401
      ? 'refused the login'
      : status === 403
        ? 'denied access'
        : status === 413
          ? 'takes no upload of this size: it, or a proxy before it, answered 413'
          : `answered ${status}${wait}`;
  return new Svc3Error(reason, `registry ${registry} ${what}${quote}`, {});
}

/** Where each registry answers 200 or 401 (distribution specification, end-1), and nobody else. */
const versionCheck = '/v2/';

/**
 * Whether a 404 may come from what stands before the registry: proxies and ingress controllers say it as well while they have no route to it, as at
 * each rollout, and some of them in JSON. Not every registry names itself with each answer: zot does at `/v2/` alone.
 */
function mayBeOfRouter({ status, headers }: RegistryReply, { path }: RegistryRequest): boolean {
  return status === 404 && headers['docker-distribution-api-version'] === undefined && path !== versionCheck;
}

/** Sends what the request before had, since some registries make who sends no login wait (zot: `failDelay`). One that is refused is the answer of a registry as well. */
function unchallenged({ header }: Authorizer): Authorizer {
  return { header, challenge: async () => false };
}

/**
 * Asked after each 404 that is in doubt: an answer of before would hold for a 404 that is newer.
 *
 * @throws BadGateway, RegistryUnreachable
 */
async function assertRegistryAnswers(sending: Sending): Promise<void> {
  const { registry, wanted } = sending;
  const asked: RegistryRequest = { method: 'GET', path: versionCheck, scope: wanted.scope, accept: [] };
  const authorizer = unchallenged(sending.authorizer);
  if (wanted.signal !== undefined) asked.signal = wanted.signal;
  const refused = async ({ status, body }: RegistryReply): Promise<Svc3Error> => {
    await body.dump();
    const said = status === 404 ? 'at /v2/ as well' : `and ${status} at /v2/`;
    const message = `registry ${registry} is not there: what answers for it says 404, ${said}`;
    return new Svc3Error('BadGateway', message);
  };
  const reply = await repeated(() => sendOnce({ ...sending, wanted: asked, authorizer }), {
    mayRepeat: (status) => mayRepeat(asked, status),
    refused,
    signal: wanted.signal,
  });
  if (reply.status === 404 || reply.status >= 500 || isRetriable(reply.status)) throw await refused(reply);
  await reply.body.dump();
}
