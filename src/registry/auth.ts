import { request, type Agent, type Dispatcher } from 'undici';
import { Svc3Error } from '../errors.ts';
import { parseForeignJson, readWhole } from '../net/foreign.ts';
import { flatHeaders, isRetriable, repeated } from './retry.ts';

export interface RegistryCredentials {
  readonly username: string;
  readonly password: string;
}

/** Makes the `Authorization` header of requests to one registry. */
export interface Authorizer {
  header(scope: string, signal?: AbortSignal): Promise<string | undefined>;
  /**
   * Learns from a 401; true when the request is worth repeating.
   *
   * @param sent - the `Authorization` header of the request that was refused: of several at once, one may have learnt what the others went without
   */
  challenge(wwwAuthenticate: string | undefined, scope: string, sent?: string): Promise<boolean>;
}

interface BearerRealm {
  readonly realm: string;
  readonly service: string | undefined;
}

interface Token {
  readonly value: string;
  /** On the monotonic clock: what the token service's clock says does not matter. */
  readonly usableUntilMs: number;
}

export interface Challenge {
  readonly scheme: string;
  readonly parameters: Record<string, string>;
}

/** What comes after that is not looked at: the time that the patterns take grows with the square of the length. */
const challengeLength = 2_048;

/** What stands between two commas; those of a quoted text are its own. */
const listed = /(?:"(?:[^"\\]|\\.)*"|[^,])+/g;
/** The scheme that a challenge begins with; a parameter has "=" behind its name. */
const schemeOf = /^\s*([\w!#$%&'*+.^`|~-]+)(?=\s+[^\s=]|\s*$)/;

/** Reads a `WWW-Authenticate` header (RFC 9110); the first challenge of a scheme that we speak wins, with its own parameters. */
export function parseChallenge(header: string | undefined): Challenge | undefined {
  const challenges: Challenge[] = [];
  for (const [part] of (header ?? '').slice(0, challengeLength).matchAll(listed)) {
    const scheme = schemeOf.exec(part)?.[1];
    if (scheme !== undefined) challenges.push({ scheme: scheme.toLowerCase(), parameters: {} });
    Object.assign(challenges.at(-1)?.parameters ?? {}, parametersIn(part));
  }
  return challenges.find(({ scheme }) => scheme === 'bearer' || scheme === 'basic');
}

function parametersIn(part: string): Record<string, string> {
  const parameters: Record<string, string> = {};
  for (const match of part.matchAll(/([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))/g))
    parameters[(match[1] ?? '').toLowerCase()] = (match[2] ?? match[3] ?? '').replaceAll(/\\(.)/g, '$1');
  return parameters;
}

/** A token is given up this long before its end: requests take time, and clocks differ. */
const marginMs = 10_000;
/** Two spellings of a token that servers still take in a header. */
const tokenReplyBytes = 64 * 1024;
const tokenTimeoutMs = 60_000;
/** The distribution specification's default where the service says nothing. */
const defaultLifeSeconds = 60;

function basic(credentials: RegistryCredentials): string {
  return `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString('base64')}`;
}

/**
 * Basic and bearer authentication (distribution token specification). Nothing is sent before the registry has asked; a
 * password goes only to the registry and to the token service that it names, and to that over https unless the registry
 * itself is allowed to be plain.
 */
export function createAuthorizer(options: {
  agent: Agent;
  registry: string;
  allowPlainRealm: boolean;
  credentials?: RegistryCredentials;
}): Authorizer {
  const { credentials, registry } = options;
  const tokens = new Map<string, Token>();
  let way: 'unknown' | 'basic' | BearerRealm = 'unknown';

  const freshToken = async (realm: BearerRealm, scope: string, signal?: AbortSignal): Promise<string> => {
    const known = tokens.get(scope);
    if (known !== undefined && known.usableUntilMs > performance.now()) return known.value;
    const token = await fetchToken({ realm, scope, ...options, ...(signal === undefined ? {} : { signal }) });
    tokens.set(scope, token);
    return token.value;
  };

  return {
    async header(scope, signal) {
      if (way === 'unknown') return undefined;
      if (way === 'basic') return credentials === undefined ? undefined : basic(credentials);
      return `Bearer ${await freshToken(way, scope, signal)}`;
    },
    async challenge(wwwAuthenticate, scope, sent) {
      const asked = parseChallenge(wwwAuthenticate);
      if (asked === undefined) return false;
      if (asked.scheme === 'basic') {
        way = 'basic';
        return credentials !== undefined && sent !== basic(credentials);
      }
      const realm = asked.parameters['realm'];
      if (realm === undefined) return false;
      const url = URL.parse(realm);
      if (
        url === null ||
        (url.protocol !== 'https:' && !(options.allowPlainRealm && url.protocol === 'http:'))
      )
        throw new Svc3Error('BadGateway', `registry ${registry} names a token service that is not https`);
      way = { realm, service: asked.parameters['service'] };
      // A 401 in spite of a token says that it ended early (or was revoked): the next request gets a new one.
      tokens.delete(scope);
      return true;
    },
  };
}

interface TokenRequest {
  readonly agent: Agent;
  readonly registry: string;
  readonly realm: BearerRealm;
  readonly scope: string;
  readonly credentials?: RegistryCredentials;
  readonly signal?: AbortSignal;
}

/**
 * A token service that is away for a moment is asked again here, since what the token is for may be something that is not: to begin an
 * upload. One that cannot be reached is left to who sends that.
 */
async function fetchToken(options: TokenRequest): Promise<Token> {
  const { registry, signal } = options;
  const mayRepeat = (status: number | undefined): boolean => status !== undefined && isRetriable(status);
  const refused = (answer: TokenReply) => refusalOf(answer, registry);
  const reply = await repeated(() => askForToken(options), { mayRepeat, refused, signal });
  if (reply.status === 200) return readToken(reply.body, registry, reply.startedMs);
  throw await refused(reply);
}

async function refusalOf({ status, body }: TokenReply, registry: string): Promise<Svc3Error> {
  await body.dump();
  return status === 401 || status === 403
    ? new Svc3Error('Unauthorized', `registry ${registry} refused the login`)
    : new Svc3Error('BadGateway', `the token service of registry ${registry} answered ${status}`);
}

interface TokenReply {
  readonly status: number;
  readonly headers: Record<string, string | undefined>;
  readonly body: Dispatcher.ResponseData['body'];
  readonly startedMs: number;
}

async function askForToken({ agent, realm, scope, credentials, signal }: TokenRequest): Promise<TokenReply> {
  const url = new URL(realm.realm);
  if (realm.service !== undefined) url.searchParams.set('service', realm.service);
  for (const each of scope.split(' ').filter(Boolean)) url.searchParams.append('scope', each);
  const startedMs = performance.now();
  const timeout = AbortSignal.timeout(tokenTimeoutMs);
  const { statusCode, headers, body } = await request(url, {
    dispatcher: agent,
    headers: {
      'user-agent': 'svc3',
      ...(credentials === undefined ? {} : { authorization: basic(credentials) }),
    },
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
  });
  return { status: statusCode, headers: flatHeaders(headers), body, startedMs };
}

async function readToken(body: AsyncIterable<unknown>, registry: string, startedMs: number): Promise<Token> {
  const service = `the token service of registry ${registry}`;
  const bytes = await readWhole(
    body,
    tokenReplyBytes,
    () => new Svc3Error('BadGateway', `${service} sent more than ${tokenReplyBytes} bytes`),
  );
  const { token, access_token, expires_in } = tokenReply(bytes, service);
  const value = typeof token === 'string' ? token : access_token;
  if (typeof value !== 'string' || !/^[\x21-\x7e]+$/.test(value))
    throw new Svc3Error('BadGateway', `${service} sent no token`);
  const lifeSeconds = typeof expires_in === 'number' && expires_in > 0 ? expires_in : defaultLifeSeconds;
  return { value, usableUntilMs: startedMs + Math.max(lifeSeconds * 1000 - marginMs, lifeSeconds * 500) };
}

function tokenReply(
  bytes: Buffer,
  service: string,
): { token?: unknown; access_token?: unknown; expires_in?: unknown } {
  try {
    return parseForeignJson(bytes) ?? {};
  } catch {
    // The cause is dropped on purpose: it may quote a token.
    throw new Svc3Error('BadGateway', `${service} sent something that is not JSON`);
  }
}
