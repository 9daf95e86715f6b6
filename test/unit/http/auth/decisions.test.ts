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

test('each part of a right is a right of its own', async () => {
  const right = { ...attributes, subresource: 'exec', name: 'web' };
  await decisions.check(asker, right, false);
  const others = { group: 'x', resource: 'x', subresource: 'x', verb: 'x', namespace: 'x', name: 'x' };
  for (const [part, other] of Object.entries(others))
    await decisions.check(asker, { ...right, [part]: other }, false);
  expect(ask).toHaveBeenCalledTimes(1 + 6);
});

test.each([
  [
    { ...attributes, subresource: 'exec', name: 'web' },
    'ann',
    'vms.svc3.dev "web" is forbidden: User "ann" cannot get resource "vms/exec" in API group "svc3.dev" in the namespace "team"',
    { group: 'svc3.dev', kind: 'vms', name: 'web' },
  ],
  [
    { group: '', resource: 'nodes', verb: 'list' } as const,
    undefined,
    'nodes. is forbidden: the caller cannot list resource "nodes" in API group "" at the cluster scope',
    { group: '', kind: 'nodes' },
  ],
])('a refusal of %o is in the words of kube-apiserver', (asked, username, message, details) => {
  expect(forbidden(asked, username)).toMatchObject({ reason: 'Forbidden', message, details });
  expect(forbidden(asked, username).details).toEqual(details);
});
