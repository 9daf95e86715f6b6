import { createHash } from 'node:crypto';
import type { SubjectAccessReview, UserInfo } from '../../api/core.ts';
import { deletedAccount, type Accounts } from '../call/accounts.ts';
import { identityKey } from './auth.ts';
import { type Asker, Decisions, refusalOf } from './decisions.ts';
import type { Svc3Error } from '../../errors.ts';
import type { AccessAttributes, Caller } from '../call/caller.ts';
import type { KubeClient } from '../../kube/types.ts';

/** Stands for the identity in the cache: rights depend on all of it. */
function userKey(user: UserInfo): string {
  return createHash('sha256').update(JSON.stringify(user)).digest('base64url');
}

/**
 * Callers without a token here: their rights are asked for by name, their actions done as the api. The function throws
 * Unauthorized when the account was deleted.
 */
export function createDelegatedAuthorizer(
  client: KubeClient,
  accounts: Accounts,
): (user: UserInfo) => Caller {
  const decisions = new Decisions(50_000);
  return (user) => {
    if (accounts.isDeleted(user)) throw deletedAccount();
    const asker: Asker = { key: userKey(user), ask: (attributes) => review(client, user, attributes) };
    return {
      key: identityKey(user),
      client,
      authorize: (attributes, isFresh = false) => decisions.check(asker, attributes, isFresh),
      user: () => Promise.resolve(user),
    };
  };
}

async function review(
  client: KubeClient,
  user: UserInfo,
  attributes: AccessAttributes,
): Promise<Svc3Error | undefined> {
  const { username = '', uid, groups = [], extra = {} } = user;
  const { body } = await client.request<SubjectAccessReview>({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    idempotent: true,
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: username,
        groups,
        extra,
        ...(uid === undefined ? {} : { uid }),
        resourceAttributes: { version: '*', ...attributes },
      },
    },
  });
  return refusalOf(body.status, attributes, user.username);
}
