import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Secret } from '../../../../src/api/core.ts';
import type { RegistryCredential } from '../../../../src/api/registrycredential.ts';
import { createExpectations } from '../../../../src/controller/expectations.ts';
import type { Informers } from '../../../../src/controller/informers.ts';
import {
  createCredentialCaches,
  findBasicAuth,
  observe,
} from '../../../../src/controllers/credential/observe.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { InformerOptions, KubeClient } from '../../../../src/kube/types.ts';
import { aBasicAuth, aCredential, aPullSecret } from './builders.ts';

type Options = Pick<
  InformerOptions<Secret & RegistryCredential>,
  'namespace' | 'fieldSelector' | 'transform' | 'indexes' | 'keepManagedFields'
>;

const get = vi.fn<KubeClient['get']>();
const client = { get } as unknown as KubeClient;
let asked: Options[];
/** Ends the first list of each cache that somebody waits for. */
let syncing: (() => void)[];
let credentials: RegistryCredential[];
let secrets: Secret[];

/** Informers whose caches are the lists of the test; each is asked for with options of its own. */
const informers = {
  get: (_resource: unknown, options: Options) => {
    asked.push(options);
    return {
      list: (namespace: string) => credentials.filter(({ metadata }) => metadata.namespace === namespace),
      get: (name: string, namespace: string) =>
        secrets.find(({ metadata }) => metadata.name === name && metadata.namespace === namespace),
      byIndex: (index: string, value: string) =>
        credentials.filter((each) => options.indexes?.[index]?.(each as never).includes(value)),
      synced: () => new Promise<void>((resolve) => void syncing.push(resolve)),
    };
  },
} as unknown as Informers;

beforeEach(() => {
  asked = [];
  syncing = [];
  credentials = [];
  secrets = [];
  get.mockReset().mockRejectedValue(new Svc3Error('NotFound', 'gone'));
});

describe('the caches', () => {
  test('know the credentials that name a Secret, of whatever namespace', () => {
    const [one, other, third] = ['a', 'b', 'c'].map((host) => aCredential(`https://${host}`));
    credentials = [one!, { ...other!, spec: one!.spec }, third!];
    expect(createCredentialCaches(informers).naming(one!.spec.secretRef.name)).toEqual([one, credentials[1]]);
  });

  test('hold of pull Secrets those of our name, with who applied them and nothing else of fields', () => {
    createCredentialCaches(informers);
    const [, , pullSecrets] = asked;
    expect(pullSecrets).toMatchObject({
      fieldSelector: 'metadata.name=svc3-registry-credentials',
      keepManagedFields: true,
    });
    expect(pullSecrets).not.toHaveProperty('namespace');
    const secret = aPullSecret(['https://a']);
    const metadata = {
      ...secret.metadata,
      annotations: { long: 'text' },
      managedFields: [
        { manager: 'svc3', operation: 'Apply', fieldsV1: { long: 'text' } },
        { manager: 'kubectl', operation: 'Update' },
        { operation: 'Apply' },
      ],
    };
    expect(pullSecrets?.transform?.({ ...secret, metadata } as never)).toEqual({
      ...secret,
      metadata: {
        ...secret.metadata,
        managedFields: [
          { manager: 'svc3', operation: 'Apply' },
          { manager: '', operation: 'Apply' },
        ],
      },
    });
    expect(pullSecrets?.transform?.(secret as never).metadata).toHaveProperty('managedFields', []);
  });

  test('are synced when each of them is', async () => {
    let isSynced = false;
    const synced = createCredentialCaches(informers)
      .synced()
      .then(() => (isSynced = true));
    expect(syncing).toHaveLength(3);
    for (const end of syncing) {
      await new Promise((resolve) => setImmediate(resolve));
      expect(isSynced).toBe(false);
      end();
    }
    await synced;
  });

  test('hold of basic-auth Secrets type and login only', () => {
    createCredentialCaches(informers);
    const [, basicAuth] = asked;
    expect(basicAuth?.namespace).toBe('svc3-credentials');
    const secret = aBasicAuth('a');
    const whole = {
      ...secret,
      metadata: { ...secret.metadata, annotations: { a: 'b' }, managedFields: [{ manager: 'kubectl' }] },
      data: { ...secret.data, other: 'x' },
    };
    expect(basicAuth?.transform?.(whole as never)).toEqual(secret);
    const bare = { metadata: secret.metadata, data: { username: 'YQ==' } };
    expect(basicAuth?.transform?.(bare as never)).toStrictEqual(bare);
  });
});

describe('a basic-auth Secret', () => {
  test('is that of the cache, and nobody is asked', async () => {
    secrets = [aBasicAuth('a')];
    expect(await findBasicAuth(createCredentialCaches(informers), client, 'a')).toBe(secrets[0]);
    expect(get).not.toHaveBeenCalled();
  });

  test('that the cache does not have is asked for; there may be none', async () => {
    const caches = createCredentialCaches(informers);
    expect(await findBasicAuth(caches, client, 'a')).toBeUndefined();
    get.mockResolvedValue(aBasicAuth('a'));
    expect(await findBasicAuth(caches, client, 'a')).toEqual(aBasicAuth('a'));
    expect(get.mock.calls[0]?.slice(1)).toEqual(['a', 'svc3-credentials']);
  });

  test('is not gone because it could not be asked for', async () => {
    get.mockRejectedValue(new Svc3Error('ServiceUnavailable', 'away'));
    await expect(findBasicAuth(createCredentialCaches(informers), client, 'a')).rejects.toThrow('away');
  });
});

describe('what a pass looks at', () => {
  const look = () =>
    observe(
      {
        client,
        caches: createCredentialCaches(informers),
        expectedPullSecrets: createExpectations<Secret>({ log: undefined } as never),
      },
      'team',
    );

  test('is the credentials of the namespace by name, their Secrets, and its pull Secret', async () => {
    const [a, b] = ['a', 'b'].map((host) => aCredential(`https://${host}`));
    credentials = [b!, a!, aCredential('https://c', { metadata: { namespace: 'other' } })];
    const [forA, forB] = [a!, b!].map(({ spec }) => aBasicAuth(spec.secretRef.name));
    secrets = [forA!, forB!, aPullSecret(['https://a'])];
    const seen = await look();
    expect(seen.credentials).toEqual([a, b]);
    expect(seen.secrets).toEqual(
      new Map([
        [a!.spec.secretRef.name, forA],
        [b!.spec.secretRef.name, forB],
      ]),
    );
    expect(seen.pullSecret).toEqual(aPullSecret(['https://a']));
  });

  test('is no Secret of a credential that is being deleted, nor one that there is not', async () => {
    const going = aCredential('https://a', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
    credentials = [going, aCredential('https://b')];
    secrets = [aBasicAuth(going.spec.secretRef.name)];
    const seen = await look();
    expect(seen.secrets.size).toBe(0);
    expect(get).toHaveBeenCalledTimes(1);
  });
});
