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
let keys: ControlKeys;

beforeEach(() => {
  cached = undefined;
  stored = undefined;
  apply.mockReset().mockImplementation((_resource: unknown, secret: Secret) => {
    stored = { ...secret, metadata: { ...secret.metadata, uid: 'u', resourceVersion: '7' } };
    return Promise.resolve(stored);
  });
  const client = {
    get: () =>
      stored === undefined ? Promise.reject(new Svc3Error('NotFound', 'gone')) : Promise.resolve(stored),
    apply,
  } as unknown as KubeClient;
  const get = (name: string, namespace: string) =>
    cached?.metadata.name === name && cached.metadata.namespace === namespace ? cached : undefined;
  keys = createControlKeys(client, { get } as unknown as Informer<Secret>);
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

test('the Secret is the only one that is watched, and is made again when somebody deletes it', async () => {
  const handlers: ((change: Pick<Change<Secret>, 'kind'>) => void)[] = [];
  const get = vi.fn(() => ({
    onChange: (handler: (change: Pick<Change<Secret>, 'kind'>) => void) => void handlers.push(handler),
  }));
  const informers = { get } as unknown as Informers;
  controlKeySecrets(informers);
  expect(get.mock.calls[0]).toEqual([
    expect.objectContaining({ kind: 'Secret' }),
    { namespace: 'svc3-system', fieldSelector: 'metadata.name=svc3-control-keys' },
  ]);
  const ensure = vi.fn(() => Promise.resolve());
  const silent = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
  };
  const controller = createControlKeyController(
    {
      informers,
      log: silent,
      gate: { isHeld: () => true, assertHeld: () => undefined },
      metrics: {},
    } as never,
    { ensure },
  );
  const stop = new AbortController();
  const running = controller.run(stop.signal);
  for (const kind of ['added', 'updated'] as const) handlers[0]?.({ kind });
  for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(ensure).not.toHaveBeenCalled();
  handlers[0]?.({ kind: 'deleted' });
  await expect.poll(() => ensure.mock.calls.length).toBe(1);
  stop.abort();
  await running;
});
