import { createHash } from 'node:crypto';
import type { SubjectAccessReview, UserInfo } from '../../api/core.ts';
import { deletedAccount, type Accounts } from './accounts.ts';
import { forbidden, identityKey } from './auth.ts';
import { ExpiringMap } from './expiringmap.ts';
import type { AccessAttributes, Caller } from '../server/route.ts';
import type { KubeClient } from '../../kube/types.ts';

const decisionTtlMs = 10_000;

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
  const decisions = new ExpiringMap<Promise<boolean>>(50_000);

  async function review(user: UserInfo, attributes: AccessAttributes): Promise<boolean> {
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
    return body.status?.allowed === true;
  }

  return (user) => {
    if (accounts.isDeleted(user)) throw deletedAccount();
    const key = userKey(user);
    return {
      key: identityKey(user),
      client,
      async authorize(attributes, isFresh = false) {
        const decisionKey = `${key}\n${JSON.stringify(attributes)}`;
        if (isFresh) decisions.delete(decisionKey);
        const allowed = await decisions.getOrMake(decisionKey, decisionTtlMs, () => review(user, attributes));
        if (!allowed) throw forbidden(attributes, user.username);
      },
      user: () => Promise.resolve(user),
    };
  };
}
