import { describe, expect, test } from 'vitest';
import type { ServiceAccount } from '../../../src/api/core.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { KubeClient, ListOptions } from '../../../src/kube/types.ts';
import { createServiceAccount, listServiceAccounts } from '../../../src/usecases/serviceaccount.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const forbidden = new Svc3Error('Forbidden', 'rolebindings is forbidden');
const exists = new Svc3Error('AlreadyExists', 'serviceaccounts "ci" already exists');
const away = new Svc3Error('BadGateway', 'kube-apiserver is away');

/** What kube-apiserver refuses; and the account that it has already, whose role is bound or not. */
interface Course {
  readonly binding?: Svc3Error | undefined;
  readonly deletion?: Svc3Error;
  readonly change?: Svc3Error;
  readonly there?: Partial<ServiceAccount['metadata']>;
}

/** A caller whom kube-apiserver lets make accounts and bindings otherwise; and what was done, as `verb plural`. */
function aCaller({ binding, deletion, change, there }: Course = {}) {
  const done: string[] = [];
  const fail = (error: Svc3Error | undefined) => {
    if (error !== undefined) throw error;
  };
  const caller = {
    async create({ plural }: { plural: string }, { metadata }: ServiceAccount) {
      done.push(`create ${plural}`);
      if (plural === 'rolebindings') fail(binding);
      else if (there !== undefined) throw exists;
      return { metadata: storedMeta(metadata) };
    },
    async get() {
      if (there === undefined) throw new Svc3Error('Forbidden', 'serviceaccounts is forbidden');
      return { metadata: storedMeta({ name: 'ci', ...there }) };
    },
    async patch({ plural }: { plural: string }, _key: unknown, { body }: { body: object }) {
      done.push(`patch ${plural} ${JSON.stringify(body)}`);
      fail(change);
    },
    async delete({ plural }: { plural: string }, _key: unknown, { uid }: { uid: string }) {
      done.push(`delete ${plural} ${uid}`);
      fail(deletion);
    },
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

const finished = { metadata: { uid: 'uid-of-ci', annotations: { 'svc3.dev/account-role': null } } };
const whole = [
  'create serviceaccounts',
  'create rolebindings',
  `patch serviceaccounts ${JSON.stringify(finished)}`,
];

test.each([
  ['the default role', undefined, undefined, 'svc3-edit', whole],
  ['no role where none is asked for', 'none', undefined, 'none', ['create serviceaccounts']],
  [
    'no role where its maker may not bind the default, and a warning',
    undefined,
    { binding: forbidden },
    'none',
    whole,
  ],
  ['its role also where its maker may not change it', 'svc3-view', { change: forbidden }, 'svc3-view', whole],
  ['the role that somebody else has bound meanwhile', undefined, { binding: exists }, 'svc3-edit', whole],
] as const)('an account has %s', async (_what, role, course, bound, calls) => {
  const { caller, done } = aCaller(course);
  const warnings: string[] = [];
  const request = { namespace: 'team', name: 'ci', role };
  expect(await createServiceAccount(caller, request, (text) => void warnings.push(text))).toBe(bound);
  expect(done).toEqual(calls);
  expect(warnings).toHaveLength(course !== undefined && bound === 'none' ? 1 : 0);
});

test.each<[what: string, course: Course, reason: string, message: string]>([
  [
    'may not be bound',
    { binding: forbidden },
    'Forbidden',
    'you may not bind svc3-edit in namespace team, and service account ci was not created: rolebindings is forbidden',
  ],
  [
    'may not be bound, and somebody else has deleted the account',
    { binding: forbidden, deletion: new Svc3Error('Conflict', 'another UID') },
    'Forbidden',
    'you may not bind svc3-edit in namespace team, and service account ci was not created: rolebindings is forbidden',
  ],
  [
    'may not be bound, nor the account deleted',
    { binding: forbidden, deletion: new Svc3Error('Forbidden', 'serviceaccounts is forbidden') },
    'Forbidden',
    'you may not bind svc3-edit in namespace team, and service account ci stays without a role: rolebindings is forbidden',
  ],
  ['could not be bound', { binding: away }, 'BadGateway', 'kube-apiserver is away'],
  [
    'could not be bound, nor the account deleted',
    { binding: away, deletion: away },
    'BadGateway',
    'kube-apiserver is away; service account ci stays without a role: ask for svc3-edit once more, or delete it',
  ],
])(
  'it is said what there is where the role that was asked for %s',
  async (_what, course, reason, message) => {
    const { caller, done } = aCaller(course);
    const request = { namespace: 'team', name: 'ci', role: 'svc3-edit' } as const;
    await expect(createServiceAccount(caller, request, () => undefined)).rejects.toMatchObject({
      reason,
      message,
    });
    expect(done).toEqual([
      'create serviceaccounts',
      'create rolebindings',
      'delete serviceaccounts uid-of-ci',
    ]);
  },
);

describe('an account whose creation broke off', () => {
  const there = { annotations: { 'svc3.dev/account-role': 'svc3-edit' } };
  const again = (course: Course, role?: 'svc3-edit' | 'svc3-view' | 'none') => {
    const { caller, done } = aCaller(course);
    const made = createServiceAccount(caller, { namespace: 'team', name: 'ci', role }, () => undefined);
    return { made, done };
  };

  test.each([undefined, 'svc3-edit'] as const)(
    'is completed when it is asked for again (%s)',
    async (role) => {
      const { made, done } = again({ there }, role);
      expect(await made).toBe('svc3-edit');
      expect(done).toEqual(whole);
    },
  );

  test.each<[what: string, course: Course, role: 'svc3-edit' | 'svc3-view' | 'none', calls: string[]]>([
    ['whose role is bound', { there, binding: exists }, 'svc3-edit', whole],
    ['of another role', { there }, 'svc3-view', ['create serviceaccounts']],
    ['of a role', { there }, 'none', ['create serviceaccounts']],
    ['that was never to have one', { there: {} }, 'svc3-edit', ['create serviceaccounts']],
    [
      'that is being deleted',
      { there: { ...there, deletionTimestamp: '2026-11-01T10:00:00Z' } },
      'svc3-edit',
      ['create serviceaccounts'],
    ],
  ])('is no account %s: that exists already', async (_what, course, role, calls) => {
    const { made, done } = again(course, role);
    await expect(made).rejects.toBe(exists);
    expect(done).toEqual(calls);
  });

  test.each<[what: string, role: 'svc3-edit' | undefined, refusal: Svc3Error, message: string]>([
    ['may not bind what they named', 'svc3-edit', forbidden, 'service account ci stays without a role'],
    ['may not bind the default', undefined, forbidden, 'already exists'],
    ['finds nobody to ask', 'svc3-edit', away, 'kube-apiserver is away'],
  ])('stays as it is where whoever asks %s', async (_what, role, binding, message) => {
    const { made, done } = again({ there, binding }, role);
    await expect(made).rejects.toThrow(message);
    expect(done).toEqual(['create serviceaccounts', 'create rolebindings']);
  });
});
