import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { namespaces, objectNames } from '../../../src/api/meta.ts';
import { secrets } from '../../../src/api/resources.ts';
import { createClient } from '../../../src/kube/client.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { type OwnControlPlane, ownControlPlane } from '../../support/controlplane.ts';
import { withFaults } from '../../support/faultclient.ts';
import { isWatch, startFaultProxy, type FaultProxy } from '../../support/faultproxy.ts';
import {
  addCredential,
  credentialCluster,
  newNamespace,
  published,
  readyReason,
  startOperator,
  type CredentialCluster,
  type TestOperator,
} from './harness.ts';

const [one, two] = ['https://one.example.com:1', 'https://two.example.com:2'];
const soon = { interval: 20 };

let own: OwnControlPlane;
let cluster: CredentialCluster;
const operators: TestOperator[] = [];

beforeAll(async () => {
  own = await ownControlPlane();
  cluster = await credentialCluster(own);
});

afterAll(() => cluster?.remove());

afterEach(async () => {
  await Promise.all(operators.splice(0).map((operator) => operator.stop()));
});

async function start(client: KubeClient): Promise<TestOperator> {
  const operator = await startOperator(client);
  operators.push(operator);
  return operator;
}

const at = (namespace: string) => published(cluster.client, namespace);

describe('watches that break', () => {
  let proxy: FaultProxy;
  let proxied: ReturnType<typeof createClient>;

  beforeAll(async () => {
    const { server, caPem, adminToken } = cluster.controlPlane;
    proxy = await startFaultProxy({ server, caPem });
    proxied = createClient({
      server: proxy.server,
      ca: { pem: proxy.caPem },
      auth: { kind: 'token', token: adminToken },
    });
  });

  afterAll(async () => {
    await proxied?.close();
    await proxy?.close();
  });

  const basicAuthPath = `/api/v1/namespaces/${namespaces.credentials}/secrets`;

  test('between a credential and its Secret: the Secret is found all the same, and a rotation when it is back', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, one, 'first');
    await start(proxied);
    await expect.poll(() => at(namespace), soon).toEqual({ 'one.example.com:1': 'first' });
    const mend = proxy.inject((request) => isWatch(request) && request.path === basicAuthPath, {
      kind: 'hang',
    });
    proxy.cutAll();
    await addCredential(cluster.client, namespace, two, 'unseen');
    await expect
      .poll(() => at(namespace), soon)
      .toEqual({ 'one.example.com:1': 'first', 'two.example.com:2': 'unseen' });
    await expect.poll(() => readyReason(cluster.client, namespace, two), soon).toBe('Published');
    await addCredential(cluster.client, namespace, one, 'second');
    mend();
    proxy.cutAll();
    await expect
      .poll(() => at(namespace), soon)
      .toEqual({ 'one.example.com:1': 'second', 'two.example.com:2': 'unseen' });
  });

  test('on the pull Secrets: what was done by hand meanwhile is put right when it is back', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, one);
    await start(proxied);
    await expect.poll(() => at(namespace), soon).toBeDefined();
    const mend = proxy.inject(
      (request) =>
        isWatch(request) && request.query.get('fieldSelector')?.includes(objectNames.pullSecret) === true,
      { kind: 'hang' },
    );
    proxy.cutAll();
    await cluster.client.delete(secrets, { name: objectNames.pullSecret, namespace });
    mend();
    proxy.cutAll();
    await expect.poll(() => at(namespace), soon).toEqual({ 'one.example.com:1': 's3cret' });
  });
});

describe('kube-apiserver', () => {
  test('that is started anew finds the operator going on, and not writing what is there already', async () => {
    const namespace = await newNamespace(cluster.client);
    await addCredential(cluster.client, namespace, one, 'before');
    const counted = withFaults(cluster.client, () => 'none');
    const operator = await start(counted.client);
    await expect.poll(() => readyReason(cluster.client, namespace, one), soon).toBe('Published');
    await expect.poll(() => operator.pending(), soon).toBe(0);
    const before = counted.writes.length;
    await own.stopApiServer();
    await own.startApiServer();
    await addCredential(cluster.client, namespace, one, 'after');
    await expect
      .poll(() => at(namespace), { ...soon, timeout: 50_000 })
      .toEqual({ 'one.example.com:1': 'after' });
    await expect.poll(() => operator.pending(), soon).toBe(0);
    expect(counted.writes.slice(before).map(({ plural }) => plural)).toEqual(['secrets']);
  });
});
