import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import type { AccountIdentity, Accounts } from '../../../../src/http/call/accounts.ts';
import { createAuthenticator } from '../../../../src/http/auth/auth.ts';
import type { Caller } from '../../../../src/http/call/caller.ts';
import type { KubeClient, RawRequest } from '../../../../src/kube/types.ts';

interface Asked extends RawRequest {
  readonly token: string;
}

const unauthorized = new Svc3Error('Unauthorized', 'Unauthorized');
const away = new Svc3Error('ServiceUnavailable', 'away');
const ann = { username: 'ann', uid: 'u-ann' };
const attributes = { group: 'svc3.dev', resource: 'vms', verb: 'get', namespace: 'team' } as const;

/** kube-apiserver by what it says of tokens; what it shows of itself is in test/integration/http. */
function given({ has = () => false }: { has?: (uid: string) => boolean } = {}) {
  const asked: Asked[] = [];
  const deleted: AccountIdentity[] = [];
  const says = {
    who: (_token: string): Promise<object> => Promise.resolve({ status: { userInfo: ann } }),
    may: (_token: string): Promise<object> => Promise.resolve({ status: { allowed: true } }),
  };
  const clients: string[] = [];
  const withToken = (token: string, who?: string) => {
    clients.push(who === undefined ? token : `${token} of ${who}`);
    return {
      request: async (request: RawRequest) => {
        asked.push({ ...request, token });
        const isWho = request.path.endsWith('/selfsubjectreviews');
        return { body: await (isWho ? says.who(token) : says.may(token)) };
      },
    };
  };
  const accounts = {
    isDeleted: (identity: AccountIdentity) =>
      deleted.some(({ uid, username }) =>
        identity.uid === undefined ? identity.username === username : identity.uid === uid,
      ),
    has,
  } as unknown as Accounts;
  const authenticator = createAuthenticator({ withToken } as unknown as KubeClient, accounts);
  return {
    asked,
    deleted,
    says,
    clients,
    tokens: () => asked.map(({ token }) => token),
    caller: (token: string, address = '192.0.2.1') => authenticator.caller(`Bearer ${token}`, address),
    authenticator,
  };
}

/** A token that says of itself whose account it is of. */
const tokenOf = (uid: string, exp?: number): string => {
  const payload = { exp, 'kubernetes.io': { serviceaccount: { uid } } };
  return `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2ln`;
};

