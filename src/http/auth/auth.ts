import { hash } from 'node:crypto';
import type { SelfSubjectReview, UserInfo } from '../../api/core.ts';
import { Svc3Error, isSvc3Error } from '../../errors.ts';
import { unprovenConnections } from '../../kube/identities.ts';
import type { KubeClient } from '../../kube/types.ts';
import { deletedAccount, type Accounts } from './accounts.ts';
import { clientOf } from './clientaddress.ts';
import { ExpiringMap } from './expiringmap.ts';
import { AdmissionQueue } from './admissionqueue.ts';
import type { AccessAttributes, Caller } from '../server/route.ts';
import { readTokenClaims, type TokenClaims } from './tokenclaims.ts';

/** Decisions of the authorizer live this long (docs/http.md, "Rights"). */
const decisionTtlMs = 10_000;
/** A refusal is asked about again soon: the right, or the account, may just have come to exist. */
const refusalTtlMs = 2_000;
/** A token's name never changes; whether the token still holds is decided by each call made with it. */
const identityTtlMs = 240_000;
/** How long a token counts as proven after kube-apiserver has accepted it: longer than its name is remembered. */
const provenTtlMs = 600_000;
/** Milliseconds for kube-apiserver to say whose a token is. */
const identifyTimeoutMs = 10_000;

/** Callers whose token kube-apiserver has not accepted yet; all of a client's that wait take less than 100 ms. */
const unproven = {
  running: unprovenConnections,
  waitingPerKey: 32,
  waiting: 512,
  what: 'calls with tokens that nobody has accepted yet',
} as const;

interface Identity {
  readonly user: UserInfo;
  readonly claims: TokenClaims;
}

type Decision = { readonly kind: 'allowed' } | { readonly kind: 'refused'; readonly error: Svc3Error };

interface SelfSubjectAccessReview {
  status?: { allowed?: boolean; reason?: string; evaluationError?: string };
}

export function unauthorized(detail?: string): Svc3Error {
  return new Svc3Error('Unauthorized', detail === undefined ? 'Unauthorized' : `Unauthorized: ${detail}`);
}

/** `verb resource.group/subresource in the namespace "x"`, in the words of kube-apiserver. */
export function forbidden(attributes: AccessAttributes, username?: string): Svc3Error {
  const { group, resource, subresource, verb, namespace, name } = attributes;
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  const who = username === undefined ? 'the caller' : `User "${username}"`;
  const where = namespace === undefined ? 'at the cluster scope' : `in the namespace "${namespace}"`;
  const named = name === undefined ? '' : ` "${name}"`;
  return new Svc3Error(
    'Forbidden',
    `${resource}.${group}${named} is forbidden: ${who} cannot ${verb} resource "${what}" in API group "${group}" ${where}`,
    { details: { group, kind: resource, ...(name === undefined ? {} : { name }) } },
  );
}

export function tokenKey(token: string): string {
  return hash('sha256', token, 'base64url');
}

/** The token of an Authorization header, or undefined; throws Unauthorized for another scheme or a malformed token. */
export function bearerToken(header: string | undefined): string | undefined {
  if (header === undefined || header === '') return undefined;
  const match = /^bearer +([\x21-\x7e]{1,16384})$/i.exec(header.trim());
  if (match?.[1] === undefined) throw unauthorized('the Authorization header must be "Bearer <token>"');
  return match[1];
}

function attributesKey(attributes: AccessAttributes): string {
  const { group, resource, subresource = '', verb, namespace = '', name = '' } = attributes;
  return `${group}\n${resource}\n${subresource}\n${verb}\n${namespace}\n${name}`;
}

/** Stands for who calls in limits, whatever token or session it is. */
export function identityKey({ username = '', uid = '' }: UserInfo): string {
  return `${username}\n${uid}`;
}

/** Makes callers of bearer tokens; decisions and names are remembered by SHA-256 of the token, never by the token. */
export interface Authenticator {
  /**
   * The caller, at once where the token is known, else as soon as kube-apiserver has said whose it is. Throws, or rejects with,
   * Unauthorized when there is no token, it is refused, or its account was deleted; TooManyRequests or ServiceUnavailable when too
   * many unknown tokens come from this address, or in all.
   * @param address - of the client
   */
  caller(authorization: string | undefined, address: string): Caller | Promise<Caller>;
}

