import { expect, test } from 'vitest';
import type { ServiceAccount } from '../../../src/api/core.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient, ListOptions } from '../../../src/kube/types.ts';
import { createServiceAccount, listServiceAccounts } from '../../../src/usecases/serviceaccount.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const forbidden = new Svc3Error('Forbidden', 'rolebindings is forbidden');

/** A caller whom kube-apiserver lets make accounts, and bindings unless it refuses them; and what was done, as `verb plural`. */
function aCaller(refusal?: Svc3Error) {
  const done: string[] = [];
  const caller = {
    async create({ plural }: { plural: string }, { metadata }: ServiceAccount) {
      done.push(`create ${plural}`);
      if (plural === 'rolebindings' && refusal !== undefined) throw refusal;
      return { metadata: storedMeta(metadata) };
    },
    delete: async ({ plural }: { plural: string }, _key: unknown, { uid }: { uid: string }) =>
      void done.push(`delete ${plural} ${uid}`),
  } as unknown as KubeClient;
  return { caller, done };
}

test('accounts are listed without their annotations and labels, which nobody shows', async () => {
  const account: ServiceAccount = {
    metadata: storedMeta({
      name: 'ci',
      creationTimestamp: '2026-11-01T10:00:00Z',
      annotations: { large: 'x'.repeat(1000) },
      labels: { large: 'x'.repeat(60) },
    }),
  };
  let kept: unknown;
  let pageSize: number | undefined = 0;
  const list = async (_resource: unknown, options: ListOptions<ServiceAccount>) => {
    const { transform = (same) => same } = options;
    ({ pageSize } = options);
    kept = transform(account);
    return { items: [kept, { metadata: storedMeta({ name: 'old' }) }] };
  };
  expect(await listServiceAccounts({ list } as unknown as KubeClient, 'team')).toEqual([
    { name: 'ci', createdAt: '2026-11-01T10:00:00Z' },
    { name: 'old', createdAt: '' },
  ]);
  expect(JSON.stringify(kept)).not.toContain('large');
  // Whatever a tenant makes is read in pages of the client's size.
  expect(pageSize).toBeUndefined();
});

test.each([
  ['the default role', undefined, undefined, 'svc3-edit', ['create serviceaccounts', 'create rolebindings']],
  ['no role where none is asked for', 'none', undefined, 'none', ['create serviceaccounts']],
  [
    'no role where its maker may not bind the default, and a warning',
    undefined,
    forbidden,
    'none',
    ['create serviceaccounts', 'create rolebindings'],
  ],
] as const)('an account has %s', async (_what, role, refusal, bound, calls) => {
  const { caller, done } = aCaller(refusal);
  const warnings: string[] = [];
  const request = { namespace: 'team', name: 'ci', role };
  expect(await createServiceAccount(caller, request, (text) => void warnings.push(text))).toBe(bound);
  expect(done).toEqual(calls);
  expect(warnings).toHaveLength(refusal === undefined ? 0 : 1);
});

test('there is no account where the role that was asked for may not be bound', async () => {
  const { caller, done } = aCaller(forbidden);
  const request = { namespace: 'team', name: 'ci', role: 'svc3-edit' } as const;
  await expect(createServiceAccount(caller, request, () => undefined)).rejects.toMatchObject({
    reason: 'Forbidden',
    message: expect.stringContaining('you may not bind svc3-edit in namespace team'),
  });
  expect(done).toEqual(['create serviceaccounts', 'create rolebindings', 'delete serviceaccounts uid-of-ci']);
});
