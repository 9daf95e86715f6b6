import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import type { RegistryCredential } from '../../../../src/api/registrycredential.ts';
import { createExpectations } from '../../../../src/controller/expectations.ts';
import { createPullSecretReconciler, spacingMs } from '../../../../src/controllers/credential/pullsecret.ts';
import { createCredentialReconciler } from '../../../../src/controllers/credential/reconciler.ts';
import { type ErrorReason, Svc3Error } from '../../../../src/errors.ts';
import { aBasicAuth, aCredential, aPullSecret } from './builders.ts';

const server = 'https://registry.example.com';
const name = aCredential(server).metadata.name;
const held = { finalizers: ['svc3.dev/cleanup'] };
const managed = (more: Partial<Secret['metadata']> = {}): Partial<Secret> => ({
  metadata: { ...aBasicAuth(`team.${name}`).metadata, labels: { 'svc3.dev/managed': 'true' }, ...more },
});

let credentials: RegistryCredential[];
/** Of other namespaces. */
let others: RegistryCredential[];
let basicAuth: Secret[];
let pullSecret: Secret | undefined;
const apply = vi.fn();
const patch = vi.fn();
const remove = vi.fn();
const event = vi.fn();
const onRefusal = vi.fn();
const refused = (reason: ErrorReason, message: string = reason) => new Svc3Error(reason, message);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  credentials = [aCredential(server)];
  others = [];
  basicAuth = [aBasicAuth(`team.${name}`)];
  pullSecret = undefined;
  for (const mock of [apply, patch, remove, event, onRefusal]) mock.mockReset();
  remove.mockResolvedValue(undefined);
  let version = 100;
  const written = async (_: unknown, object: Secret) => {
    version += 1;
    return { ...object, metadata: { ...object.metadata, uid: 'uid-pull', resourceVersion: String(version) } };
  };
  apply.mockImplementation(written);
  patch.mockImplementation(async (_, __, { body }) => ({
    ...credentials[0],
    metadata: { ...credentials[0]?.metadata, ...body.metadata },
  }));
});
afterEach(() => {
  vi.useRealTimers();
});

const sources = () => ({
  client: {
    apply,
    patch,
    delete: remove,
    get: () => Promise.reject(refused('NotFound')),
  } as never,
  caches: {
    credentials: { list: () => credentials },
    basicAuth: { get: (of: string) => basicAuth.find(({ metadata }) => metadata.name === of) },
    pullSecrets: { get: () => pullSecret },
    naming: (of: string) => [...credentials, ...others].filter(({ spec }) => spec.secretRef.name === of),
  } as never,
  expectedPullSecrets: createExpectations<Secret>(),
});

