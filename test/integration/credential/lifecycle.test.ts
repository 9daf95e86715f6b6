import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { finalizer, namespaces, objectNames } from '../../../src/api/meta.ts';
import {
  configMaps,
  events,
  namespaces as namespaceResource,
  registryCredentials,
  secrets,
} from '../../../src/api/resources.ts';
import { parseServer } from '../../../src/registry/identity.ts';
import { removeCredential, storeCredential } from '../../../src/controllers/credential/store.ts';
import {
  addCredential,
  basicAuth,
  credential,
  credentialCluster,
  findCredential,
  newNamespace,
  published,
  pullSecretOf,
  readyReason,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from './harness.ts';

const [one, two] = ['https://one.example.com', 'https://two.example.com:5000'];
const soon = { interval: 20 };
const secretName = objectNames.pullSecret;

let cluster: CredentialCluster;
let operator: TestOperator;

beforeAll(async () => {
  cluster = await credentialCluster();
  operator = await startOperator(cluster.client, { enabled: true, allowed: ['*.lab.example.com'] });
});

afterAll(async () => {
  await operator?.stop();
  await cluster?.remove();
});

const at = async (namespace: string) => await published(cluster.client, namespace);

describe('the pull Secret of a namespace', () => {
  test('holds a credential that was added, for each spelling of its registry, and says whose it is', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, one, 'first');
    await expect
      .poll(() => at(namespace), soon)
      .toEqual({ 'one.example.com': 'first', 'one.example.com:443': 'first' });
    const secret = await pullSecretOf(cluster.client, namespace);
    expect(secret?.type).toBe('kubernetes.io/dockerconfigjson');
    expect(secret?.metadata.labels).toMatchObject({
      'app.kubernetes.io/managed-by': 'svc3',
      'app.kubernetes.io/part-of': 'svc3',
    });
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('Published');
    const { status } = (await findCredential(cluster.client, namespace, one)) ?? {};
    expect(status).toMatchObject({ observedGeneration: 1, registry: 'one.example.com' });
  });

  test('holds all credentials of its namespace and none of another', async () => {
    const [mine, other] = [await newNamespace(cluster.client), await newNamespace(cluster.client)];
    await addCredential(cluster.client, mine, one, 'mine-1');
    await addCredential(cluster.client, mine, two, 'mine-2');
    await addCredential(cluster.client, other, one, 'other-1');
    await expect
      .poll(() => at(mine), soon)
      .toMatchObject({
        'one.example.com': 'mine-1',
        'two.example.com:5000': 'mine-2',
      });
    await expect
      .poll(() => at(other), soon)
      .toEqual({
        'one.example.com': 'other-1',
        'one.example.com:443': 'other-1',
      });
  });

  test('follows a rotated password without any change of the credential', async () => {
    const namespace = await newNamespace(cluster.client);
    const { spec } = await addCredential(cluster.client, namespace, two, 'old');
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 'old' });
    await cluster.client.apply(secrets, basicAuth(spec.secretRef.name, 'alice', 'new'), {
      fieldManager: 'external-secrets',
    });
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 'new' });
  });

  test('follows a credential that names another Secret', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, two, 'old');
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 'old' });
    await cluster.client.apply(secrets, basicAuth(`${namespace}-other`, 'bob', 'other'));
    await cluster.client.patch(
      registryCredentials,
      { name: parseServer(two).name, namespace },
      { type: 'merge', body: { spec: { secretRef: { name: `${namespace}-other` } } } },
    );
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 'other' });
  });

  test('loses a credential that was removed, and goes with the last one', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, one);
    await addCredential(cluster.client, namespace, two);
    await expect.poll(async () => Object.keys((await at(namespace)) ?? {}).length, soon).toBe(3);
    await cluster.client.delete(registryCredentials, { name: parseServer(one).name, namespace });
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 's3cret' });
    await cluster.client.delete(registryCredentials, { name: parseServer(two).name, namespace });
    await expect.poll(() => pullSecretOf(cluster.client, namespace), soon).toBeUndefined();
  });

  test('holds a credential that is added again as soon as it was removed', async () => {
    const { client } = cluster;
    const namespace = await newNamespace(client);
    for (const password of ['first', 'second', 'third']) {
      const request = { server: one, username: 'alice', password };
      expect(await storeCredential(client, namespace, request)).toEqual({ replaced: false });
      await expect.poll(() => at(namespace), soon).toMatchObject({ 'one.example.com': password });
      await removeCredential(client, namespace, one);
    }
  });

  test('a credential that somebody keeps from going is not added again, and that is said', async () => {
    const { client } = cluster;
    const namespace = await newNamespace(client);
    const request = { server: one, username: 'alice', password: 'kept' };
    await storeCredential(client, namespace, request);
    const { name } = parseServer(one);
    const keep = (finalizers: string[]) =>
      client.patch(
        registryCredentials,
        { name, namespace },
        { type: 'merge', body: { metadata: { finalizers } } },
      );
    await keep([finalizer, 'example.com/keep']);
    await removeCredential(client, namespace, one);
    await expect(storeCredential(client, namespace, request, 300)).rejects.toMatchObject({
      reason: 'Conflict',
      message: `the credential for ${one} is being removed, try again`,
    });
    await expect.poll(() => at(namespace), soon).toBeUndefined();
    await keep([]);
    expect(await storeCredential(client, namespace, request)).toEqual({ replaced: false });
  });

  test('comes back when it was deleted by hand', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, two);
    await expect.poll(() => at(namespace), soon).toBeDefined();
    await cluster.client.delete(secrets, { name: secretName, namespace });
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 's3cret' });
  });

  test.each([
    { title: 'its content', patch: { data: { '.dockerconfigjson': btoa('{"auths":{}}') } } },
    {
      title: 'its content, and took the labels away',
      patch: { metadata: { labels: null }, data: { '.dockerconfigjson': btoa('{"auths":{}}') } },
    },
    {
      title: 'its content, and made it immutable',
      patch: { immutable: true, data: { '.dockerconfigjson': btoa('{"auths":{}}') } },
    },
  ])('is repaired when somebody edited $title', async ({ patch }) => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, two);
    await expect.poll(() => at(namespace), soon).toBeDefined();
    await cluster.client.patch(
      secrets,
      { name: secretName, namespace },
      { type: 'merge', body: patch },
      { fieldManager: 'kubectl-edit' },
    );
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 's3cret' });
    const repaired = await pullSecretOf(cluster.client, namespace);
    expect(repaired?.metadata.labels).toMatchObject({ 'app.kubernetes.io/managed-by': 'svc3' });
  });

  test('of a namespace that was removed and made again is made again', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, two, 'before');
    await expect.poll(() => at(namespace), soon).toBeDefined();
    await cluster.client.delete(namespaceResource, { name: namespace });
    await expect
      .poll(
        () =>
          cluster.client.get(namespaceResource, namespace).then(
            () => 'there',
            () => 'gone',
          ),
        {
          ...soon,
          timeout: 50_000,
        },
      )
      .toBe('gone');
    await cluster.client.create(namespaceResource, { metadata: { name: namespace } });
    await addCredential(cluster.client, namespace, two, 'after');
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 'after' });
  });
});

