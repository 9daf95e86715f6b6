import { hash } from 'node:crypto';
import type { SelfSubjectReview, UserInfo } from '../api/core.ts';
import { Svc3Error, isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { ExpiringMap } from './expiringmap.ts';
import type { AccessAttributes, Caller } from './route.ts';

/** Decisions of the authorizer live this long (docs/http.md, "Rights"). */
const decisionTtlMs = 10_000;
/** A token's name never changes; whether the token still holds is decided by each call made with it. */
const nameTtlMs = 240_000;
/** A refused token is asked about again soon: an account may just have come to exist. */
const unknownTokenTtlMs = 2_000;

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

/** Makes callers of bearer tokens; decisions and names are remembered by SHA-256 of the token, never by the token. */
export interface Authenticator {
  /** Throws Unauthorized when there is no token or it was refused a moment ago. */
  caller(authorization: string | undefined): Caller;
}

export function createAuthenticator(
  client: KubeClient,
  options: { maxEntries?: number } = {},
): Authenticator {
  const maxEntries = options.maxEntries ?? 50_000;
  const decisions = new ExpiringMap<Promise<Decision>>(maxEntries);
  const users = new ExpiringMap<Promise<UserInfo>>(maxEntries);
  const unknown = new ExpiringMap<true>(maxEntries);

  async function review(
    key: string,
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
      if (body.status?.allowed === true) return { kind: 'allowed' };
      return {
        kind: 'refused',
        error: forbidden(attributes, (await user(key, () => callerClient)).username),
      };
    } catch (error) {
      if (!isSvc3Error(error, 'Unauthorized')) throw error;
      unknown.set(key, true, unknownTokenTtlMs);
      return { kind: 'refused', error: unauthorized() };
    }
  }

  function user(key: string, callerClient: () => KubeClient): Promise<UserInfo> {
    return users.getOrMake(key, nameTtlMs, async () => {
      try {
        const { body } = await callerClient().request<SelfSubjectReview>({
          method: 'POST',
          path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
          idempotent: true,
          body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
        });
        return body.status?.userInfo ?? {};
      } catch (error) {
        if (!isSvc3Error(error, 'Unauthorized')) throw error;
        unknown.set(key, true, unknownTokenTtlMs);
        throw unauthorized();
      }
    });
  }

  return {
    caller(authorization) {
      const token = bearerToken(authorization);
      if (token === undefined) throw unauthorized('a bearer token is required');
      const key = tokenKey(token);
      if (unknown.get(key) === true) throw unauthorized();
      let made: KubeClient | undefined;
      // Most calls are answered from the caches: no client is needed for them.
      const callerClient = (): KubeClient => (made ??= client.withToken(token));
      return {
        key,
        get client() {
          return callerClient();
        },
        async authorize(attributes) {
          const decision = await decisions.getOrMake(
            `${key}\n${attributesKey(attributes)}`,
            decisionTtlMs,
            () => review(key, callerClient(), attributes),
          );
          if (decision.kind === 'refused') throw decision.error;
        },
        user: () => user(key, callerClient),
      };
    },
  };
}
