import { expect, test, vi } from 'vitest';
import { createUsers } from '../../../../src/cli/users/users.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { KubeClient } from '../../../../src/kube/types.ts';

/** The users of a cluster that answers a token with `answer`, and which tokens it was asked with. */
function aCluster(answer: () => Promise<unknown>) {
  const asked: string[] = [];
  const client = {
    withToken: (token: string) => ({ create: () => (asked.push(token), answer()) }),
  } as unknown as KubeClient;
  const users = createUsers({
    client,
    server: 'https://c',
    context: 'c',
    caller: { key: 'somebody', varies: false },
    ownBearer: () => Promise.resolve(undefined),
    warning: () => undefined,
  });
  return { users, asked };
}

test.each([
  ['is taken where kube-apiserver knows whose it is', undefined, true],
  ['is not taken where kube-apiserver refuses it', new Svc3Error('Unauthorized', 'no'), false],
  ['is taken where its owner may not ask', new Svc3Error('Forbidden', 'no'), true],
  ['is taken where nobody answers', new Svc3Error('ServiceUnavailable', 'away'), true],
  ['is taken where nobody answers in time', new DOMException('late', 'TimeoutError'), true],
] as const)('a token %s', async (_what, error, isTaken) => {
  const { users, asked } = aCluster(() =>
    error === undefined ? Promise.resolve({}) : Promise.reject(error),
  );
  expect(await users.isTaken('t')).toBe(isTaken);
  expect(asked).toEqual(['t']);
});

test('who has a plugin is asked about once, and again where nobody has answered', async () => {
  const answers = [
    () => Promise.reject(new Svc3Error('ServiceUnavailable', 'away')),
    () => Promise.resolve({ status: { userInfo: { username: 'dev' } } }),
  ];
  const create = vi.fn<() => Promise<unknown>>(() => (answers.shift() ?? expect.fail('asked again'))());
  const users = createUsers({
    client: { create } as unknown as KubeClient,
    server: 'https://c',
    context: 'c',
    caller: { key: 'a plugin', varies: true },
    ownBearer: () => Promise.resolve(undefined),
    warning: () => undefined,
  });
  await expect(users.cacheKey()).rejects.toThrow('away');
  expect(await users.cacheKey()).toBe(await users.cacheKey());
  expect(create).toHaveBeenCalledTimes(2);
});

test('a token is asked about once', async () => {
  const { users, asked } = aCluster(() => Promise.resolve({}));
  expect(await Promise.all([users.isTaken('a'), users.isTaken('a'), users.isTaken('b')])).toEqual([
    true,
    true,
    true,
  ]);
  expect(asked).toEqual(['a', 'b']);
});