export function createAuthenticator(
  client: KubeClient,
  accounts: Accounts,
  options: { maxEntries?: number } = {},
): Authenticator {
  const maxEntries = options.maxEntries ?? 50_000;
  const decisions = new ExpiringMap<Promise<Decision>>(maxEntries);
  const identities = new ExpiringMap<Identity>(maxEntries);
  const asked = new Map<string, Promise<Identity>>();
  const proven = new ExpiringMap<true>(maxEntries);
  const refused = new ExpiringMap<true>(maxEntries);
  const queue = new AdmissionQueue(unproven);

  function refuse(key: string): Svc3Error {
    refused.set(key, true, refusalTtlMs);
    identities.delete(key);
    proven.delete(key);
    return unauthorized();
  }

  async function review(
    key: string,
    { user }: Identity,
    callerClient: KubeClient,
    attributes: AccessAttributes,
  ): Promise<Decision> {
    try {
      const { body } = await callerClient.request<SelfSubjectAccessReview>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
        idempotent: true,
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SelfSubjectAccessReview',
          spec: { resourceAttributes: { version: '*', ...attributes } },
        },
      });
      proven.set(key, true, provenTtlMs);
      if (body.status?.allowed === true) return { kind: 'allowed' };
      return { kind: 'refused', error: forbidden(attributes, user.username) };
    } catch (error) {
      if (!isSvc3Error(error, 'Unauthorized')) throw error;
      return { kind: 'refused', error: refuse(key) };
    }
  }

  async function decide(
    key: string,
    identity: Identity,
    callerClient: () => KubeClient,
    attributes: AccessAttributes,
    isFresh: boolean,
  ): Promise<Decision> {
    const decisionKey = `${key}\n${attributesKey(attributes)}`;
    if (isFresh) decisions.delete(decisionKey);
    const known = decisions.get(decisionKey);
    if (known !== undefined) return known;
    const asking = decisions.getOrMake(decisionKey, decisionTtlMs, () =>
      review(key, identity, callerClient(), attributes),
    );
    const decision = await asking;
    if (decision.kind === 'refused') decisions.set(decisionKey, asking, refusalTtlMs);
    return decision;
  }

  async function ask(key: string, token: string, claims: TokenClaims): Promise<Identity> {
    try {
      const { body } = await client.withToken(token).request<SelfSubjectReview>({
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
        idempotent: true,
        timeoutMs: identifyTimeoutMs,
        body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      });
      const identity = { user: body.status?.userInfo ?? {}, claims };
      identities.set(key, identity, identityTtlMs);
      proven.set(key, true, provenTtlMs);
      return identity;
    } catch (error) {
      throw isSvc3Error(error, 'Unauthorized') ? refuse(key) : error;
    }
  }

  /** Whose turn it is to be asked about: an account that exists has its own, whoever sends nonsense from the same address. */
  function turnOf({ accountUid }: TokenClaims, address: string): string {
    const isAccount = accountUid !== undefined && accounts.has(accountUid);
    return isAccount ? `account ${accountUid}` : `address ${clientOf(address)}`;
  }

  /** One question for all who come with the token at the same time. */
  function identify(key: string, token: string, address: string): Promise<Identity> {
    const running = asked.get(key);
    if (running !== undefined) return running;
    const claims = readTokenClaims(token);
    const answer = (
      proven.get(key) === true
        ? ask(key, token, claims)
        : queue.run(turnOf(claims, address), () => ask(key, token, claims))
    ).finally(() => asked.delete(key));
    asked.set(key, answer);
    return answer;
  }

  function callerOf(key: string, token: string, identity: Identity): Caller {
    const { user, claims } = identity;
    if (accounts.isDeleted(claims.accountUid === undefined ? user : { uid: claims.accountUid }))
      throw deletedAccount();
    let made: KubeClient | undefined;
    // Most calls are answered from the caches: no client is needed for them.
    const callerClient = (): KubeClient => (made ??= client.withToken(token));
    return {
      key: identityKey(user),
      get client() {
        return callerClient();
      },
      async authorize(attributes, isFresh = false) {
        const decision = await decide(key, identity, callerClient, attributes, isFresh);
        if (decision.kind === 'refused') throw decision.error;
      },
      user: () => Promise.resolve(user),
      ...(claims.expiresAt === undefined ? {} : { expiresAt: claims.expiresAt }),
    };
  }

  return {
    caller(authorization, address) {
      const token = bearerToken(authorization);
      if (token === undefined) throw unauthorized('a bearer token is required');
      const key = tokenKey(token);
      if (refused.get(key) === true) throw unauthorized();
      const known = identities.get(key);
      if (known !== undefined) return callerOf(key, token, known);
      return identify(key, token, address).then((identity) => callerOf(key, token, identity));
    },
  };
}
