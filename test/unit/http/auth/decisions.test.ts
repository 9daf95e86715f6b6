import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { Decisions, forbidden } from '../../../../src/http/auth/decisions.ts';

const attributes = { group: 'svc3.dev', resource: 'vms', verb: 'get', namespace: 'team' } as const;
const refusal = forbidden(attributes, 'ann');

const ask = vi.fn<() => Promise<Svc3Error | undefined>>();
const asker = { key: 'ann', ask };
let decisions: Decisions;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  ask.mockReset().mockResolvedValue(undefined);
  decisions = new Decisions(10);
});
afterEach(() => void vi.useRealTimers());

const check = (isFresh = false) => decisions.check(asker, attributes, isFresh);

test('what is allowed is asked for once in 10 s', async () => {
  await Promise.all([check(), check()]);
  vi.advanceTimersByTime(9_900);
  await check();
  expect(ask).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(200);
  await check();
  expect(ask).toHaveBeenCalledTimes(2);
});

test('a refusal is asked about again after 2 s: the right may just have come to exist', async () => {
  ask.mockResolvedValueOnce(refusal);
  await expect(check()).rejects.toBe(refusal);
  vi.advanceTimersByTime(1_900);
  await expect(check()).rejects.toBe(refusal);
  expect(ask).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(200);
  await check();
});

test('what has to be fresh is asked for now, and each right and caller by itself', async () => {
  await check();
  await check(true);
  await decisions.check(asker, { ...attributes, verb: 'delete' }, false);
  await decisions.check({ key: 'bob', ask }, attributes, false);
  expect(ask).toHaveBeenCalledTimes(4);
});

test('an outage of kube-apiserver is no decision', async () => {
  ask.mockRejectedValueOnce(new Svc3Error('ServiceUnavailable', 'away'));
  await expect(check()).rejects.toThrow('away');
  await check();
  expect(ask).toHaveBeenCalledTimes(2);
});
