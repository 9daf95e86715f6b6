import { describe, expect, test } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import type { RegistryCredential } from '../../../../src/api/registrycredential.ts';
import { decide, isOurs, pullSecretLabels } from '../../../../src/controllers/credential/decide.ts';
import { base64 } from '../../../../src/controllers/credential/dockerconfig.ts';
import { judge, secretWaitMs, statusOf } from '../../../../src/controllers/credential/status.ts';
import { aBasicAuth, aCredential, aPullSecret } from './builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const [one, two] = ['https://one.example.com', 'https://two.example.com'];
const going = { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } };

function secretsOf(...list: Secret[]): Map<string, Secret> {
  return new Map(list.map((secret) => [secret.metadata.name ?? '', secret]));
}

function secretsFor(credentials: readonly RegistryCredential[]): Map<string, Secret> {
  return secretsOf(...credentials.map(({ spec }) => aBasicAuth(spec.secretRef.name)));
}

describe('the pull Secret of a namespace', () => {
  const foreign = aPullSecret([one], {
    metadata: storedMeta({ name: 'svc3-registry-credentials', namespace: 'team' }),
  });
  const [credential, other] = [aCredential(one), aCredential(two)];
  const rows: {
    title: string;
    credentials: RegistryCredential[];
    pullSecret: Secret | undefined;
    kind: string;
    secrets?: Map<string, Secret>;
  }[] = [
    {
      title: 'is made for the first credential',
      credentials: [credential],
      pullSecret: undefined,
      kind: 'create',
    },
    {
      title: 'is left alone when it is right',
      credentials: [credential],
      pullSecret: aPullSecret([one]),
      kind: 'keep',
    },
    {
      title: 'is changed for a second credential',
      credentials: [credential, other],
      pullSecret: aPullSecret([one]),
      kind: 'update',
    },
    {
      title: 'is changed when one of two goes',
      credentials: [credential],
      pullSecret: aPullSecret([one, two]),
      kind: 'update',
    },
    {
      title: 'goes with the last credential',
      credentials: [],
      pullSecret: aPullSecret([one]),
      kind: 'delete',
    },
    {
      title: 'goes with the last credential that is not being deleted',
      credentials: [aCredential(one, going)],
      pullSecret: aPullSecret([one]),
      kind: 'delete',
    },
    { title: 'is not made without credentials', credentials: [], pullSecret: undefined, kind: 'keep' },
    {
      title: 'is not made for a credential that is being deleted',
      credentials: [aCredential(one, going)],
      pullSecret: undefined,
      kind: 'keep',
    },
    {
      title: 'is repaired when its content was edited',
      credentials: [credential],
      pullSecret: aPullSecret([two]),
      kind: 'update',
    },
    {
      title: 'is repaired when its content is gone',
      credentials: [credential],
      pullSecret: aPullSecret([one], { data: {} }),
      kind: 'update',
    },
    {
      title: 'is repaired when its labels were taken away',
      credentials: [credential],
      pullSecret: aPullSecret([one], {
        metadata: storedMeta({
          name: 'svc3-registry-credentials',
          managedFields: [{ manager: 'svc3', operation: 'Apply' }],
        }),
      }),
      kind: 'update',
    },
    {
      title: 'is made anew when it cannot be changed',
      credentials: [credential],
      pullSecret: aPullSecret([two], { immutable: true }),
      kind: 'delete',
    },
    {
      title: 'stays when it cannot be changed and is right',
      credentials: [credential],
      pullSecret: aPullSecret([one], { immutable: true }),
      kind: 'keep',
    },
    { title: 'of somebody else is left alone', credentials: [credential], pullSecret: foreign, kind: 'keep' },
    {
      title: 'of somebody else is left alone when the last credential goes',
      credentials: [],
      pullSecret: foreign,
      kind: 'keep',
    },
    {
      title: 'of another type is somebody else’s',
      credentials: [credential],
      pullSecret: aPullSecret([one], { type: 'Opaque' }),
      kind: 'keep',
    },
    {
      title: 'goes when no credential can be used',
      credentials: [credential],
      pullSecret: aPullSecret([one]),
      kind: 'delete',
      secrets: new Map(),
    },
    {
      title: 'holds the others when one cannot be used',
      credentials: [credential, other],
      pullSecret: aPullSecret([one, two]),
      kind: 'update',
      secrets: secretsFor([other]),
    },
  ];
  test.each(rows)('$title', ({ credentials, pullSecret, kind, secrets }) => {
    const plan = decide({ credentials, pullSecret, secrets: secrets ?? secretsFor(credentials) });
    expect(plan.pullSecret.kind).toBe(kind);
  });

  test('is written only over the version that was seen', () => {
    const pullSecret = aPullSecret([two]);
    const plan = decide({ credentials: [credential], pullSecret, secrets: secretsFor([credential]) });
    expect(plan.pullSecret).toMatchObject({ kind: 'update', secret: pullSecret });
  });
});

