import { describe, expect, test } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { bearerToken, identityKey, tokenKey, unauthorized } from '../../../../src/http/auth/auth.ts';
import { forbidden, Undecided } from '../../../../src/http/auth/decisions.ts';
import { attributesOf, isAllowed, isShown, refusedFor } from '../../../../src/http/auth/permission.ts';
import type { Permission, Route } from '../../../../src/http/call/route.ts';
import type { Caller } from '../../../../src/http/call/caller.ts';

const permission = {
  kind: 'native',
  group: 'svc3.dev',
  resource: 'vms',
  verb: 'get',
  scope: 'namespace',
  name: 'vm',
} as Permission;
const params = { namespace: 'team', vm: 'one', other: 'x' };

describe('what is asked of the authorizer', () => {
  test('is group, resource, verb, namespace and name of the request', () => {
    expect(attributesOf(permission, params)).toEqual({
      group: 'svc3.dev',
      resource: 'vms',
      verb: 'get',
      namespace: 'team',
      name: 'one',
    });
  });

  test.each<[string, object, object]>([
    ['the subresource, where there is one', { subresource: 'exec' }, { subresource: 'exec' }],
    ['no namespace at the cluster scope', { scope: 'cluster' }, { namespace: undefined }],
    ['no name where the route has none', { name: undefined }, { name: undefined }],
    ['no name where the request has none', { name: 'gone' }, { name: undefined }],
  ])('has %s', (_what, more, expected) => {
    const whole = {
      group: 'svc3.dev',
      resource: 'vms',
      verb: 'get',
      namespace: 'team',
      name: 'one',
      ...expected,
    };
    const asked = attributesOf({ ...permission, ...more }, params);
    expect(asked).toEqual(whole);
    for (const [key, value] of Object.entries(whole)) expect(key in asked!).toBe(value !== undefined);
  });

  test.each(['open', 'delegated'])('is nothing for a route that is %s', (kind) => {
    expect(attributesOf({ kind } as Permission, params)).toBeUndefined();
  });
});

describe('a right that cannot be told now', () => {
  const attributes = { group: 'svc3.dev', resource: 'vms', verb: 'list' } as const;
  const undecided = new Undecided(attributes, 'ann', 'no webhook');
  const callerWith = (answer: Promise<void>) => ({ authorize: () => answer }) as unknown as Caller;

  test('is no answer to who needs one, and none to who shows it', async () => {
    await expect(isAllowed(callerWith(Promise.reject(undecided)), attributes)).rejects.toBe(undecided);
    expect(await isShown(callerWith(Promise.reject(undecided)), attributes)).toBe(false);
  });

  test('is not one that was told, or that nobody could be asked about', async () => {
    expect(await isShown(callerWith(Promise.resolve()), attributes)).toBe(true);
    expect(await isShown(callerWith(Promise.reject(forbidden(attributes))), attributes)).toBe(false);
    const away = new Svc3Error('ServiceUnavailable', 'away');
    await expect(isShown(callerWith(Promise.reject(away)), attributes)).rejects.toBe(away);
  });

  test('says of its reason only so much', () => {
    const { message } = new Undecided(attributes, undefined, 'x'.repeat(10_000));
    expect(message).toHaveLength(
      'kube-apiserver cannot tell now whether the caller may list resource "vms" in API group "svc3.dev" at the cluster scope: '
        .length + 300,
    );
  });
});

describe('a refusal of a route', () => {
  const gone = new Svc3Error('NotFound', 'gone');
  const denied = new Svc3Error('Forbidden', 'denied');
  const callerThat = (mayDo: boolean): Caller =>
    ({ authorize: () => (mayDo ? Promise.resolve() : Promise.reject(denied)) }) as unknown as Caller;
  const route = (given: Permission): Route => ({ permission: given }) as Route;

  test('is shown to who may do the thing, and to nobody else', async () => {
    expect(await refusedFor(route(permission), params, callerThat(true), gone)).toBe(gone);
    expect(await refusedFor(route(permission), params, callerThat(false), gone)).toBe(denied);
    expect(await refusedFor(route(permission), params, undefined, gone)).toBe(gone);
  });

  test.each(['Unauthorized', 'Forbidden'] as const)('that is %s is shown as it is', async (reason) => {
    const refusal = new Svc3Error(reason, 'no');
    expect(await refusedFor(route(permission), params, callerThat(false), refusal)).toBe(refusal);
  });

  test('that svc3 has authorised itself is shown as it is', async () => {
    for (const kind of ['open', 'delegated', 'checked'])
      expect(
        await refusedFor(route({ ...permission, kind } as Permission), params, callerThat(false), gone),
      ).toBe(gone);
  });
});

describe('words of kube-apiserver', () => {
  test.each<[object, string | undefined, string]>([
    [
      { namespace: 'team', name: 'one' },
      'alice',
      'vms.svc3.dev "one" is forbidden: User "alice" cannot get resource "vms" in API group "svc3.dev" in the namespace "team"',
    ],
    [
      {},
      undefined,
      'vms.svc3.dev is forbidden: the caller cannot get resource "vms" in API group "svc3.dev" at the cluster scope',
    ],
    [
      { subresource: 'exec' },
      'alice',
      'vms.svc3.dev is forbidden: User "alice" cannot get resource "vms/exec" in API group "svc3.dev" at the cluster scope',
    ],
  ])('refuse %o to %s', (more, who, message) => {
    const attributes = { group: 'svc3.dev', resource: 'vms', verb: 'get', ...more } as Parameters<
      typeof forbidden
    >[0];
    const error = forbidden(attributes, who);
    expect(error).toMatchObject({ reason: 'Forbidden', message });
    expect(error.details).toEqual({
      group: 'svc3.dev',
      kind: 'vms',
      ...('name' in more ? { name: 'one' } : {}),
    });
  });

  test('say that a token is none', () => {
    expect(unauthorized()).toMatchObject({ reason: 'Unauthorized', message: 'Unauthorized' });
    expect(unauthorized('why').message).toBe('Unauthorized: why');
  });
});

describe('a token', () => {
  test.each([
    ['Bearer abc', 'abc'],
    ['bearer abc', 'abc'],
    ['BEARER   abc ', 'abc'],
    [`Bearer ${'x'.repeat(16_384)}`, 'x'.repeat(16_384)],
    [undefined, undefined],
    ['', undefined],
  ])('of %s is read', (header, token) => {
    expect(bearerToken(header)).toBe(token);
  });

  test.each([
    'Basic abc',
    'Bearer',
    'Bearer ',
    'abc',
    'Bearer a b',
    'Bearer ä',
    'Bearerabc',
    `Bearer ${'x'.repeat(16_385)}`,
  ])('of %s is refused', (header) => {
    expect(() => bearerToken(header)).toThrow(
      'Unauthorized: the Authorization header must be "Bearer <token>"',
    );
  });

  test('is remembered by its hash', () => {
    expect(tokenKey('abc')).toBe('ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0');
  });

  test('is of one person by name and UID', () => {
    expect(identityKey({ username: 'a', uid: '1' })).toBe('a\n1');
    expect(identityKey({})).toBe('\n');
  });
});
