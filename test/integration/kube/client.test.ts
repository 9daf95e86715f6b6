import { beforeAll, describe, expect, test } from 'vitest';
import { configMaps, leases, namespaces, secrets, serviceAccounts, vms } from '../../../src/api/resources.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import type { Svc3Error } from '../../../src/errors.ts';
import { createClient } from '../../../src/kube/client.ts';
import { unprovenConnections } from '../../../src/kube/identities.ts';
import { tokenOf } from '../../support/identity.ts';
import { uniqueNamespace, testCluster } from '../../support/cluster.ts';
import type { TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'kube-client');
});

async function refusal(call: Promise<unknown>): Promise<Svc3Error> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isSvc3Error(error)) throw new Error(`expected a refusal, got ${String(error)}`);
  return error;
}

describe('objects', () => {
  test('are created, read, changed and deleted', async () => {
    const { client } = cluster;
    const created = await client.create(configMaps, {
      metadata: { name: 'life', namespace },
      data: { a: '1' },
    });
    expect(created.metadata.uid).toBeDefined();
    expect(created.metadata.managedFields).toEqual([
      expect.objectContaining({ manager: 'svc3', operation: 'Update' }),
    ]);
    await client.patch(
      configMaps,
      { name: 'life', namespace },
      { type: 'merge', body: { data: { b: '2' } } },
    );
    await client.patch(
      configMaps,
      { name: 'life', namespace },
      { type: 'json', body: [{ op: 'remove', path: '/data/a' }] },
    );
    const read = await client.get(configMaps, 'life', namespace);
    expect(read.data).toEqual({ b: '2' });
    await client.replace(configMaps, { ...read, data: { c: '3' } });
    expect((await client.get(configMaps, 'life', namespace)).data).toEqual({ c: '3' });
    await client.delete(configMaps, { name: 'life', namespace }, { uid: created.metadata.uid });
    expect((await refusal(client.get(configMaps, 'life', namespace))).reason).toBe('NotFound');
  });

  test('are applied as field manager svc3, and applying the same again changes nothing', async () => {
    const { client } = cluster;
    const object = { metadata: { name: 'applied', namespace }, data: { a: '1' } };
    const first = await client.apply(configMaps, object);
    const second = await client.apply(configMaps, object);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
    expect(second.metadata.managedFields).toEqual([
      expect.objectContaining({ manager: 'svc3', operation: 'Apply' }),
    ]);
  });

  test('with dryRun are checked but not written', async () => {
    const { client } = cluster;
    const key = { name: 'dry', namespace };
    await client.create(configMaps, { metadata: key }, { dryRun: true });
    expect((await refusal(client.get(configMaps, 'dry', namespace))).reason).toBe('NotFound');
    const { uid } = (await client.create(configMaps, { metadata: key })).metadata;
    await client.delete(configMaps, key, { uid, dryRun: true });
    expect((await client.get(configMaps, 'dry', namespace)).metadata.uid).toBe(uid);
    const other = client.delete(configMaps, key, { uid: 'another', dryRun: true });
    expect((await refusal(other)).reason).toBe('Conflict');
  });
});

describe('refusals keep the reason and the message of the server', () => {
  test('AlreadyExists, Conflict, Forbidden and Invalid with its fields', async () => {
    const { client } = cluster;
    const made = await client.create(configMaps, { metadata: { name: 'twice', namespace } });
    const exists = await refusal(client.create(configMaps, { metadata: { name: 'twice', namespace } }));
    expect([exists.reason, exists.status, exists.message]).toEqual([
      'AlreadyExists',
      409,
      'configmaps "twice" already exists',
    ]);

    await client.patch(
      configMaps,
      { name: 'twice', namespace },
      { type: 'merge', body: { data: { a: '1' } } },
    );
    expect((await refusal(client.replace(configMaps, { ...made, data: {} }))).reason).toBe('Conflict');
    expect(
      (await refusal(client.delete(configMaps, { name: 'twice', namespace }, { uid: 'another' }))).reason,
    ).toBe('Conflict');

    const invalid = await refusal(client.create(secrets, { metadata: { name: 'UPPER', namespace } }));
    expect(invalid.reason).toBe('Invalid');
    expect(invalid.details.causes).toEqual([
      expect.objectContaining({ field: 'metadata.name', reason: 'FieldValueInvalid' }),
    ]);
    expect(invalid.details.name).toBe('UPPER');

    const unknown = await refusal(
      client.create(vms, { metadata: { name: 'vm', namespace }, spec: { cpu: -1 } } as never),
    );
    expect(unknown.details.causes).toContainEqual(expect.objectContaining({ field: 'spec.cpu' }));
  });

  test('a token that nobody knows is Unauthorized, one without rights Forbidden', async () => {
    const { client } = cluster;
    expect((await refusal(client.withToken('nobody').get(namespaces, namespace))).reason).toBe(
      'Unauthorized',
    );
    await client.create(serviceAccounts, { metadata: { name: 'weak', namespace } });
    const token = await tokenOf(client, namespace, 'weak');
    const forbidden = await refusal(client.withToken(token).list(secrets, { namespace }));
    expect(forbidden.reason).toBe('Forbidden');
    expect(forbidden.message).toContain(`system:serviceaccount:${namespace}:weak`);
  });

  test('a server that is not there is ServiceUnavailable and named, one that cannot be trusted says so', async () => {
    const nobody = createClient({ server: 'https://127.0.0.1:1', auth: { kind: 'none' } });
    const gone = await refusal(nobody.request({ method: 'GET', path: '/version' }));
    expect(gone.reason).toBe('ServiceUnavailable');
    expect(gone.message).toContain('kube-apiserver 127.0.0.1:1 cannot be reached');
    await nobody.close();
    const outsider = createClient({ server: cluster.server, auth: { kind: 'none' } });
    const untrusted = await refusal(outsider.request({ method: 'GET', path: '/version' }));
    expect(untrusted.message).toContain('cannot be trusted');
    await outsider.close();
  });
});

