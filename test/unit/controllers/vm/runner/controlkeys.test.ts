import { generateKeyPairSync } from 'node:crypto';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Secret } from '../../../../../src/api/core.ts';
import {
  controlKeySecrets,
  type ControlKeys,
  createControlKeyController,
  createControlKeys,
} from '../../../../../src/controllers/vm/runner/controlkeys.ts';
import type { Informers } from '../../../../../src/controller/informers.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { Change, Informer, KubeClient } from '../../../../../src/kube/types.ts';
import { createControlKey, encodePublicKey } from '../../../../../src/runnerapi/token.ts';

const [first, second] = [createControlKey(), createControlKey()];

/** The Secret with these keys, as kube-apiserver gives it. */
function aSecret(keys: Record<string, typeof first>, resourceVersion = '1'): Secret {
  const pem = ({ privateKey }: typeof first): string => privateKey.export({ type: 'pkcs8', format: 'pem' });
  const data = Object.entries(keys).map(([entry, key]) => [entry, Buffer.from(pem(key)).toString('base64')]);
  return {
    metadata: { name: 'svc3-control-keys', namespace: 'svc3-system', uid: 'u', resourceVersion },
    data: Object.fromEntries(data) as Record<string, string>,
  };
}

let cached: Secret | undefined;
let stored: Secret | undefined;
const apply = vi.fn();
const patch = vi.fn();
const warn = vi.fn();
const log = { debug: () => undefined, info: () => undefined, warn, error: () => undefined };
let keys: ControlKeys;

beforeEach(() => {
  cached = undefined;
  stored = undefined;
  apply.mockReset().mockImplementation((_resource: unknown, secret: Secret) => {
    stored = { ...secret, metadata: { ...secret.metadata, uid: 'u', resourceVersion: '7' } };
    return Promise.resolve(stored);
  });
  warn.mockReset();
  patch.mockReset().mockResolvedValue(undefined);
  const client = {
    patch,
    get: () =>
      stored === undefined ? Promise.reject(new Svc3Error('NotFound', 'gone')) : Promise.resolve(stored),
    apply,
  } as unknown as KubeClient;
  const get = (name: string, namespace: string) =>
    cached?.metadata.name === name && cached.metadata.namespace === namespace ? cached : undefined;
  keys = createControlKeys(client, { get } as unknown as Informer<Secret>, log);
});

describe('the keys of the installation', () => {
  test('are none before the Secret is known', () => {
    expect([keys.signingKey(), keys.publicKeys()]).toEqual([undefined, '']);
  });

  test('are the current one, which signs, and the one before it', () => {
    cached = aSecret({ previous: first, current: second });
    expect(keys.publicKeys()).toBe(`${second.publicKey},${first.publicKey}`);
    expect(encodePublicKey(keys.signingKey()!)).toBe(second.publicKey);
  });

  test('are read again when the Secret has changed, and only then', () => {
    cached = aSecret({ current: first });
    const before = keys.signingKey();
    expect(keys.signingKey()).toBe(before);
    cached = aSecret({ previous: first, current: second }, '2');
    expect(keys.publicKeys()).toBe(`${second.publicKey},${first.publicKey}`);
  });

  test('are made where there is no Secret, and count before the cache shows it', async () => {
    await keys.ensure();
    expect(apply.mock.calls[0]?.[1]).toMatchObject({
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'Opaque',
      metadata: {
        name: 'svc3-control-keys',
        namespace: 'svc3-system',
        labels: { 'app.kubernetes.io/part-of': 'svc3' },
      },
    });
    expect(keys.publicKeys()).toMatch(/^[\w-]{43}$/);
    expect(encodePublicKey(keys.signingKey()!)).toBe(keys.publicKeys());
  });

  test('are those that another process has made', async () => {
    stored = aSecret({ current: first });
    await keys.ensure();
    expect(apply).not.toHaveBeenCalled();
    expect(keys.publicKeys()).toBe(first.publicKey);
  });

  test('are not made where the cache shows them', async () => {
    cached = aSecret({ current: first });
    await keys.ensure();
    expect(apply).not.toHaveBeenCalled();
    expect(keys.publicKeys()).toBe(first.publicKey);
  });

  test('of the cache count before those that were made', async () => {
    await keys.ensure();
    cached = aSecret({ current: first }, '8');
    expect(keys.publicKeys()).toBe(first.publicKey);
  });
});

const pemOf = ({ privateKey }: typeof first): string => privateKey.export({ type: 'pkcs8', format: 'pem' });
const foreign = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const secretOf = (data: Record<string, string> | undefined): Secret => {
  const { metadata } = aSecret({});
  if (data === undefined) return { metadata };
  const entries = Object.entries(data).map(([entry, text]) => [entry, Buffer.from(text).toString('base64')]);
  return { metadata, data: Object.fromEntries(entries) as Record<string, string> };
};

/** Secrets of which nobody can sign anything. */
const useless: [string, Secret][] = [
  ['without data', secretOf(undefined)],
  ['that is empty', secretOf({})],
  ['whose entry is empty', secretOf({ current: '' })],
  ['whose key was cut short', secretOf({ current: pemOf(first).slice(0, 70) })],
  ['that is no text', { ...secretOf({}), data: { current: '%%%' } }],
  ['of another kind of key', secretOf({ current: foreign.export({ type: 'pkcs8', format: 'pem' }) })],
  ['whose key lies elsewhere', secretOf({ 'tls.key': pemOf(first) })],
];

