import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { roleBindings, serviceAccounts } from '../../../src/api/resources.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { unprovenConnections } from '../../../src/kube/identities.ts';
import { startTestApi, type Answer, type TestApi } from '../../support/api.ts';
import { tokenOf } from '../../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;
let client: RootClient;
let api: TestApi;
let namespace: string;
let editor: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'outsiders');
  // Every account of the namespace has the right as soon as it exists.
  await cluster.client.create(roleBindings, {
    metadata: { name: 'all', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [
      {
        kind: 'Group',
        apiGroup: 'rbac.authorization.k8s.io',
        name: `system:serviceaccounts:${namespace}`,
      },
    ],
  });
  editor = await accountToken('editor');
  client = createClient(cluster.connection);
  api = await startTestApi(client);
  await vi.waitFor(async () => expect((await create(editor, 'ready')).status).toBe(201), { timeout: 60_000 });
});

afterAll(async () => {
  await api?.close();
  await client?.close();
});

const configs = () => `/api/v1/namespaces/${namespace}/vmconfigs`;

async function accountToken(name: string): Promise<string> {
  await cluster.client.create(serviceAccounts, { metadata: { name, namespace } });
  return tokenOf(cluster.client, namespace, name);
}

function create(token: string, name: string): Promise<Answer> {
  return api.call('POST', configs(), { token, body: { name, image: 'registry.example.com/team/debian:12' } });
}

function numbered(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

/** A different token each time: none of the refusals is remembered. */
async function outsidersCall(prefix: string): Promise<Set<number>> {
  const answers = await Promise.all(
    numbered(200).map((index) => create(`nobody-issued-${prefix}-${index}`, `${prefix}-${index}`)),
  );
  return new Set(answers.map(({ status }) => status));
}

/** Those whose turn does not come soon are told to come again. */
function expectRefused(statuses: Set<number>): void {
  expect(statuses).toContain(401);
  expect([...statuses].filter((status) => status !== 401 && status !== 429)).toEqual([]);
}

/** What went wrong, each thing once. */
function failures(answers: readonly Answer[], expected: number): string[] {
  return [...new Set(answers.filter(({ status }) => status !== expected).map(({ text }) => text))];
}

describe('200 outsiders at once', () => {
  test('are refused, and no call of somebody who is known fails', async () => {
    const refused = outsidersCall('outsider');
    const made = await Promise.all(numbered(60).map((index) => create(editor, `known-${index}`)));
    expect(failures(made, 201)).toEqual([]);
    expectRefused(await refused);
  });

  test('hurt nobody who comes for the first time, and take no more than a few connections', async () => {
    const tokens = await Promise.all(numbered(12).map((index) => accountToken(`new-${index}`)));
    // Who is not known yet as an account waits its turn with the outsiders.
    const { items } = await cluster.client.list(serviceAccounts, { namespace });
    await vi.waitFor(
      () =>
        expect(items.filter(({ metadata }) => !api.services.caches.accounts.has(metadata.uid))).toEqual([]),
      { timeout: 60_000 },
    );
    let most = 0;
    const watching = setInterval(() => (most = Math.max(most, client.connections().open)), 1);
    const refused = outsidersCall('other');
    const made = await Promise.all(tokens.map((token, index) => create(token, `first-${index}`)));
    expect(failures(made, 201)).toEqual([]);
    expectRefused(await refused);
    clearInterval(watching);
    // Ours, that of those who are known, and the outsiders'.
    expect(most).toBeLessThanOrEqual(2 + unprovenConnections);
  });
});

test('tokens that are no longer good hurt no other caller', async () => {
  const leaving = numbered(10).map((index) => `leaving-${index}`);
  const tokens = await Promise.all(leaving.map((name) => accountToken(name)));
  // Known as good: from now on their calls go where those of the others go.
  const made = await Promise.all(tokens.map((token, index) => create(token, `left-${index}`)));
  expect(failures(made, 201)).toEqual([]);
  await Promise.all(leaving.map((name) => cluster.client.delete(serviceAccounts, { name, namespace })));
  const dead = Promise.all(tokens.map((token, index) => create(token, `dead-${index}`)));
  const beside = await Promise.all(numbered(60).map((index) => create(editor, `beside-${index}`)));
  expect(failures(beside, 201)).toEqual([]);
  for (const { status } of await dead) expect([201, 401]).toContain(status);
});
