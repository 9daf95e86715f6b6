import { once } from 'node:events';
import { PassThrough, type Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { serviceAccounts } from '../../src/api/resources.ts';
import { runningVm, startTestApi, type TestApi, untilAllowed } from '../support/api.ts';
import { identity, tokenOf } from '../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
const poll = { interval: 25 };
const role = 'cluster-admin';

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'deleted');
  const runner = (): Promise<Duplex> => Promise.resolve(new PassThrough());
  // Nothing that is looked at from time to time: what happens here happens because the account is watched.
  api = await startTestApi(
    cluster.client,
    { runners: { openVnc: runner, openSerial: runner, openTunnel: runner } },
    { confirmEveryMs: 600_000 },
  );
  await runningVm(api, namespace, 'guest');
});

afterAll(() => api?.close());

const ns = (path: string) => `/api/v1/namespaces/${namespace}/${path}`;
const remove = (name: string) => cluster.client.delete(serviceAccounts, { name, namespace });

async function status(method: string, path: string, token: string, body?: object): Promise<number> {
  return (await api.call(method, ns(path), { token, ...(body === undefined ? {} : { body }) })).status;
}

/** The account is gone from the api's cache: a moment after it is from kube-apiserver. */
async function unknownToApi(uid: string): Promise<void> {
  await expect.poll(() => api.services.caches.accounts.has(uid), poll).toBe(false);
}

async function uidOf(name: string): Promise<string> {
  return (await cluster.client.get(serviceAccounts, name, namespace)).metadata.uid ?? '';
}

describe('the token of an account that is deleted', () => {
  test('is refused by the next request, whatever was decided for it before', async () => {
    const token = await identity(cluster.client, 'leaver', { namespace, role });
    await expect.poll(() => status('GET', 'vms', token), poll).toBe(200);
    expect(await status('POST', 'vmconfigs', token, { name: 'before', image: 'r.example.com/a:1' })).toBe(
      201,
    );
    const uid = await uidOf('leaver');
    await remove('leaver');
    await unknownToApi(uid);
    expect(await status('GET', 'vms', token)).toBe(401);
    expect(await status('POST', 'vmconfigs', token, { name: 'after', image: 'r.example.com/a:1' })).toBe(401);
    expect(await status('DELETE', 'vmconfigs/before', token)).toBe(401);
  });

  test('does not come back with a new account of the same name, whose token is good', async () => {
    const old = await identity(cluster.client, 'returner', { namespace, role });
    await expect.poll(() => status('GET', 'vms', old), poll).toBe(200);
    const uid = await uidOf('returner');
    await remove('returner');
    await unknownToApi(uid);
    await cluster.client.create(serviceAccounts, { metadata: { name: 'returner', namespace } });
    const token = await tokenOf(cluster.client, namespace, 'returner');
    await expect.poll(() => status('GET', 'vms', token), poll).toBe(200);
    expect(await status('GET', 'vms', old)).toBe(401);
  });

  test('nobody here has met before is refused too, though kube-apiserver remembers it for 10 s', async () => {
    const token = await identity(cluster.client, 'elsewhere', { namespace, role });
    // Known to kube-apiserver, not to the api.
    await untilAllowed(cluster.client, token, namespace);
    const uid = await uidOf('elsewhere');
    await remove('elsewhere');
    await unknownToApi(uid);
    expect(await status('GET', 'vms', token)).toBe(401);
  });
});

test.each(['tunnel', 'console/stream'])('an open %s ends with its account', async (stream) => {
  const name = `holder-${stream.length}`;
  const token = await identity(cluster.client, name, { namespace, role });
  await expect.poll(() => status('GET', 'vms', token), poll).toBe(200);
  const socket = new WebSocket(`wss://localhost:${api.port}${ns(`vms/guest/${stream}`)}`, {
    ca: api.tls.cert,
    headers: { authorization: `Bearer ${token}` },
  });
  onTestFinished(() => socket.terminate());
  await once(socket, 'open');
  const closed = once(socket, 'close') as Promise<[number, Buffer]>;
  await remove(name);
  const [code, reason] = await closed;
  expect([code, reason.toString()]).toEqual([1008, 'Unauthorized: the account was deleted']);
});