describe('what stands in the way', () => {
  test('a foreign Secret is SecretConflict, stays as it is, and svc3 goes on when it is gone', async () => {
    const namespace = await newNamespace(cluster.client);
    await cluster.client.create(secrets, {
      metadata: { name: secretName, namespace },
      type: 'Opaque',
      stringData: { mine: 'yes' },
    });
    const before = await pullSecretOf(cluster.client, namespace);
    await addCredential(cluster.client, namespace, two);
    await expect.poll(() => readyReason(cluster.client, namespace, two), soon).toBe('SecretConflict');
    const found = await findCredential(cluster.client, namespace, two);
    expect(found?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Stalled', status: 'True', reason: 'SecretConflict' }),
    );
    expect(await pullSecretOf(cluster.client, namespace)).toEqual(before);
    await cluster.client.delete(secrets, { name: secretName, namespace });
    await expect.poll(() => readyReason(cluster.client, namespace, two), soon).toBe('Published');
    expect(await at(namespace)).toEqual({ 'two.example.com:5000': 's3cret' });
  });

  test('a foreign Secret of the right type is not taken over either, nor deleted with the credential', async () => {
    const namespace = await newNamespace(cluster.client);
    const foreign = await cluster.client.create(
      secrets,
      {
        metadata: { name: secretName, namespace },
        type: 'kubernetes.io/dockerconfigjson',
        stringData: { '.dockerconfigjson': '{"auths":{"theirs.example.com":{"password":"theirs"}}}' },
      },
      { fieldManager: 'somebody' },
    );
    await addCredential(cluster.client, namespace, two);
    await expect.poll(() => readyReason(cluster.client, namespace, two), soon).toBe('SecretConflict');
    await cluster.client.delete(registryCredentials, { name: parseServer(two).name, namespace });
    await expect.poll(() => findCredential(cluster.client, namespace, two), soon).toBeUndefined();
    await expect.poll(() => operator.pending(), soon).toBe(0);
    expect(await pullSecretOf(cluster.client, namespace)).toEqual(foreign);
  });

  test('a Secret that is missing is SecretNotFound, the other registries go on, and it is found when it comes', async () => {
    const namespace = await newNamespace(cluster.client);
    await cluster.client.create(registryCredentials, credential(namespace, one));
    await addCredential(cluster.client, namespace, two);
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('SecretNotFound');
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 's3cret' });
    await expect.poll(() => readyReason(cluster.client, namespace, two), soon).toBe('Published');
    await cluster.client.create(secrets, basicAuth(`${namespace}.${parseServer(one).name}`, 'alice', 'late'));
    await expect.poll(() => at(namespace), soon).toMatchObject({ 'one.example.com': 'late' });
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('Published');
  });

  test('a Secret that is malformed is SecretInvalid, and its registry is taken out', async () => {
    const namespace = await newNamespace(cluster.client);
    const { spec } = await addCredential(cluster.client, namespace, one);
    await addCredential(cluster.client, namespace, two);
    await expect.poll(async () => Object.keys((await at(namespace)) ?? {}).length, soon).toBe(3);
    const { name } = spec.secretRef;
    await cluster.client.patch(
      secrets,
      { name, namespace: namespaces.credentials },
      { type: 'merge', body: { data: { password: btoa('with a line break\n') } } },
    );
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('SecretInvalid');
    await expect.poll(() => at(namespace), soon).toEqual({ 'two.example.com:5000': 's3cret' });
    await cluster.client.delete(secrets, { name, namespace: namespaces.credentials });
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('SecretNotFound');
  });

  test('a transition is told in an event with the reason of the condition', async () => {
    const namespace = await newNamespace(cluster.client);
    await cluster.client.create(registryCredentials, credential(namespace, one));
    await expect
      .poll(
        async () => (await cluster.client.list(events, { namespace })).items.map(({ reason }) => reason),
        soon,
      )
      .toEqual(['SecretNotFound']);
    await cluster.client.create(secrets, basicAuth(`${namespace}.${parseServer(one).name}`, 'alice', 'late'));
    await expect
      .poll(
        async () => (await cluster.client.list(events, { namespace })).items.map(({ reason }) => reason),
        soon,
      )
      .toEqual(
        expect.toSatisfy((reasons: string[]) => reasons.length === 2 && reasons.includes('Published')),
      );
  });
});

