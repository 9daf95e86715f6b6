import { hash } from 'node:crypto';
import type { SelfSubjectReview, SubjectAccessReview, UserInfo } from '../../api/core.ts';
import { Svc3Error, isSvc3Error } from '../../errors.ts';
import { unprovenConnections } from '../../kube/identities.ts';
import type { KubeClient } from '../../kube/types.ts';
import { deletedAccount, type Accounts } from '../call/accounts.ts';
import { clientOf } from './clientaddress.ts';
import { ExpiringMap } from '../call/expiringmap.ts';
import { AdmissionQueue } from './admissionqueue.ts';
import { type Asker, Decisions, refusalOf, refusalTtlMs } from './decisions.ts';
import type { AccessAttributes, Caller } from '../call/caller.ts';
import { readTokenClaims, type TokenClaims } from './tokenclaims.ts';

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

export function unauthorized(detail?: string): Svc3Error {
  return new Svc3Error('Unauthorized', detail === undefined ? 'Unauthorized' : `Unauthorized: ${detail}`);
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

/**
 * Asks kube-apiserver whose a token is by a SelfSubjectReview with that token. The answer, decisions and refusals are remembered for a while; the token of an
 * account that `accounts` knows as deleted is refused at once.
 *
 * @param client - its credential is not used, only its connection
 * @param options.maxEntries - tokens, and decisions, that are remembered at most, each 50,000 unless said otherwise; the oldest goes first
 */
export function createAuthenticator(
  client: KubeClient,
  accounts: Accounts,
  { maxEntries = 50_000 }: { maxEntries?: number } = {},
): Authenticator {
  return new TokenAuthenticator(client, accounts, maxEntries);
}

class TokenAuthenticator implements Authenticator {
  readonly #client: KubeClient;
  readonly #accounts: Accounts;
  readonly #decisions: Decisions;
  readonly #identities: ExpiringMap<Identity>;
  readonly #proven: ExpiringMap<true>;
  readonly #refused: ExpiringMap<true>;
  readonly #asked = new Map<string, Promise<Identity>>();
  readonly #queue = new AdmissionQueue(unproven);

  constructor(client: KubeClient, accounts: Accounts, maxEntries: number) {
    this.#client = client;
    this.#accounts = accounts;
    this.#decisions = new Decisions(maxEntries);
    this.#identities = new ExpiringMap(maxEntries);
    this.#proven = new ExpiringMap(maxEntries);
    this.#refused = new ExpiringMap(maxEntries);
  }

  caller(authorization: string | undefined, address: string): Caller | Promise<Caller> {
    const token = bearerToken(authorization);
    if (token === undefined) throw unauthorized('a bearer token is required');
    const key = tokenKey(token);
    if (this.#refused.get(key) === true) throw unauthorized();
    const known = this.#identities.get(key);
    if (known !== undefined) return this.#callerOf(key, token, known);
    return this.#identify(key, token, address).then((identity) => this.#callerOf(key, token, identity));
  }

  #callerOf(key: string, token: string, { user, claims }: Identity): Caller {
    if (this.#accounts.isDeleted(claims.accountUid === undefined ? user : { uid: claims.accountUid }))
      throw deletedAccount();
    let made: KubeClient | undefined;
    // Most calls are answered from the caches: no client is needed for them.
    const client = (): KubeClient => (made ??= this.#client.withToken(token, identityKey(user)));
    const asker: Asker = {
      key,
      ask: (attributes) => this.#review({ key, username: user.username, client: client() }, attributes),
    };
    return {
      key: identityKey(user),
      get client() {
        return client();
      },
      authorize: (attributes, isFresh = false) => this.#decisions.check(asker, attributes, isFresh),
      user: () => Promise.resolve(user),
      ...(claims.expiresAt === undefined ? {} : { expiresAt: claims.expiresAt }),
    };
  }

  /** One question for all who come with the token at the same time. */
  #identify(key: string, token: string, address: string): Promise<Identity> {
    const running = this.#asked.get(key);
    if (running !== undefined) return running;
    const claims = readTokenClaims(token);
    const ask = (): Promise<Identity> => this.#ask(key, token, claims);
    const isProven = this.#proven.get(key) === true;
    const asking = isProven ? ask() : this.#queue.run(this.#turnOf(claims, address), ask);
    const answer = asking.finally(() => this.#asked.delete(key));
    this.#asked.set(key, answer);
    return answer;
  }

  /** Whose turn it is to be asked about: an account that exists has its own, whoever sends nonsense from the same address. */
  #turnOf({ accountUid }: TokenClaims, address: string): string {
    const isAccount = accountUid !== undefined && this.#accounts.has(accountUid);
    return isAccount ? `account ${accountUid}` : `address ${clientOf(address)}`;
  }

  async #ask(key: string, token: string, claims: TokenClaims): Promise<Identity> {
    try {
      const { body } = await this.#client.withToken(token).request<SelfSubjectReview>({
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
        idempotent: true,
        timeoutMs: identifyTimeoutMs,
        body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      });
      const identity = { user: body.status?.userInfo ?? {}, claims };
      this.#identities.set(key, identity, identityTtlMs);
      this.#proven.set(key, true, provenTtlMs);
      return identity;
    } catch (error) {
      throw isSvc3Error(error, 'Unauthorized') ? this.#refuse(key) : error;
    }
  }

  async #review(
    { key, username, client }: { key: string; username: string | undefined; client: KubeClient },
    attributes: AccessAttributes,
  ): Promise<Svc3Error | undefined> {
    try {
      const { body } = await client.request<Pick<SubjectAccessReview, 'status'>>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
        idempotent: true,
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SelfSubjectAccessReview',
          spec: { resourceAttributes: { version: '*', ...attributes } },
        },
      });
      this.#proven.set(key, true, provenTtlMs);
      return refusalOf(body.status, attributes, username);
    } catch (error) {
      if (!isSvc3Error(error, 'Unauthorized')) throw error;
      return this.#refuse(key);
    }
  }

  #refuse(key: string): Svc3Error {
    this.#refused.set(key, true, refusalTtlMs);
    this.#identities.delete(key);
    this.#proven.delete(key);
    return unauthorized();
  }
}
