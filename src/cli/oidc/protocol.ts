import { Svc3Error } from '../../errors.ts';
import { usageError } from '../usage.ts';
import type { OidcClient } from '../../wire/schemas.ts';

/** A reply of an issuer: its HTTP status, and its JSON, undefined where it is none. */
export interface IssuerReply {
  readonly status: number;
  readonly value: unknown;
}

/** What the discovery document says that a login needs. */
export interface Endpoints {
  readonly token: string;
  readonly deviceAuthorization: string;
  readonly scopes: readonly string[];
}

/** A login that waits for its user (RFC 8628, 3.2). */
export interface DeviceCode {
  /** A secret. */
  readonly deviceCode: string;
  readonly userCode: string;
  readonly address: string;
  /** The address with the code in it. */
  readonly completeAddress?: string;
  readonly intervalMs: number;
  readonly expiresInMs: number;
}

/** What a login or a renewal gives; both are secrets. */
export interface OidcTokens {
  readonly idToken: string;
  /** Absent: the issuer gives none, or the old one stays. */
  readonly refreshToken?: string;
}

/** What to do after the token endpoint was asked for a device code. */
export type Poll =
  | { readonly kind: 'tokens'; readonly tokens: OidcTokens }
  | { readonly kind: 'wait'; readonly intervalMs: number };

/**
 * Issuer and client of a login: those of the command line, else those of the installation.
 * @throws Svc3Error BadRequest naming the option that is missing
 */
export function chooseClient(given: Partial<OidcClient>, told: OidcClient | undefined): OidcClient {
  const issuerUrl = given.issuerUrl ?? told?.issuerUrl;
  if (issuerUrl === undefined)
    throw usageError(
      'the installation names no OpenID issuer (chart value api.oidc): --oidc-issuer-url is needed',
    );
  // A client belongs to its issuer.
  const clientId = given.clientId ?? (issuerUrl === told?.issuerUrl ? told.clientId : undefined);
  if (clientId === undefined)
    throw usageError(`the installation names no client of ${issuerUrl}: --oidc-client-id is needed`);
  return { issuerUrl: checkedIssuer(issuerUrl), clientId };
}

/** https, or http on loopback. */
function isSafe(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== '' || password !== '') return false;
  const isLoopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  return protocol === 'https:' || (protocol === 'http:' && isLoopback);
}

/**
 * The address as it was given: issuers are compared character by character.
 * @throws Svc3Error BadRequest
 */
