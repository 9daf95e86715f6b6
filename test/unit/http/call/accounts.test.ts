import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ServiceAccount } from '../../../../src/api/core.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { type Accounts, createAccounts, keepIdentity } from '../../../../src/http/call/accounts.ts';
import { createStore } from '../../../../src/kube/store.ts';
import type { Change, Informer, KubeClient } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const anAccount = (name: string, uid = `u-${name}`): ServiceAccount => ({
  metadata: storedMeta({ name, namespace: 'team', uid }),
});
const ci = anAccount('ci');
const username = 'system:serviceaccount:team:ci';

const get = vi.fn<KubeClient['get']>();
let accounts: Accounts;
let see: (account: ServiceAccount) => void;
let lose: (account: ServiceAccount) => void;

beforeEach(() => {
  const store = createStore<ServiceAccount>();
  const handlers: ((change: Change<ServiceAccount>) => void)[] = [];
  const tell = (changes: readonly Change<ServiceAccount>[]): void => {
    for (const change of changes) for (const handler of handlers) handler(change);
  };
  get.mockReset().mockRejectedValue(new Svc3Error('NotFound', 'gone'));
  const informer = {
    addIndexes: (indexes) => store.addIndexes(indexes),
    byIndex: (index: string, value: string) => store.byIndex(index, value),
    onChange: (handler) => void handlers.push(handler),
  } as Informer<ServiceAccount>;
  accounts = createAccounts({ get } as unknown as KubeClient, informer);
  see = (account) => tell(store.put(account));
  lose = (account) => tell(store.remove(account));
});

test('of an account is kept who it is, and nothing else', () => {
  const { metadata } = ci;
  const whole = { metadata: { ...metadata, labels: { a: 'b' } }, secrets: [{ name: 'token' }] };
  expect(keepIdentity(whole as ServiceAccount)).toEqual({ metadata });
});

describe('an account that was deleted', () => {
  test('is known by its UID and by its name', () => {
    see(ci);
    expect([accounts.isDeleted({ uid: 'u-ci' }), accounts.isDeleted({ username })]).toEqual([false, false]);
    lose(ci);
    expect([accounts.isDeleted({ uid: 'u-ci' }), accounts.isDeleted({ username })]).toEqual([true, true]);
    expect(accounts.isDeleted({ username: 'system:serviceaccount:team:other' })).toBe(false);
  });

  test('and made again has its name back, and another UID', () => {
    see(ci);
    lose(ci);
    see(anAccount('ci', 'u-new'));
    expect(accounts.isDeleted({ username })).toBe(false);
    expect(accounts.isDeleted({ uid: 'u-ci', username })).toBe(true);
    expect(accounts.isDeleted({ uid: 'u-new', username })).toBe(false);
  });

  test('is remembered for longer than anybody remembers that its tokens were good', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    see(ci);
    lose(ci);
    vi.advanceTimersByTime(299_999);
    expect(accounts.isDeleted({ uid: 'u-ci' })).toBe(true);
    vi.advanceTimersByTime(1);
    expect(accounts.isDeleted({ uid: 'u-ci' })).toBe(false);
    vi.useRealTimers();
  });

  test('is there no more by its UID', () => {
    see(ci);
    expect([accounts.has('u-ci'), accounts.has('u-other')]).toEqual([true, false]);
    lose(ci);
    expect(accounts.has('u-ci')).toBe(false);
  });
});

describe('who listens for the end of an account', () => {
  test('is told once, whether it goes by UID or by name', () => {
    const [byUid, byName, other] = [vi.fn(), vi.fn(), vi.fn()];
    accounts.onDeleted({ uid: 'u-ci', username }, byUid);
    accounts.onDeleted({ username }, byName);
    accounts.onDeleted({ uid: 'u-other' }, other);
    see(ci);
    expect(byUid).not.toHaveBeenCalled();
    lose(ci);
    see(ci);
    lose(ci);
    expect([byUid, byName, other].map(({ mock }) => mock.calls.length)).toEqual([1, 1, 0]);
  });

  test('is told no more once it has ended that, and others still are', () => {
    const [one, other] = [vi.fn(), vi.fn()];
    const end = accounts.onDeleted({ uid: 'u-ci' }, one);
    accounts.onDeleted({ uid: 'u-ci' }, other);
    end();
    end();
    see(ci);
    lose(ci);
    expect([one, other].map(({ mock }) => mock.calls.length)).toEqual([0, 1]);
  });

  test('is told also where it began after others had ended theirs', () => {
    const end = accounts.onDeleted({ uid: 'u-ci' }, vi.fn());
    end();
    const later = vi.fn();
    accounts.onDeleted({ uid: 'u-ci' }, later);
    end();
    see(ci);
    lose(ci);
    expect(later).toHaveBeenCalledTimes(1);
  });
});

describe('an account that is to be confirmed', () => {
  const deleted = { reason: 'Unauthorized', message: 'Unauthorized: the account was deleted' };

  test.each([{}, { username: 'jane' }, { username: 'system:node:n1' }])(
    'is none, and nobody is asked: %o',
    async (identity) => {
      await accounts.confirm(identity);
      expect(get).not.toHaveBeenCalled();
    },
  );

  test('is there where the cache shows its UID: nobody is asked', async () => {
    see(ci);
    await accounts.confirm({ uid: 'u-ci', username });
    expect(get).not.toHaveBeenCalled();
  });

  test('is asked for where the cache does not show it, by namespace and name', async () => {
    get.mockResolvedValue(ci);
    await accounts.confirm({ uid: 'u-ci', username });
    expect(get.mock.calls[0]?.slice(1)).toEqual(['ci', 'team']);
    await accounts.confirm({ username });
    expect(get).toHaveBeenCalledTimes(2);
  });

  test('is gone where kube-apiserver has none, or one of another UID', async () => {
    await expect(accounts.confirm({ username })).rejects.toMatchObject(deleted);
    get.mockResolvedValue(ci);
    await expect(accounts.confirm({ uid: 'u-before', username })).rejects.toMatchObject(deleted);
  });

  test.each([{ uid: 'u-ci', username }, { username }])(
    'is gone where its end was seen, whatever kube-apiserver still says: %o',
    async (identity) => {
      see(ci);
      lose(ci);
      get.mockResolvedValue(ci);
      await expect(accounts.confirm(identity)).rejects.toMatchObject(deleted);
    },
  );

  test('is not gone because kube-apiserver could not be asked', async () => {
    get.mockRejectedValue(new Svc3Error('ServiceUnavailable', 'away'));
    await expect(accounts.confirm({ username })).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
  });
});