/** Whether somebody has been let in by now. */
async function outcome(call: () => Caller | Promise<Caller>): Promise<string> {
  try {
    await call();
    return 'let in';
  } catch (error) {
    return (error as Svc3Error).reason;
  }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

describe('a caller', () => {
  test('is who kube-apiserver says: it is asked with the token itself', async () => {
    const { asked, caller } = given();
    const found = await caller('abc');
    expect([found.key, await found.user()]).toEqual(['ann\nu-ann', ann]);
    expect(asked).toEqual([
      {
        token: 'abc',
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
        // Sent again where a connection ended: it changes nothing.
        idempotent: true,
        timeoutMs: 10_000,
        body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
      },
    ]);
  });

  test('without a token is refused, and nobody is asked', () => {
    const { authenticator, asked } = given();
    for (const header of [undefined, ''])
      expect(() => authenticator.caller(header, '192.0.2.1')).toThrow('a bearer token is required');
    expect(asked).toEqual([]);
  });

  test('that nothing is known of is nobody in particular', async () => {
    const { caller, says } = given();
    says.who = () => Promise.resolve({});
    expect((await caller('abc')).key).toBe('\n');
  });

  test('is known for four minutes', async () => {
    const { asked, caller } = given();
    await caller('abc');
    vi.advanceTimersByTime(239_999);
    expect(caller('abc')).not.toBeInstanceOf(Promise);
    vi.advanceTimersByTime(1);
    await caller('abc');
    expect(asked).toHaveLength(2);
  });

  test('is asked about once, however many calls come at the same time', async () => {
    const { asked, caller } = given();
    const [one, other] = await Promise.all([caller('abc'), caller('abc'), caller('abc')]);
    expect(asked).toHaveLength(1);
    expect(one?.key).toBe(other?.key);
    await caller('other');
    expect(asked).toHaveLength(2);
  });

  test('says when its token ends', async () => {
    const { caller } = given();
    expect((await caller(tokenOf('u', 1_800_000_000))).expiresAt).toBe(1_800_000_000_000);
    expect(await caller('abc')).not.toHaveProperty('expiresAt');
  });

  test('gets a client of its own token when it needs one, and only one', async () => {
    const { caller, clients } = given();
    const found = await caller('abc');
    expect(clients).toEqual(['abc']);
    expect(found.client).toBe(found.client);
    await found.authorize(attributes);
    expect(clients).toEqual(['abc', 'abc of ann\nu-ann']);
  });
});

describe('a token that kube-apiserver refuses', () => {
  test('is refused at once for two seconds, and then asked about again', async () => {
    const { asked, caller, says } = given();
    says.who = () => Promise.reject(unauthorized);
    expect(await outcome(() => caller('abc'))).toBe('Unauthorized');
    vi.advanceTimersByTime(1_999);
    expect(() => caller('abc')).toThrow('Unauthorized');
    expect(asked).toHaveLength(1);
    vi.advanceTimersByTime(1);
    says.who = () => Promise.resolve({ status: { userInfo: ann } });
    expect(await outcome(() => caller('abc'))).toBe('let in');
  });

  test('is not one that it could not be asked about: that is told, and asked again', async () => {
    const { caller, says } = given();
    says.who = () => Promise.reject(away);
    expect(await outcome(() => caller('abc'))).toBe('ServiceUnavailable');
    says.who = () => Promise.resolve({ status: { userInfo: ann } });
    expect(await outcome(() => caller('abc'))).toBe('let in');
  });

  test('while rights are asked for is forgotten with its name', async () => {
    const { asked, caller, says } = given();
    const found = await caller('abc');
    says.may = () => Promise.reject(unauthorized);
    await expect(found.authorize(attributes)).rejects.toMatchObject({ reason: 'Unauthorized' });
    expect(() => caller('abc')).toThrow('Unauthorized');
    vi.advanceTimersByTime(2_000);
    await caller('abc');
    expect(asked.filter(({ path }) => path.endsWith('/selfsubjectreviews'))).toHaveLength(2);
  });
});

describe('the account of a caller', () => {
  test('that was deleted lets nobody in, also who is known already', async () => {
    const { caller, deleted } = given();
    const token = tokenOf('u-ci');
    await caller(token);
    await caller('abc');
    deleted.push({ uid: 'u-ci' });
    expect(() => caller(token)).toThrow('the account was deleted');
    expect(await outcome(() => caller('abc'))).toBe('let in');
    deleted.push({ uid: 'u-ann' });
    expect(() => caller('abc')).toThrow('the account was deleted');
  });

  test('is the one that its token names, before the one that kube-apiserver does', async () => {
    const { caller, deleted } = given();
    deleted.push({ uid: 'u-ann' });
    expect(await outcome(() => caller(tokenOf('u-new')))).toBe('let in');
  });
});

describe('rights', () => {
  test('are asked of kube-apiserver in the name of the caller, for every version of the resource', async () => {
    const { asked, caller } = given();
    const found = await caller('abc');
    await expect(found.authorize(attributes)).resolves.toBeUndefined();
    expect(asked[1]).toEqual({
      token: 'abc',
      method: 'POST',
      path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
      idempotent: true,
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: { resourceAttributes: { version: '*', ...attributes } },
      },
    });
  });

  test('are remembered, but for who wants to know for sure', async () => {
    const { asked, caller } = given();
    const found = await caller('abc');
    await found.authorize(attributes);
    await found.authorize(attributes);
    expect(asked).toHaveLength(2);
    await found.authorize(attributes, true);
    expect(asked).toHaveLength(3);
  });

  test.each([{ status: { allowed: false } }, { status: {} }, {}])(
    'that are answered with %j are none',
    async (answer) => {
      const { caller, says } = given();
      const found = await caller('abc');
      says.may = () => Promise.resolve(answer);
      await expect(found.authorize(attributes)).rejects.toMatchObject({
        reason: 'Forbidden',
        message: expect.stringContaining('User "ann" cannot get resource "vms"'),
      });
    },
  );

  test('that an authorizer could not judge are no refusal, and asked for again', async () => {
    const { asked, caller, says } = given();
    const found = await caller('abc');
    const evaluationError = 'failed to call the webhook';
    says.may = () => Promise.resolve({ status: { allowed: false, evaluationError } });
    await expect(found.authorize(attributes)).rejects.toMatchObject({
      reason: 'ServiceUnavailable',
      message: expect.stringContaining(`User "ann" may get resource "vms"`),
    });
    await expect(found.authorize(attributes)).rejects.toThrow(evaluationError);
    expect(asked).toHaveLength(3);
    says.may = () => Promise.resolve({ status: { allowed: true, evaluationError } });
    await expect(found.authorize(attributes)).resolves.toBeUndefined();
  });

  test('that are denied are refused, whatever else went wrong', async () => {
    const { caller, says } = given();
    const found = await caller('abc');
    says.may = () => Promise.resolve({ status: { allowed: false, denied: true, evaluationError: 'x' } });
    await expect(found.authorize(attributes)).rejects.toMatchObject({ reason: 'Forbidden' });
  });

  test('that could not be asked for are no refusal', async () => {
    const { caller, says } = given();
    const found = await caller('abc');
    says.may = () => Promise.reject(away);
    await expect(found.authorize(attributes)).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    expect(await outcome(() => caller('abc'))).toBe('let in');
  });
});

