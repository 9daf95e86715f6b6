import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Secret } from '../../../src/api/core.ts';
import { secrets } from '../../../src/api/resources.ts';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { absentVersion, ensureObject, retryOnConflict } from '../../../src/kube/ensure.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const key = { name: 'keys', namespace: 'svc3-system' };
const get = vi.fn();
const apply = vi.fn();
const make = vi.fn(() => ({ metadata: key, data: { key: 'made' } }));
const refused = (reason: ErrorReason) => new Svc3Error(reason, reason);
const there: Secret = { metadata: storedMeta(key), data: { key: 'theirs' } };
const ensure = () => ensureObject(client, secrets, key, make);
const client = { get, apply } as never;

beforeEach(() => {
  get.mockReset().mockRejectedValue(refused('NotFound'));
  apply.mockReset().mockImplementation(async (_, object) => object);
  make.mockClear();
});

describe('an object that has to be there', () => {
  test('is taken as it is, and not made', async () => {
    get.mockResolvedValue(there);
    expect(await ensure()).toBe(there);
    expect([make.mock.calls, apply.mock.calls]).toEqual([[], []]);
  });

  test('is made by a write that only succeeds where there is none', async () => {
    expect(await ensure()).toMatchObject({ data: { key: 'made' } });
    expect(apply.mock.calls).toEqual([
      [secrets, { metadata: { ...key, resourceVersion: absentVersion }, data: { key: 'made' } }],
    ]);
  });

  test.each<ErrorReason>(['Conflict', 'AlreadyExists'])(
    'is that of the process that was faster (%s)',
    async (reason) => {
      apply.mockRejectedValueOnce(refused(reason));
      get.mockRejectedValueOnce(refused('NotFound')).mockResolvedValue(there);
      expect(await ensure()).toBe(there);
    },
  );

  test('is given up where it goes again and again', async () => {
    apply.mockRejectedValue(refused('Conflict'));
    await expect(ensure()).rejects.toMatchObject({ reason: 'Conflict' });
    expect(apply).toHaveBeenCalledTimes(5);
  });

  test('is not made where nobody knows whether it is there, nor tried again where it may not be made', async () => {
    get.mockRejectedValueOnce(refused('Forbidden'));
    await expect(ensure()).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(apply).not.toHaveBeenCalled();
    apply.mockRejectedValue(refused('Forbidden'));
    await expect(ensure()).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(apply).toHaveBeenCalledTimes(1);
  });
});

describe('a write that depends on a read', () => {
  test('is tried again with what is there now, five times at most', async () => {
    const write = vi.fn().mockRejectedValueOnce(refused('Conflict')).mockResolvedValue('written');
    expect(await retryOnConflict(write)).toBe('written');
    const never = vi.fn().mockRejectedValue(refused('Conflict'));
    await expect(retryOnConflict(never)).rejects.toMatchObject({ reason: 'Conflict' });
    expect(never).toHaveBeenCalledTimes(5);
  });

  test('fails at once for any other reason', async () => {
    const write = vi.fn().mockRejectedValue(refused('AlreadyExists'));
    await expect(retryOnConflict(write)).rejects.toMatchObject({ reason: 'AlreadyExists' });
    expect(write).toHaveBeenCalledTimes(1);
  });
});
