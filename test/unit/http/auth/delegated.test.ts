import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { UserInfo } from '../../../../src/api/core.ts';
import type { AccountIdentity, Accounts } from '../../../../src/http/call/accounts.ts';
import { createDelegatedAuthorizer } from '../../../../src/http/auth/delegated.ts';
import type { Caller } from '../../../../src/http/call/caller.ts';
import type { KubeClient } from '../../../../src/kube/types.ts';

const jane = { username: 'jane', uid: 'u1', groups: ['devs', 'ops'], extra: { scopes: ['one', 'two'] } };
const attributes = { group: 'svc3.dev', resource: 'vms', verb: 'get', namespace: 'team' } as const;

const request = vi.fn<(asked: object) => Promise<{ body: object }>>();
const client = { request } as unknown as KubeClient;
const isDeleted = vi.fn<(identity: AccountIdentity) => boolean>();
let callerOf: (user: UserInfo) => Caller;

beforeEach(() => {
  request.mockReset().mockResolvedValue({ body: { status: { allowed: true } } });
  isDeleted.mockReset().mockReturnValue(false);
  callerOf = createDelegatedAuthorizer(client, { isDeleted } as unknown as Accounts);
});

describe('a caller who is known by name', () => {
  test('acts through the api, and is who it is said to be', async () => {
    const caller = callerOf(jane);
    expect([caller.client, caller.key, await caller.user()]).toEqual([client, 'jane\nu1', jane]);
    expect(request).not.toHaveBeenCalled();
  });

  test('is nobody once the account was deleted', () => {
    isDeleted.mockReturnValue(true);
    expect(() => callerOf(jane)).toThrow('Unauthorized: the account was deleted');
    expect(isDeleted).toHaveBeenCalledWith(jane);
  });

  test('has the rights of all that is known of it, of every version of the resource', async () => {
    await callerOf(jane).authorize(attributes);
    expect(request.mock.calls).toEqual([
      [
        {
          method: 'POST',
          path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
          // Sent again where a connection ended: it changes nothing.
          idempotent: true,
          body: {
            apiVersion: 'authorization.k8s.io/v1',
            kind: 'SubjectAccessReview',
            spec: {
              user: 'jane',
              uid: 'u1',
              groups: ['devs', 'ops'],
              extra: { scopes: ['one', 'two'] },
              resourceAttributes: { version: '*', ...attributes },
            },
          },
        },
      ],
    ]);
  });

  test('of whom only the name is known has those of the name', async () => {
    await callerOf({ username: 'joe' }).authorize(attributes);
    expect(request.mock.calls[0]?.[0]).toMatchObject({
      body: { spec: { user: 'joe', groups: [], extra: {} } },
    });
    expect(request.mock.calls[0]?.[0]).not.toHaveProperty('body.spec.uid');
  });

  test.each([{ status: { allowed: false } }, { status: {} }, {}])(
    'has no right that is answered with %j',
    async (body) => {
      request.mockResolvedValue({ body });
      await expect(callerOf(jane).authorize(attributes)).rejects.toMatchObject({
        reason: 'Forbidden',
        message: expect.stringContaining('User "jane" cannot get resource "vms"'),
      });
    },
  );

  test('is not refused where an authorizer could not judge, and asked for again', async () => {
    const evaluationError = 'failed to call the webhook';
    request.mockResolvedValue({ body: { status: { allowed: false, evaluationError } } });
    for (let asked = 1; asked <= 2; asked += 1) {
      await expect(callerOf(jane).authorize(attributes)).rejects.toMatchObject({
        reason: 'ServiceUnavailable',
        message: expect.stringContaining(evaluationError),
      });
      expect(request).toHaveBeenCalledTimes(asked);
    }
  });

  test('is asked for once, and again where it has to be fresh', async () => {
    await callerOf(jane).authorize(attributes);
    await callerOf({ ...jane }).authorize(attributes);
    expect(request).toHaveBeenCalledTimes(1);
    await callerOf(jane).authorize(attributes, true);
    expect(request).toHaveBeenCalledTimes(2);
  });

  test.each<Partial<UserInfo>>([{ username: 'joe' }, { uid: 'u2' }, { groups: ['devs'] }, { extra: {} }])(
    'with %o instead is another, whose rights are asked for by themselves',
    async (other) => {
      await callerOf(jane).authorize(attributes);
      await callerOf({ ...jane, ...other }).authorize(attributes);
      expect(request).toHaveBeenCalledTimes(2);
    },
  );
});