describe('where many send tokens that nobody has accepted yet', () => {
  const silent = () => new Promise<object>(() => undefined);
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

  /** Unknown tokens of one address, of which no answer comes. */
  function flood({ caller, says }: ReturnType<typeof given>, count: number, address?: string) {
    says.who = silent;
    return Array.from({ length: count }, (_, i) => outcome(() => caller(`x${i}`, address)));
  }

  test('four are asked about at a time, and so is one that was accepted in the last ten minutes', async () => {
    const all = given();
    await all.caller('abc');
    vi.advanceTimersByTime(599_999);
    void flood(all, 6);
    void all.caller('abc');
    await nextTurn();
    expect(all.tokens()).toEqual(['abc', 'x0', 'x1', 'x2', 'x3', 'abc']);
  });

  test('one that was accepted longer ago waits like the others', async () => {
    const all = given();
    await all.caller('abc');
    vi.advanceTimersByTime(600_000);
    void flood(all, 6);
    void all.caller('abc');
    await nextTurn();
    expect(all.tokens()).toEqual(['abc', 'x0', 'x1', 'x2', 'x3']);
  });

  test('a right that was asked for shows as well that a token is accepted', async () => {
    const all = given();
    const found = await all.caller('abc');
    vi.advanceTimersByTime(300_000);
    await found.authorize(attributes);
    vi.advanceTimersByTime(599_999);
    void flood(all, 6);
    void all.caller('abc');
    await nextTurn();
    expect(all.tokens().at(-1)).toBe('abc');
  });

  test('one that was refused since waits like the others', async () => {
    const all = given();
    await all.caller('abc');
    vi.advanceTimersByTime(240_000);
    all.says.who = () => Promise.reject(unauthorized);
    expect(await outcome(() => all.caller('abc'))).toBe('Unauthorized');
    vi.advanceTimersByTime(2_000);
    void flood(all, 6);
    void all.caller('abc');
    await nextTurn();
    expect(all.tokens().at(-1)).toBe('x3');
  });

  test('no more than 512 wait, from however many addresses', async () => {
    const all = given();
    all.says.who = silent;
    const come = (i: number) => outcome(() => all.caller(`x${i}`, `192.0.2.${i % 20}`));
    for (let i = 0; i < 4 + 512; i += 1) void come(i);
    await nextTurn();
    expect(await come(4 + 512)).toBe('ServiceUnavailable');
  });

  test('32 of an address wait, and the next is refused; an account that exists has a turn of its own', async () => {
    const all = given({ has: (uid) => uid === 'u-ci' });
    void flood(all, 4 + 32);
    await nextTurn();
    expect(await outcome(() => all.caller('more'))).toBe('TooManyRequests');
    expect(await outcome(() => all.caller(tokenOf('u-nobody')))).toBe('TooManyRequests');
    const others = [all.caller('more', '192.0.2.2'), all.caller(tokenOf('u-ci'))].map(
      async (call) => await call,
    );
    expect(await Promise.race([...others, nextTurn().then(() => 'waits')])).toBe('waits');
  });
});
