import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Secret } from '../../src/api/core.ts';
import { namespaces } from '../../src/api/meta.ts';
import { registryCredentials, secrets } from '../../src/api/resources.ts';
import { createRegistryCredentials } from '../../src/cli/service/kubernetes/registrycredentials.ts';
import { createInformers } from '../../src/controller/informers.ts';
import {
  removeCredential,
  storeCredential,
  type StoreRequest,
} from '../../src/controllers/credential/store.ts';
import { isSvc3Error } from '../../src/errors.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import {
  basicAuth,
  credentialCluster,
  findCredential,
  newNamespace,
  published,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from '../integration/credential/harness.ts';
import { keptLog, startTestApi, type TestApi } from '../support/api.ts';

const server = 'https://registry.example.com';
const name = 'registry.example.com.443';
const soon = { interval: 20 };
const adders = 8;
const rounds = 15;

let cluster: CredentialCluster;
let operator: TestOperator;
let api: TestApi;

beforeAll(async () => {
  cluster = await credentialCluster();
  operator = await startOperator(cluster.client);
  api = await startTestApi(cluster.client);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await cluster?.remove();
});

const pairFor = (who: number | string) => ({ server, username: `user-${who}`, password: `password-${who}` });
const requestOf = (who: number | string, more: Partial<StoreRequest> = {}): StoreRequest => ({
  ...pairFor(who),
  ...more,
});

/** Status of one `add`: every other one straight on kube-apiserver as the CLI does it, the others over HTTP. */
async function add(namespace: string, who: number): Promise<number> {
  if (who % 2 === 0) {
    const { status } = await api.call(
      'POST',
      `/api/v1/namespaces/${namespace}/secrets/registrycredentials/add`,
      {
        token: cluster.controlPlane.adminToken,
        body: pairFor(who),
      },
    );
    return status;
  }
  try {
    await createRegistryCredentials(cluster.client).add(namespace, pairFor(who), { verify: 'never' });
    return 201;
  } catch (error) {
    return isSvc3Error(error) ? error.status : 0;
  }
}