describe('the pull Secret of a namespace', () => {
  const reconciler = () => createPullSecretReconciler({ ...sources(), onRefusal });

  test('is made only where there is none, and not again while the cache does not show it', async () => {
    const { reconcile } = reconciler();
    await reconcile('team');
    expect(apply.mock.calls[0]?.[1]).toMatchObject({
      metadata: { name: 'svc3-registry-credentials', namespace: 'team', resourceVersion: '1' },
      type: 'kubernetes.io/dockerconfigjson',
    });
    vi.advanceTimersByTime(spacingMs);
    await reconcile('team');
    expect(apply).toHaveBeenCalledTimes(1);
  });

  test('is written over exactly the one that was seen, and not at all where it is right', async () => {
    pullSecret = aPullSecret(['https://other.example.com']);
    await reconciler().reconcile('team');
    expect(apply.mock.calls[0]?.[1].metadata).toMatchObject({ uid: 'uid-pull', resourceVersion: '9' });
    pullSecret = aPullSecret([server]);
    apply.mockClear();
    await reconciler().reconcile('team');
    expect(apply).not.toHaveBeenCalled();
  });

  test('is written once in 200 ms, whatever happens to its credentials', async () => {
    const { reconcile } = reconciler();
    await reconcile('team');
    basicAuth = [aBasicAuth(`team.${name}`, { data: { username: 'Ym9i', password: 'Ym9i' } })];
    vi.advanceTimersByTime(50);
    expect(await reconcile('team')).toEqual({ requeueAfterMs: 150 });
    expect(apply).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(150);
    await reconcile('team');
    expect(apply).toHaveBeenCalledTimes(2);
  });

  test('goes with the last credential, unless somebody has written it since', async () => {
    credentials = [];
    pullSecret = aPullSecret([server]);
    await reconciler().reconcile('team');
    expect(remove.mock.calls[0]?.slice(1)).toEqual([
      { name: 'svc3-registry-credentials', namespace: 'team' },
      { uid: 'uid-pull', resourceVersion: '9' },
    ]);
    remove.mockRejectedValue(refused('NotFound'));
    await reconciler().reconcile('team');
    remove.mockRejectedValue(refused('Conflict'));
    await expect(reconciler().reconcile('team')).rejects.toMatchObject({ reason: 'Conflict' });
  });

  test('that is refused is told of once, without a password, until it can be written', async () => {
    const { reconcile, refusal } = reconciler();
    apply.mockRejectedValue(refused('Forbidden', 'policy: password "s3cret" is weak'));
    for (let i = 0; i < 2; i += 1) {
      await expect(reconcile('team')).rejects.toThrow(/^(?!.*s3cret).*is weak/);
      vi.advanceTimersByTime(spacingMs);
    }
    expect(refusal('team')).toContain('is weak');
    expect(refusal('team')).not.toContain('s3cret');
    expect(onRefusal.mock.calls).toEqual([['team']]);
    apply.mockResolvedValue(aPullSecret([server]));
    await reconcile('team');
    expect([refusal('team'), onRefusal.mock.calls.length]).toEqual([undefined, 2]);
  });

  test('that a webhook keeps back since it does not answer is told of, without a password', async () => {
    const { reconcile, refusal } = reconciler();
    apply.mockRejectedValue(refused('InternalError', 'failed calling webhook "policy": it got s3cret'));
    await expect(reconcile('team')).rejects.toMatchObject({ reason: 'InternalError' });
    expect(refusal('team')).toBe('failed calling webhook "policy": it got ***');
    apply.mockRejectedValue(refused('InternalError', 'etcdserver: no leader'));
    vi.advanceTimersByTime(spacingMs);
    await expect(reconcile('team')).rejects.toThrow('no leader');
    expect(refusal('team')).toContain('failed calling webhook');
  });

  test('whose deletion is refused is told of in the words of who refuses', async () => {
    const { reconcile, refusal } = reconciler();
    credentials = [];
    pullSecret = aPullSecret([server]);
    const words = 'denied by validatingadmissionpolicy';
    remove.mockRejectedValue(refused('Forbidden', words));
    await expect(reconcile('team')).rejects.toMatchObject({ reason: 'Forbidden', message: words });
    expect(refusal('team')).toBe(words);
  });

  test('that is refused and not wanted any more is no refusal', async () => {
    const { reconcile, refusal } = reconciler();
    apply.mockRejectedValue(refused('Invalid', 'too large'));
    await expect(reconcile('team')).rejects.toMatchObject({ reason: 'Invalid' });
    expect(refusal('team')).toBe('too large');
    credentials = [];
    await reconcile('team');
    expect([refusal('team'), onRefusal.mock.calls.length]).toEqual([undefined, 2]);
  });

  test('that cannot be written for a moment is nobody’s refusal', async () => {
    const { reconcile, refusal } = reconciler();
    apply.mockRejectedValue(refused('ServiceUnavailable'));
    await expect(reconcile('team')).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    expect([refusal('team'), onRefusal.mock.calls]).toEqual([undefined, []]);
  });

  test.each([
    refused('NotFound'),
    refused('Forbidden', 'unable to create: namespace team because it is being terminated'),
  ])('of a namespace that goes is waited for quietly: %s', async (error) => {
    const { reconcile, refusal } = reconciler();
    apply.mockRejectedValue(error);
    await expect(reconcile('team')).rejects.toMatchObject({ afterMs: 1_000 });
    expect(refusal('team')).toBeUndefined();
  });
});

describe('the credentials of a namespace', () => {
  const reconcile = (refusal?: string) =>
    createCredentialReconciler({
      ...sources(),
      recorder: { event },
      policy: { enabled: false, allowed: [] },
      expected: createExpectations<RegistryCredential>(),
      refusal: () => refusal,
      now: () => new Date('2026-11-01T10:00:00Z'),
    })('team');
  const reason = () => apply.mock.calls[0]?.[1].status?.conditions?.[0]?.reason;
  const told = () => event.mock.calls.map(([, { type, reason: why }]) => `${type} ${why}`);

  test('say that they are published, which is no event', async () => {
    pullSecret = aPullSecret([server]);
    await reconcile();
    expect([reason(), told()]).toEqual(['Published', []]);
  });

  test('say what kube-apiserver refused, which is one', async () => {
    await reconcile('exceeded quota');
    expect(told()).toHaveLength(1);
    expect(told()[0]).toMatch(/^Warning /);
  });

  test('are held where svc3 made their Secret, and else not', async () => {
    pullSecret = aPullSecret([server]);
    await reconcile();
    expect(patch).not.toHaveBeenCalled();
    basicAuth = [aBasicAuth(`team.${name}`, managed())];
    await reconcile();
    expect(patch.mock.calls[0]?.[2].body.metadata.finalizers).toEqual(held.finalizers);
  });

  test('are held once', async () => {
    credentials = [aCredential(server, { metadata: held })];
    basicAuth = [aBasicAuth(`team.${name}`, managed())];
    pullSecret = aPullSecret([server]);
    await reconcile();
    expect(patch).not.toHaveBeenCalled();
  });

  test('tell that they are well again after they were not', async () => {
    const ready = { type: 'Ready', status: 'False', reason: 'SecretNotFound', message: '' } as const;
    const lastTransitionTime = '2026-11-01T09:00:00Z';
    credentials = [aCredential(server, { status: { conditions: [{ ...ready, lastTransitionTime }] } })];
    pullSecret = aPullSecret([server]);
    await reconcile();
    expect(told()).toEqual(['Normal Published']);
  });

  test('tell of a reason once, and say anew what belongs to it', async () => {
    const ready = { type: 'Ready', status: 'False', message: 'something else' } as const;
    await reconcile('exceeded quota');
    const [why = ''] = [reason()];
    const lastTransitionTime = '2026-11-01T09:00:00Z';
    credentials = [
      aCredential(server, { status: { conditions: [{ ...ready, reason: why, lastTransitionTime }] } }),
    ];
    event.mockReset();
    apply.mockClear();
    await reconcile('exceeded quota');
    expect([reason(), told()]).toEqual([why, []]);
  });

  test('are looked at again where a Secret may still come, and else not', async () => {
    pullSecret = aPullSecret([server]);
    expect(await reconcile()).toBeUndefined();
    basicAuth = [];
    pullSecret = undefined;
    expect((await reconcile())?.requeueAfterMs).toBeGreaterThan(0);
  });

  test('do not hold each other up where one cannot be written', async () => {
    credentials = [aCredential(server), aCredential('https://two.example.com')];
    basicAuth.push(aBasicAuth(credentials[1]?.spec.secretRef.name ?? ''));
    pullSecret = aPullSecret([server, 'https://two.example.com']);
    apply.mockRejectedValueOnce(refused('Timeout'));
    await expect(reconcile()).rejects.toMatchObject({ reason: 'Timeout' });
    expect(apply).toHaveBeenCalledTimes(2);
  });
});