export function checkedIssuer(text: string): string {
  if (isSafe(text) && !/[?#]/.test(text)) return text;
  throw usageError(
    `--oidc-issuer-url: "${text}" is not an address such as https://login.example.com; http is for loopback only`,
  );
}

/** Where the discovery document lies (OpenID Connect Discovery 1.0, 4.1). */
export function discoveryAddress(issuerUrl: string): string {
  return `${issuerUrl.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

/**
 * What a discovery document says.
 * @throws Svc3Error BadGateway where it is none, or another issuer's; NotImplemented where the issuer has no device login
 */
export function readDiscovery({ status, value }: IssuerReply, issuerUrl: string): Endpoints {
  if (status !== 200) throw strange(issuerUrl, `answers ${discoveryAddress(issuerUrl)} with HTTP ${status}`);
  const issuer = textOf(value, 'issuer');
  if (issuer === undefined) throw strange(issuerUrl, 'has no OpenID discovery document');
  if (issuer !== issuerUrl)
    throw strange(issuerUrl, `calls itself ${issuer}; --oidc-issuer-url must be exactly the same`);
  const deviceAuthorization = textOf(value, 'device_authorization_endpoint');
  if (deviceAuthorization === undefined)
    throw new Svc3Error('NotImplemented', `${issuerUrl} has no device login (device_authorization_endpoint)`);
  const token = textOf(value, 'token_endpoint') ?? '';
  for (const address of [token, deviceAuthorization])
    if (!isSafe(address)) throw strange(issuerUrl, `names "${address}" as an endpoint, which is not https`);
  const scopes = memberOf(value, 'scopes_supported');
  return {
    token,
    deviceAuthorization,
    scopes: Array.isArray(scopes) ? scopes.filter((scope) => typeof scope === 'string') : [],
  };
}

/** Of the scopes that name a user, and the one that gives a refresh token, those that the issuer knows. */
export function scopesFor({ scopes }: Pick<Endpoints, 'scopes'>): string {
  const wanted = ['offline_access', 'profile', 'email', 'groups'];
  const known = wanted.filter((scope) => scopes.includes(scope));
  return ['openid', ...(scopes.length === 0 ? ['offline_access'] : known)].join(' ');
}

/** RFC 8628, 3.2: where the issuer says none. */
const defaultIntervalSeconds = 5;
/** Longer waits are a mistake of the issuer. */
const longestSeconds = { interval: 60, expiry: 3600 } as const;

/**
 * The code that an issuer gave.
 * @throws Svc3Error as `refusalOf`, and BadGateway where the reply has no code
 */
export function readDevice(reply: IssuerReply, client: OidcClient): DeviceCode {
  const { value } = reply;
  if (reply.status !== 200) throw refusalOf(reply, client);
  const deviceCode = textOf(value, 'device_code');
  const userCode = textOf(value, 'user_code');
  // Some say verification_url, as a draft of the RFC did.
  const address = textOf(value, 'verification_uri') ?? textOf(value, 'verification_url');
  if (deviceCode === undefined || userCode === undefined || address === undefined || !isWeb(address))
    throw strange(client.issuerUrl, 'gave no device code');
  const complete = textOf(value, 'verification_uri_complete');
  const seconds = (name: string, fallback: number, most: number) => {
    const said = memberOf(value, name);
    return Math.min(typeof said === 'number' && said > 0 ? said : fallback, most) * 1000;
  };
  return {
    deviceCode,
    userCode,
    address,
    ...(complete !== undefined && isWeb(complete) ? { completeAddress: complete } : {}),
    intervalMs: seconds('interval', defaultIntervalSeconds, longestSeconds.interval),
    expiresInMs: seconds('expires_in', longestSeconds.expiry, longestSeconds.expiry),
  };
}

/** What a browser opens. */
function isWeb(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

/** RFC 8628, 3.5: by how much a client that asks too often waits longer from now on. */
const slowDownMs = 5000;

/**
 * What the reply to a poll means.
 * @throws Svc3Error Forbidden where the user said no, Timeout where the code has ended, else as `refusalOf`
 */
export function readPoll(reply: IssuerReply, client: OidcClient, intervalMs: number): Poll {
  if (reply.status === 200) return { kind: 'tokens', tokens: readTokens(reply, client) };
  switch (textOf(reply.value, 'error')) {
    case 'authorization_pending':
      return { kind: 'wait', intervalMs };
    case 'slow_down':
      return { kind: 'wait', intervalMs: intervalMs + slowDownMs };
    case 'access_denied':
      throw new Svc3Error('Forbidden', 'the login was refused in the browser; nothing was saved');
    case 'expired_token':
      throw codeEnded();
    default:
      // RFC 8628, 3.5: an issuer that is away for a moment is asked again, less often.
      if (reply.status === 429 || reply.status >= 500) return { kind: 'wait', intervalMs: intervalMs * 2 };
      throw refusalOf(reply, client);
  }
}

/** Nobody confirmed a code in its time. */
export function codeEnded(): Svc3Error {
  return new Svc3Error('Timeout', 'the code has ended before it was confirmed; run svc3 login again');
}

/** What a header takes (RFC 6750, 2.1). */
const bearerSyntax = /^[\w.~+/-]+=*$/;

/**
 * The tokens of a reply of the token endpoint.
 * @throws Svc3Error BadGateway where there is no ID token
 */
export function readTokens({ value }: IssuerReply, client: OidcClient): OidcTokens {
  const idToken = textOf(value, 'id_token');
  const refreshToken = textOf(value, 'refresh_token');
  if (idToken === undefined || !bearerSyntax.test(idToken))
    throw strange(client.issuerUrl, `gave no ID token; may client ${client.clientId} use scope openid?`);
  return { idToken, ...(refreshToken === undefined ? {} : { refreshToken }) };
}

/**
 * The tokens of a renewal.
 * @throws Svc3Error Unauthorized where the login has ended for good, else as `refusalOf`
 */
export function readRenewal(reply: IssuerReply, client: OidcClient): OidcTokens {
  if (reply.status === 200) return readTokens(reply, client);
  if (textOf(reply.value, 'error') === 'invalid_grant')
    throw new Svc3Error('Unauthorized', `${client.issuerUrl} does not take its refresh token any more`);
  throw refusalOf(reply, client);
}

/**
 * The refusal of a request by its OAuth code (RFC 6749, 5.2). The issuer's own sentence is left out: it may quote what was sent, and
 * that is secret.
 */
function refusalOf({ status, value }: IssuerReply, { issuerUrl, clientId }: OidcClient): Svc3Error {
  const error = textOf(value, 'error') ?? '';
  if (status === 429)
    return new Svc3Error('TooManyRequests', `${issuerUrl} is asked too often; try again later`);
  if (status >= 500) return new Svc3Error('ServiceUnavailable', `${issuerUrl} answers with HTTP ${status}`);
  const why = oauthErrors.get(error);
  if (why === undefined) return strange(issuerUrl, `answers with HTTP ${status}`);
  return new Svc3Error('BadRequest', `${issuerUrl} refuses client ${clientId} (${error}): ${why}`);
}

const deviceGrant = 'the client must be allowed the device login and refresh tokens';
const oauthErrors: ReadonlyMap<string, string> = new Map([
  ['invalid_client', 'is --oidc-client-id right, and the client a public one, without a secret?'],
  ['unauthorized_client', deviceGrant],
  ['unsupported_grant_type', deviceGrant],
  [
    'invalid_scope',
    'the client must be allowed those of openid, offline_access, profile, email and groups that the issuer lists',
  ],
  ['invalid_request', 'it does not understand the request'],
  ['invalid_grant', 'it does not know the code'],
]);

function strange(issuerUrl: string, what: string): Svc3Error {
  return new Svc3Error('BadGateway', `${issuerUrl} ${what}`);
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined;
}

/** A member that is a text of some length; what is longer than any token is none. */
function textOf(value: unknown, name: string): string | undefined {
  const member = memberOf(value, name);
  return typeof member === 'string' && member !== '' && member.length <= 65_536 ? member : undefined;
}