describe('a Secret of which no key can be read', () => {
  test.each(useless)('%s has none, and gets one', async (_what, secret) => {
    cached = secret;
    expect([keys.signingKey(), keys.publicKeys()]).toEqual([undefined, '']);
    await keys.ensure();
    expect(patch).not.toHaveBeenCalled();

    await keys.mend();
    expect(patch).toHaveBeenCalledOnce();
    const [, key, { type, body }] = patch.mock.calls[0] as [
      unknown,
      unknown,
      { type: string; body: { metadata: unknown; data: { current: string; previous: null } } },
    ];
    expect(key).toEqual({ name: 'svc3-control-keys', namespace: 'svc3-system' });
    // Somebody who mends it at the same time is not overwritten.
    expect([type, body.metadata]).toEqual(['merge', { uid: 'u', resourceVersion: '1' }]);
    expect(body.data.previous).toBeNull();
    cached = { ...secret, metadata: { ...secret.metadata, resourceVersion: '2' }, data: body.data as never };
    expect(keys.publicKeys()).toMatch(/^[\w-]{43}$/);
    expect(warn.mock.calls.at(-1)?.[1]).toMatch(/no key could be read from .*: it has another/);
  });

  test.each(['Invalid', 'Forbidden'] as const)(
    'that cannot be written (%s) is to be deleted',
    async (reason) => {
      cached = secretOf({ current: 'damaged' });
      patch.mockRejectedValue(new Svc3Error(reason, 'it is immutable'));
      await expect(keys.mend()).rejects.toMatchObject({
        reason,
        message:
          'no key can be read from Secret svc3-system/svc3-control-keys, and it cannot be given another: it is immutable; delete it, and the operator makes it anew',
      });
    },
  );

  test('that somebody has written meanwhile is left to the next pass', async () => {
    cached = secretOf({ current: 'damaged' });
    const conflict = new Svc3Error('Conflict', 'it has changed');
    patch.mockRejectedValue(conflict);
    await expect(keys.mend()).rejects.toBe(conflict);
  });

  test('keeps the other entries that somebody has put there', async () => {
    cached = secretOf({ current: 'damaged', note: 'ours' });
    await keys.mend();
    const [, , { body }] = patch.mock.calls[0] as [unknown, unknown, { body: { data: object } }];
    expect(Object.keys(body.data).toSorted()).toEqual(['current', 'previous']);
  });

  test('and which is gone by now is not written', async () => {
    await keys.mend();
    expect(patch).not.toHaveBeenCalled();
  });
});

test.each([
  ['current', 'previous'],
  ['previous', 'current'],
] as const)('a damaged %s leaves the key in %s, by which runners know the operator', async (bad, good) => {
  const pem = pemOf(first);
  cached = secretOf({ [bad]: pem.slice(0, 70), [good]: pem });
  expect([encodePublicKey(keys.signingKey()!), keys.publicKeys()]).toEqual([
    first.publicKey,
    first.publicKey,
  ]);
  await keys.mend();
  expect(patch).not.toHaveBeenCalled();
  expect(warn.mock.calls.at(-1)?.[1]).toBe(
    `entry ${bad} of Secret svc3-system/svc3-control-keys is no Ed25519 key as PKCS#8 PEM and is left out`,
  );
});

test('the Secret is the only one that is watched, and is made again when somebody deletes or spoils it', async () => {
  type Seen = Pick<Change<Secret>, 'kind' | 'object'>;
  const handlers: ((change: Seen) => void)[] = [];
  const get = vi.fn(() => ({ onChange: (handler: (change: Seen) => void) => void handlers.push(handler) }));
  const informers = { get } as unknown as Informers;
  controlKeySecrets(informers);
  expect(get.mock.calls[0]).toEqual([
    expect.objectContaining({ kind: 'Secret' }),
    { namespace: 'svc3-system', fieldSelector: 'metadata.name=svc3-control-keys' },
  ]);
  const ensure = vi.fn(() => Promise.resolve());
  const mend = vi.fn(() => Promise.resolve());
  const controller = createControlKeyController(
    { informers, log, gate: { isHeld: () => true, assertHeld: () => undefined }, metrics: {} } as never,
    { ensure, mend },
  );
  const stop = new AbortController();
  const running = controller.run(stop.signal);
  for (const kind of ['added', 'updated'] as const)
    handlers[0]?.({ kind, object: aSecret({ current: first }) });
  for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(ensure).not.toHaveBeenCalled();
  handlers[0]?.({ kind: 'deleted', object: aSecret({ current: first }) });
  await expect.poll(() => ensure.mock.calls.length).toBe(1);
  const spoilt: Seen[] = [
    { kind: 'added', object: secretOf({ current: 'damaged' }) },
    { kind: 'updated', object: secretOf({ current: 'damaged' }) },
    { kind: 'updated', object: secretOf({}) },
  ];
  for (const [index, change] of spoilt.entries()) {
    handlers[0]?.(change);
    await expect.poll(() => mend.mock.calls.length).toBe(index + 2);
  }
  stop.abort();
  await running;
});