async function stored(namespace: string): Promise<string | undefined> {
  try {
    return pairOf(await cluster.client.get(secrets, `${namespace}.${name}`, namespaces.credentials));
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

function pairOf({ data }: Secret): string {
  const text = (key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString('utf8');
  return `${text('username')} ${text('password')}`;
}

const pair = (who: number | string) => `user-${who} password-${who}`;

/** A client whose first call that `isMeant` is held until `meanwhile` is done. */
function interrupted(
  isMeant: (method: 'create' | 'apply' | 'replace', plural: string, dryRun: boolean) => boolean,
  meanwhile: () => Promise<unknown>,
): KubeClient {
  let isDone = false;
  const hold = async (method: 'create' | 'apply' | 'replace', plural: string, dryRun = false) => {
    if (isDone || !isMeant(method, plural, dryRun)) return;
    isDone = true;
    await meanwhile();
  };
  const { client } = cluster;
  return {
    ...client,
    async create(resource, object, options) {
      await hold('create', resource.plural, options?.dryRun);
      return client.create(resource, object, options);
    },
    async apply(resource, object, options) {
      await hold('apply', resource.plural, options?.dryRun);
      return client.apply(resource, object, options);
    },
    async replace(resource, object, options) {
      await hold('replace', resource.plural, options?.dryRun);
      return client.replace(resource, object, options);
    },
  };
}

describe('of eight adds at the same time', () => {
  test('one is answered with 201, the others with 409, and the password is that of the one', async () => {
    const stopping = new AbortController();
    const informers = createInformers(cluster.client, keptLog());
    const seen = new Set<string>();
    informers
      .get(secrets, { namespace: namespaces.credentials })
      .onChange(({ object }) => seen.add(pairOf(object)));
    const watching = informers.run(stopping.signal);
    await informers.synced();
    for (let round = 0; round < rounds; round += 1) {
      const namespace = await newNamespace(cluster.client);
      const codes = await Promise.all(Array.from({ length: adders }, (_, who) => add(namespace, who)));
      expect(codes.filter((code) => code !== 409)).toEqual([201]);
      expect(await stored(namespace)).toBe(pair(codes.indexOf(201)));
    }
    stopping.abort();
    await watching.catch(() => undefined);
    const whole = new Set(Array.from({ length: adders }, (_, who) => pair(who)));
    expect([...seen].filter((each) => !whole.has(each))).toEqual([]);
  });

  test('right after a removal the same holds, and its password reaches the pull Secret', async () => {
    const namespace = await newNamespace(cluster.client);
    await storeCredential(cluster.client, namespace, requestOf('old'));
    for (let round = 0; round < 5; round += 1) {
      await removeCredential(cluster.client, namespace, server);
      const codes = await Promise.all(Array.from({ length: adders }, (_, who) => add(namespace, who)));
      expect(codes.filter((code) => code !== 409)).toEqual([201]);
      const winner = codes.indexOf(201);
      expect(await stored(namespace)).toBe(pair(winner));
      await expect
        .poll(async () => (await published(cluster.client, namespace))?.['registry.example.com'], soon)
        .toBe(`password-${winner}`);
    }
  });
});

describe('an add that is overtaken by another', () => {
  test.each([
    ['before it writes the Secret', 'secrets'],
    ['before it writes the object', 'registrycredentials'],
  ])('%s is refused and leaves the password alone', async (_, plural) => {
    const namespace = await newNamespace(cluster.client);
    const slow = interrupted(
      (method, of, dryRun) => of === plural && !dryRun && method !== 'replace',
      () => storeCredential(cluster.client, namespace, requestOf('fast')),
    );
    await expect(storeCredential(slow, namespace, requestOf('slow'))).rejects.toMatchObject({
      reason: 'AlreadyExists',
    });
    expect(await stored(namespace)).toBe(pair('fast'));
  });

  test('and that is removed again, has its own password', async () => {
    const namespace = await newNamespace(cluster.client);
    const slow = interrupted(
      (_, plural, dryRun) => plural === 'registrycredentials' && !dryRun,
      async () => {
        await storeCredential(cluster.client, namespace, requestOf('fast'));
        await removeCredential(cluster.client, namespace, server);
        await expect.poll(() => findCredential(cluster.client, namespace, server), soon).toBeUndefined();
      },
    );
    await expect(storeCredential(slow, namespace, requestOf('slow'))).resolves.toEqual({ replaced: false });
    expect(await stored(namespace)).toBe(pair('slow'));
  });
});

describe('a Secret without a credential', () => {
  test('that an add left which was cut off is taken over', async () => {
    const namespace = await newNamespace(cluster.client);
    await cluster.client.create(
      secrets,
      basicAuth(`${namespace}.${name}`, 'user-dead', 'password-dead', true),
    );
    await storeCredential(cluster.client, namespace, requestOf('new'));
    expect(await stored(namespace)).toBe(pair('new'));
  });

  test('that svc3 did not make is replaced only where that is asked for', async () => {
    const namespace = await newNamespace(cluster.client);
    await cluster.client.create(secrets, basicAuth(`${namespace}.${name}`, 'user-theirs', 'password-theirs'));
    await expect(storeCredential(cluster.client, namespace, requestOf('new'))).rejects.toMatchObject({
      reason: 'AlreadyExists',
      message: `Secret svc3-credentials/${namespace}.${name} already exists and is not svc3's; use replace to overwrite it`,
    });
    expect(await stored(namespace)).toBe(pair('theirs'));
    expect(await findCredential(cluster.client, namespace, server)).toBeUndefined();
    await storeCredential(cluster.client, namespace, requestOf('new', { replace: true }));
    expect(await stored(namespace)).toBe(pair('new'));
  });
});

test('an add whose object cannot be written deletes its own Secret and no other', async () => {
  for (const isOvertaken of [false, true]) {
    const namespace = await newNamespace(cluster.client);
    const failing: KubeClient = {
      ...cluster.client,
      async create(resource, object, options) {
        if (resource.plural === registryCredentials.plural && options?.dryRun !== true) {
          const other = basicAuth(`${namespace}.${name}`, 'user-other', 'password-other');
          if (isOvertaken) await cluster.client.apply(secrets, other, { fieldManager: 'other' });
          throw new Error('cut');
        }
        return cluster.client.create(resource, object, options);
      },
    };
    await expect(storeCredential(failing, namespace, requestOf('mine'))).rejects.toThrow('cut');
    expect(await stored(namespace)).toBe(isOvertaken ? pair('other') : undefined);
  }
});

test('a replacement during which the credential is removed is whole or not there', async () => {
  const namespace = await newNamespace(cluster.client);
  await storeCredential(cluster.client, namespace, requestOf('old'));
  const slow = interrupted(
    (method, plural, dryRun) => method === 'apply' && plural === 'registrycredentials' && !dryRun,
    async () => {
      await removeCredential(cluster.client, namespace, server);
      await expect.poll(() => findCredential(cluster.client, namespace, server), soon).toBeUndefined();
    },
  );
  await storeCredential(slow, namespace, requestOf('new', { replace: true }));
  expect(await stored(namespace)).toBe(pair('new'));
  await expect
    .poll(async () => (await published(cluster.client, namespace))?.['registry.example.com'], soon)
    .toBe('password-new');
});