test('the pull Secret has the recommended labels of Kubernetes', () => {
  expect(pullSecretLabels).toEqual({
    'app.kubernetes.io/name': 'svc3',
    'app.kubernetes.io/component': 'registry-credentials',
    'app.kubernetes.io/part-of': 'svc3',
    'app.kubernetes.io/managed-by': 'svc3',
  });
});

describe('a Secret in the place of the pull Secret', () => {
  const unlabelled = (managedFields: object[] | undefined, more: Partial<Secret> = {}): Secret =>
    aPullSecret([one], { metadata: { name: 'svc3-registry-credentials', managedFields } as never, ...more });

  test.each<[string, Secret, boolean]>([
    ['with the label is ours', aPullSecret([one]), true],
    ['that svc3 applied is ours', unlabelled([{ manager: 'svc3', operation: 'Apply' }]), true],
    [
      'that svc3 applied is ours, whoever wrote it too',
      unlabelled([
        { manager: 'kubectl', operation: 'Update' },
        { manager: 'svc3', operation: 'Apply' },
      ]),
      true,
    ],
    ['that somebody updated as svc3 is not', unlabelled([{ manager: 'svc3', operation: 'Update' }]), false],
    ['that somebody else applied is not', unlabelled([{ manager: 'helm', operation: 'Apply' }]), false],
    [
      'that somebody else applied and somebody updated as svc3 is not',
      unlabelled([
        { manager: 'helm', operation: 'Apply' },
        { manager: 'svc3', operation: 'Update' },
      ]),
      false,
    ],
    ['that nobody has told of is not', unlabelled(undefined), false],
    ['of another type is not', aPullSecret([one], { type: 'Opaque' }), false],
    [
      'of another type is not, whoever applied it',
      unlabelled([{ manager: 'svc3', operation: 'Apply' }], { type: 'Opaque' }),
      false,
    ],
    [
      'labelled by another manager is not',
      aPullSecret([one], {
        metadata: storedMeta({
          name: 'x',
          labels: { ...pullSecretLabels, 'app.kubernetes.io/managed-by': 'Helm' },
        }),
      }),
      false,
    ],
  ])('%s', (_sentence, secret, expected) => {
    expect(isOurs(secret)).toBe(expected);
  });

  const credentials = [aCredential(one)];
  test.each<[string, Secret, RegExp]>([
    ['that is not ours', aPullSecret([one], { type: 'Opaque' }), /svc3 did not make is in the way/],
    [
      'that is ours and being deleted',
      aPullSecret([one], {
        metadata: { ...aPullSecret([one]).metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
      }),
      /is being deleted and waits for finalizers/,
    ],
  ])('%s is left alone, and every credential says so', (_sentence, pullSecret, message) => {
    const both = [...credentials, aCredential(two)];
    const plan = decide({ credentials: both, secrets: secretsFor(credentials), pullSecret });
    expect(plan.pullSecret).toEqual({ kind: 'keep' });
    // What is wrong with a credential of its own is said first.
    expect([...plan.problems.values()]).toEqual([
      expect.objectContaining({ reason: 'SecretNotFound' }),
      { reason: 'SecretConflict', message: expect.stringMatching(message) },
    ]);
  });

  test('is changed where any label of ours is missing or another', () => {
    for (const label of Object.keys(pullSecretLabels)) {
      const labels = { ...pullSecretLabels, [label]: label.endsWith('managed-by') ? 'svc3' : 'other' };
      const managedFields = [{ manager: 'svc3', operation: 'Apply' }];
      const metadata = storedMeta({ name: 'x', labels, managedFields });
      const plan = decide({
        credentials,
        secrets: secretsFor(credentials),
        pullSecret: aPullSecret([one], { metadata }),
      });
      expect(plan.pullSecret.kind).toBe(label.endsWith('managed-by') ? 'keep' : 'update');
    }
  });
});

test('a server that is none is told by its field', () => {
  const credential = aCredential(one, { spec: { server: 'ftp://nobody-checked-this' } });
  const given = { credentials: [credential], secrets: secretsFor([credential]), pullSecret: undefined };
  expect(() => decide(given)).toThrow(/^spec\.server/);
});

test('what is published is known, to be kept out of texts', () => {
  const credentials = [aCredential(one), aCredential(two)];
  const { logins } = decide({ credentials, secrets: secretsFor(credentials), pullSecret: undefined });
  expect(logins).toMatchObject([
    { registry: { name: 'one.example.com.443' }, username: 'alice', password: 's3cret' },
    { registry: { name: 'two.example.com.443' }, username: 'alice', password: 's3cret' },
  ]);
});

describe('a basic-auth Secret', () => {
  const credential = aCredential(one);
  const { name } = credential.spec.secretRef;
  const data = (username: string, password: string) => ({
    data: { username: base64(username), password: base64(password) },
  });
  const rows: { title: string; secret: Secret | undefined; reason: string; message: RegExp }[] = [
    { title: 'that does not exist', secret: undefined, reason: 'SecretNotFound', message: /does not exist/ },
    {
      title: 'of another type',
      secret: aBasicAuth(name, { type: 'Opaque' }),
      reason: 'SecretInvalid',
      message: /is of type Opaque/,
    },
    {
      title: 'without a username',
      secret: aBasicAuth(name, { data: { password: base64('p4ss') } }),
      reason: 'SecretInvalid',
      message: /no username/,
    },
    {
      title: 'without a password',
      secret: aBasicAuth(name, { data: { username: base64('alice') } }),
      reason: 'SecretInvalid',
      message: /no password/,
    },
    {
      title: 'without data',
      secret: aBasicAuth(name, { data: {} }),
      reason: 'SecretInvalid',
      message: /no username/,
    },
    {
      title: 'with a colon in the username',
      secret: aBasicAuth(name, data('a:b', 'p4ss')),
      reason: 'SecretInvalid',
      message: /colon/,
    },
    {
      title: 'whose password ends with a line break',
      secret: aBasicAuth(name, data('alice', 'p4ss\n')),
      reason: 'SecretInvalid',
      message: /line break/,
    },
    {
      title: 'with a line break in the username',
      secret: aBasicAuth(name, data('ali\nce', 'p4ss')),
      reason: 'SecretInvalid',
      message: /line break or other control character in the username/,
    },
    {
      title: 'with a bell in the password',
      secret: aBasicAuth(name, data('alice', 'p4\u0007ss')),
      reason: 'SecretInvalid',
      message: /control character in the password/,
    },
    {
      title: 'whose username is not text',
      secret: aBasicAuth(name, { data: { username: '/////w==', password: base64('p4ss') } }),
      reason: 'SecretInvalid',
      message: /holds a username that is not UTF-8 text/,
    },
    {
      title: 'that is not base64',
      secret: aBasicAuth(name, { data: { username: base64('alice'), password: '%%%' } }),
      reason: 'SecretInvalid',
      message: /holds a password that is not UTF-8 text/,
    },
    {
      title: 'without a type',
      secret: { ...aBasicAuth(name), type: undefined as never },
      reason: 'SecretInvalid',
      message:
        /Secret svc3-credentials\/team.one.example.com.443 is of type Opaque, not kubernetes.io\/basic-auth/,
    },
    {
      title: 'whose password is not text',
      secret: aBasicAuth(name, { data: { username: base64('alice'), password: '/////w==' } }),
      reason: 'SecretInvalid',
      message: /not UTF-8/,
    },
  ];
  test.each(rows)('$title is $reason, and the message holds none of it', ({ secret, reason, message }) => {
    const secrets = secret === undefined ? new Map<string, Secret>() : secretsOf(secret);
    const plan = decide({ credentials: [credential], secrets, pullSecret: undefined });
    const verdict = judge(credential, plan, undefined, { enabled: false, allowed: [] });
    expect(verdict).toMatchObject({ isReady: false, reason });
    expect(verdict?.message).toMatch(message);
    expect(verdict?.message).not.toMatch(/p4ss|alice|a:b/);
  });
});

describe('the status of a credential', () => {
  const off = { enabled: false, allowed: [] };
  const now = new Date('2026-01-02T03:04:05Z');
  const plan = (credential: RegistryCredential, pullSecret: Secret | undefined) =>
    decide({ credentials: [credential], secrets: secretsFor([credential]), pullSecret });

  test('of another credential is not this one’s', () => {
    const [credential, other] = [aCredential(one), aCredential(two)];
    const credentials = [credential, other];
    const both = decide({ credentials, secrets: secretsFor([other]), pullSecret: aPullSecret([two]) });
    expect(judge(credential, both, undefined, off)?.reason).toBe('SecretNotFound');
    expect(judge(other, both, undefined, off)?.reason).toBe('Published');
  });

  test('tells of an insecure registry why nodes do not trust it', () => {
    const server = 'http://one.example.com:5000';
    const credential = aCredential(server);
    const message = (policy: typeof off) =>
      judge(credential, plan(credential, aPullSecret([server])), undefined, policy)?.message;
    expect(message(off)).toMatch(/only pull from one.example.com:5000 .*: the chart does not allow it \(/);
    expect(message({ enabled: true, allowed: [] })).toMatch(/: the chart does not allow this host \(/);
  });

  test('says nothing before the pull Secret is written', () => {
    const credential = aCredential(one);
    expect(judge(credential, plan(credential, undefined), undefined, off)).toBeUndefined();
  });

  test('is ready when the pull Secret holds it', () => {
    const credential = aCredential(one);
    const verdict = judge(credential, plan(credential, aPullSecret([one])), undefined, off);
    expect(verdict).toMatchObject({ isReady: true, reason: 'Published' });
    expect(statusOf(credential, verdict!, now)).toEqual({
      observedGeneration: 1,
      registry: 'one.example.com',
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Published',
          message: 'published for one.example.com',
          observedGeneration: 1,
          lastTransitionTime: '2026-01-02T03:04:05Z',
        },
      ],
    });
  });

  test('quotes kube-apiserver when it refuses the pull Secret, and is reconciling', () => {
    const credential = aCredential(one);
    const verdict = judge(credential, plan(credential, undefined), 'exceeded quota', off);
    expect(verdict).toEqual({ isReady: false, reason: 'SecretRefused', message: 'exceeded quota' });
    expect(statusOf(credential, verdict!, now).conditions?.map(({ type, status }) => [type, status])).toEqual(
      [
        ['Ready', 'False'],
        ['Reconciling', 'True'],
      ],
    );
  });

  test('is stalled while a foreign Secret is in the way, and is not any more afterwards', () => {
    const credential = aCredential(one);
    const foreign = aPullSecret([one], { type: 'Opaque' });
    const conflict = judge(credential, plan(credential, foreign), undefined, off);
    const status = statusOf(credential, conflict!, now);
    expect(status.conditions?.map(({ type, reason }) => [type, reason])).toEqual([
      ['Ready', 'SecretConflict'],
      ['Stalled', 'SecretConflict'],
    ]);
    const after = { ...credential, status };
    const published = judge(after, plan(after, aPullSecret([one])), undefined, off);
    expect(statusOf(after, published!, now).conditions?.map(({ type }) => type)).toEqual(['Ready']);
  });

  test.each([
    ['SecretInvalid', true],
    ['SecretConflict', true],
    ['SecretRefused', false],
  ] as const)('waits for somebody to act where the reason is %s: %s', (reason, isStalled) => {
    const credential = aCredential(one);
    const { conditions } = statusOf(credential, { isReady: false, reason, message: 'why' }, now);
    expect(conditions?.map(({ type }) => type)).toEqual(['Ready', isStalled ? 'Stalled' : 'Reconciling']);
  });

  test('waits a minute for a Secret that is applied later, and then for somebody to make it', () => {
    const credential = aCredential(one);
    const verdict = { isReady: false, reason: 'SecretNotFound', message: 'why' } as const;
    const after = (ms: number) => new Date(now.getTime() + ms);
    const status = statusOf(credential, verdict, now);
    const typesAfter = (ms: number) =>
      statusOf({ ...credential, status }, verdict, after(ms)).conditions?.map(({ type }) => type);
    expect(status.conditions?.map(({ type }) => type)).toEqual(['Ready', 'Reconciling']);
    expect(typesAfter(58_000)).toEqual(['Ready', 'Reconciling']);
    expect(typesAfter(61_000)).toEqual(['Ready', 'Stalled']);
    expect(secretWaitMs({ ...credential, status }, verdict, after(58_000))).toBeLessThan(3_000);
    expect(secretWaitMs({ ...credential, status }, verdict, after(61_000))).toBeUndefined();
  });

  test('does not change when there is nothing new', () => {
    const credential = aCredential(one);
    const verdict = judge(credential, plan(credential, aPullSecret([one])), undefined, off)!;
    const status = statusOf(credential, verdict, now);
    expect(statusOf({ ...credential, status }, verdict, new Date()).conditions).toBe(status.conditions);
  });

  test.each([
    { title: 'where the chart does not allow it', policy: off, reason: 'PublishedSecure' },
    {
      title: 'where the host is not among the allowed',
      policy: { enabled: true, allowed: ['x.example.com'] },
      reason: 'PublishedSecure',
    },
    {
      title: 'where the port is not the allowed one',
      policy: { enabled: true, allowed: ['one.example.com:80'] },
      reason: 'PublishedSecure',
    },
    {
      title: 'where the host is allowed',
      policy: { enabled: true, allowed: ['one.example.com'] },
      reason: 'Published',
    },
    {
      title: 'where the host and port are allowed',
      policy: { enabled: true, allowed: ['ONE.example.com:5000'] },
      reason: 'Published',
    },
    {
      title: 'where a pattern allows the host',
      policy: { enabled: true, allowed: ['*.example.com'] },
      reason: 'Published',
    },
    {
      title: 'where a pattern allows another host only',
      policy: { enabled: true, allowed: ['*.example.org'] },
      reason: 'PublishedSecure',
    },
    { title: 'where all hosts are allowed', policy: { enabled: true, allowed: ['*'] }, reason: 'Published' },
  ])('of an insecure registry is $reason $title', ({ policy, reason }) => {
    const server = 'http://one.example.com:5000';
    const credential = aCredential(server);
    const verdict = judge(credential, plan(credential, aPullSecret([server])), undefined, policy);
    // Published it is all the same: without a certificate that they trust, nodes say so when they pull.
    expect(verdict).toMatchObject({ isReady: true, reason });
  });
});