test('warnings of the server reach the caller', async () => {
  const warnings: string[] = [];
  await cluster.client.request({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/configmaps`,
    query: { dryRun: 'All', fieldValidation: 'Warn' },
    body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'warned' }, one: 1, 'two, "quoted"': 2 },
    onWarning: (text) => warnings.push(text),
  });
  expect(warnings).toEqual(['unknown field "one"', String.raw`unknown field "two, \"quoted\""`]);
});

test('lists follow all pages and all calls share one connection', async () => {
  const client = createClient(cluster.connection);
  const own = await uniqueNamespace(cluster.client, 'pages');
  await Promise.all(
    Array.from({ length: 250 }, (_, index) =>
      client.create(configMaps, { metadata: { name: `c${index}`, namespace: own } }),
    ),
  );
  const { items, resourceVersion } = await client.list(configMaps, { namespace: own, pageSize: 20 });
  expect(new Set(items.map(({ metadata }) => metadata.name)).size).toBe(items.length);
  expect(items.length).toBeGreaterThanOrEqual(250);
  expect(Number(resourceVersion)).toBeGreaterThan(0);
  expect(client.connections()).toEqual({ open: 1, opened: 1 });
  await client.close();
});

test('a burst of refused tokens has a few connections, and none of them is the own one or one of proven callers', async () => {
  const client = createClient(cluster.connection);
  await client.get(namespaces, namespace);
  const bad = client.withToken('bad');
  const good = client.withToken(cluster.adminToken);
  await good.get(namespaces, namespace);
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, client.connections().open);
  }, 1);
  const answers = await Promise.all([
    ...Array.from({ length: 30 }, () => refusal(bad.get(namespaces, namespace)).then(({ reason }) => reason)),
    ...Array.from({ length: 30 }, () => good.get(namespaces, namespace).then(() => 'served')),
    ...Array.from({ length: 30 }, () => client.get(namespaces, namespace).then(() => 'served')),
  ]);
  clearInterval(timer);
  expect(answers.filter((answer) => answer === 'Unauthorized')).toHaveLength(30);
  expect(answers.filter((answer) => answer === 'served')).toHaveLength(60);
  expect(most).toBeLessThanOrEqual(2 + unprovenConnections);
  await client.close();
});

test('calls of a proven caller share one connection, alone or beside each other', async () => {
  const client = createClient(cluster.connection);
  const caller = client.withToken(cluster.adminToken);
  const look = () => caller.get(namespaces, namespace);
  await look();
  const first = client.connections();
  await look();
  await Promise.all(Array.from({ length: 20 }, look));
  await expect(caller.get(namespaces, 'is-not-there')).rejects.toThrow('not found');
  await look();
  expect([first, client.connections()].map(({ opened }) => opened)).toEqual([1, 2]);
  await client.close();
});

/** A token that the server accepts and this process has not met, of an account that may watch namespaces. */
async function newToken(): Promise<string> {
  const { client } = cluster;
  const account = { name: 'namespace-controller', namespace: 'kube-system' };
  await client.create(serviceAccounts, { metadata: account }).catch((error: unknown) => {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  });
  return tokenOf(client, account.namespace, account.name);
}

test('an outsider who watches keeps no proven caller waiting', async () => {
  const client = createClient(cluster.connection);
  const caller = client.withToken(cluster.adminToken);
  await caller.get(namespaces, namespace);
  const outsider = client.withToken(await newToken());
  const watching = await outsider.stream({
    method: 'GET',
    path: '/api/v1/namespaces',
    query: { watch: true, resourceVersion: '0' },
  });
  await expect(
    caller.request({ method: 'GET', path: `/api/v1/namespaces/${namespace}`, timeoutMs: 30_000 }),
  ).resolves.toMatchObject({ status: 200 });
  expect(client.connections().opened).toBe(2);
  watching.cancel();
  await client.close();
});

test('a guard stops writes and leaves reads alone', async () => {
  let open = false;
  const guarded = cluster.client.withGuard(() => {
    if (!open) throw new Error('closed');
  });
  const write = () =>
    guarded.apply(leases, { metadata: { name: 'guarded', namespace }, spec: { holderIdentity: 'a' } });
  await expect(write()).rejects.toThrow('closed');
  await expect(guarded.list(leases, { namespace })).resolves.toMatchObject({ items: [] });
  open = true;
  await expect(write()).resolves.toMatchObject({ spec: { holderIdentity: 'a' } });
});

test('an abort ends a call with the reason it was given', async () => {
  const reason = new Error('no longer needed');
  const controller = new AbortController();
  controller.abort(reason);
  await expect(cluster.client.list(configMaps, { signal: controller.signal })).rejects.toBe(reason);
});