describe('the basic-auth Secret that svc3 made', () => {
  const basicAuthOf = async (name: string) =>
    (await cluster.client.list(secrets, { namespace: namespaces.credentials })).items.some(
      ({ metadata }) => metadata.name === name,
    );

  test('goes with its credential', async () => {
    const namespace = await newNamespace(cluster.client);
    const wanted = credential(namespace, one);
    const { name } = wanted.spec.secretRef;
    await cluster.client.create(secrets, basicAuth(name, 'alice', 's3cret', true));
    await cluster.client.create(registryCredentials, wanted);
    await expect
      .poll(async () => (await findCredential(cluster.client, namespace, one))?.metadata.finalizers, soon)
      .toEqual([finalizer]);
    await expect.poll(() => at(namespace), soon).toBeDefined();
    await cluster.client.delete(registryCredentials, { name: wanted.metadata.name ?? '', namespace });
    await expect.poll(() => findCredential(cluster.client, namespace, one), soon).toBeUndefined();
    expect(await basicAuthOf(name)).toBe(false);
    expect(await at(namespace)).toBeUndefined();
  });

  test('goes with its credential also when that was pointed at another Secret', async () => {
    const namespace = await newNamespace(cluster.client);
    await storeCredential(cluster.client, namespace, { server: one, username: 'alice', password: 's3cret' });
    const { metadata, spec } = credential(namespace, one);
    await expect.poll(() => at(namespace), soon).toBeDefined();
    const own = `${namespace}-own`;
    await cluster.client.create(secrets, basicAuth(own, 'alice', 'other'));
    await cluster.client.patch(
      registryCredentials,
      { name: metadata.name ?? '', namespace },
      { type: 'merge', body: { spec: { secretRef: { name: own } } } },
    );
    await expect.poll(() => at(namespace), soon).toMatchObject({ 'one.example.com': 'other' });
    await cluster.client.delete(registryCredentials, { name: metadata.name ?? '', namespace });
    await expect.poll(() => findCredential(cluster.client, namespace, one), soon).toBeUndefined();
    expect([await basicAuthOf(spec.secretRef.name), await basicAuthOf(own)]).toEqual([false, true]);
  });

  test('stays while another credential names it', async () => {
    const [mine, other] = [await newNamespace(cluster.client), await newNamespace(cluster.client)];
    const wanted = credential(mine, one);
    const { secretRef } = wanted.spec;
    await cluster.client.create(secrets, basicAuth(secretRef.name, 'alice', 's3cret', true));
    await cluster.client.create(registryCredentials, {
      ...wanted,
      metadata: { ...wanted.metadata, finalizers: [finalizer] },
    });
    await cluster.client.create(registryCredentials, credential(other, one, { secretRef }));
    await expect.poll(() => at(other), soon).toBeDefined();
    await cluster.client.delete(registryCredentials, { name: wanted.metadata.name ?? '', namespace: mine });
    await expect.poll(() => findCredential(cluster.client, mine, one), soon).toBeUndefined();
    expect(await basicAuthOf(secretRef.name)).toBe(true);
    expect(await at(other)).toBeDefined();
  });

  test('that an administrator made stays, and its credential has no finalizer', async () => {
    const namespace = await newNamespace(cluster.client);
    const { metadata, spec } = await addCredential(cluster.client, namespace, one);
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('Published');
    expect((await findCredential(cluster.client, namespace, one))?.metadata.finalizers).toBeUndefined();
    await cluster.client.delete(registryCredentials, { name: metadata.name ?? '', namespace });
    await expect.poll(() => at(namespace), soon).toBeUndefined();
    expect(await basicAuthOf(spec.secretRef.name)).toBe(true);
  });

  test('that an administrator made stays also with the finalizer that a tool has set', async () => {
    const namespace = await newNamespace(cluster.client);
    const wanted = credential(namespace, one);
    await cluster.client.create(secrets, basicAuth(wanted.spec.secretRef.name, 'alice', 's3cret'));
    await cluster.client.create(registryCredentials, {
      ...wanted,
      metadata: { ...wanted.metadata, finalizers: [finalizer] },
    });
    await expect.poll(() => at(namespace), soon).toBeDefined();
    await cluster.client.delete(registryCredentials, { name: wanted.metadata.name ?? '', namespace });
    await expect.poll(() => findCredential(cluster.client, namespace, one), soon).toBeUndefined();
    expect(await basicAuthOf(wanted.spec.secretRef.name)).toBe(true);
  });
});