describe('a credential that is deleted', () => {
  const going = { ...held, deletionTimestamp: '2026-11-01T09:59:00Z' };
  const reconcile = (refusal?: string) =>
    createCredentialReconciler({
      ...sources(),
      recorder: { event },
      policy: { enabled: false, allowed: [] },
      expected: createExpectations<RegistryCredential>(),
      refusal: () => refusal,
    })('team');
  const removed = () => remove.mock.calls.map(([, key]) => key.name);
  const released = () => patch.mock.calls.map(([, , { body }]) => body.metadata.finalizers);

  beforeEach(() => {
    credentials = [aCredential(server, { metadata: going })];
    basicAuth = [aBasicAuth(`team.${name}`, managed())];
  });

  test('goes with the Secret that svc3 made for it, as it was seen', async () => {
    await reconcile();
    expect(remove.mock.calls[0]?.slice(1)).toEqual([
      { name: `team.${name}`, namespace: 'svc3-credentials' },
      { uid: `uid-team.${name}`, resourceVersion: '5' },
    ]);
    expect(released()).toEqual([[]]);
  });

  test('stays until the pull Secret does not hold it any more', async () => {
    pullSecret = aPullSecret([server]);
    await reconcile();
    expect([removed(), released()]).toEqual([[], []]);
  });

  test('says why, where it stays because the pull Secret may not be written', async () => {
    pullSecret = aPullSecret([server]);
    await reconcile();
    expect(apply).not.toHaveBeenCalled();
    await reconcile('admission webhook "secrets.example.com" denied the request');
    expect([removed(), released()]).toEqual([[], []]);
    const [ready, reconciling] = apply.mock.calls[0]?.[1].status.conditions ?? [];
    expect(ready).toMatchObject({ type: 'Ready', status: 'False', reason: 'SecretRefused' });
    expect(reconciling).toMatchObject({ type: 'Reconciling', status: 'True' });
    expect(ready.message).toContain('secrets.example.com');
    expect(event.mock.calls.map(([, { reason }]) => reason)).toEqual(['SecretRefused']);
  });

  test('leaves a Secret that somebody else made', async () => {
    basicAuth = [aBasicAuth(`team.${name}`)];
    await reconcile();
    expect([removed(), released()]).toEqual([[], [[]]]);
  });

  test('leaves a Secret of another type under that name', async () => {
    basicAuth = [aBasicAuth(`team.${name}`, { ...managed(), type: 'Opaque' })];
    await reconcile();
    expect([removed(), released()]).toEqual([[], [[]]]);
  });

  test('leaves a Secret that another credential names, unless that one goes too', async () => {
    const metadata = { uid: 'other', name: 'other', namespace: 'else' };
    others = [aCredential(server, { metadata })];
    await reconcile();
    expect([removed(), released()]).toEqual([[], [[]]]);
    others = [aCredential(server, { metadata: { ...metadata, ...going } })];
    await reconcile();
    expect(removed()).toEqual([`team.${name}`]);
  });

  test('takes the Secret that was made for it, also where it names another one by now', async () => {
    credentials = [aCredential(server, { metadata: going, spec: { secretRef: { name: 'mine' } } })];
    basicAuth.push(aBasicAuth('mine', managed({ name: 'mine' })));
    await reconcile();
    expect(removed()).toEqual(['mine', `team.${name}`]);
  });

  test('of others’ finalizers only is none of ours', async () => {
    credentials = [aCredential(server, { metadata: { ...going, finalizers: ['other'] } })];
    await reconcile();
    expect([removed(), released()]).toEqual([[], []]);
  });
});