describe('insecure registries', () => {
  const allowed = async () => {
    const { items } = await cluster.client.list(configMaps, {
      namespace: namespaces.node,
      fieldSelector: `metadata.name=${objectNames.insecureRegistries}`,
    });
    return items[0]?.data?.['servers'] ?? '';
  };

  test('reach the nodes where the chart allows them, and are taken back with the credential', async () => {
    const namespace = await newNamespace(cluster.client);
    const [plain, unverified, foreign] = [
      'http://plain.lab.example.com:5000',
      'https://tls.lab.example.com',
      'http://plain.example.org',
    ];
    await addCredential(cluster.client, namespace, plain);
    await cluster.client.apply(secrets, basicAuth(`${namespace}-tls`, 'alice', 's3cret'));
    await cluster.client.apply(
      registryCredentials,
      credential(namespace, unverified, { allowInsecure: true, secretRef: { name: `${namespace}-tls` } }),
    );
    await addCredential(cluster.client, namespace, foreign);
    await expect.poll(allowed, soon).toBe(`${plain}\n${unverified}`);
    await expect.poll(() => readyReason(cluster.client, namespace, plain), soon).toBe('Published');
    await expect.poll(() => readyReason(cluster.client, namespace, foreign), soon).toBe('PublishedSecure');
    await cluster.client.delete(registryCredentials, { name: parseServer(plain).name, namespace });
    await expect.poll(allowed, soon).toBe(unverified);
    await cluster.client.delete(registryCredentials, { name: parseServer(unverified).name, namespace });
    await expect.poll(allowed, soon).toBe('');
  });

  test('are put right when somebody else writes them', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, 'http://own.lab.example.com');
    await expect.poll(allowed, soon).toBe('http://own.lab.example.com');
    await cluster.client.patch(
      configMaps,
      { name: objectNames.insecureRegistries, namespace: namespaces.node },
      { type: 'merge', body: { data: { servers: 'http://evil.example.org' } } },
      { fieldManager: 'kubectl-edit' },
    );
    await expect.poll(allowed, soon).toBe('http://own.lab.example.com');
    await cluster.client.delete(configMaps, {
      name: objectNames.insecureRegistries,
      namespace: namespaces.node,
    });
    await expect.poll(allowed, soon).toBe('http://own.lab.example.com');
  });
});
