/** What a VM uses, as `/api/v1` tells it; what a runner says of a guest: test/integration/runner/metrics.test.ts. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { VmStatus } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { reportVm, runningStatus, runningVm, startTestApi, type TestApi } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { aUsage } from '../../support/vmusage.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'usage');
  api = await startTestApi(cluster.client, {
    usages: {
      of: ({ metadata: { name } }) =>
        name === 'old'
          ? Promise.reject(new Svc3Error('NotImplemented', `the runner of VM ${name} is old`))
          : Promise.resolve(aUsage(60)),
    },
  });
});

afterAll(() => api?.close());

const usageOf = (name: string, token = cluster.adminToken) =>
  api.call('GET', `/api/v1/namespaces/${namespace}/vms/${name}/usage`, { token });

test('of a VM that runs is told to who may get it, and to nobody else', async () => {
  await runningVm(api, namespace, 'web');
  const { status, json } = await usageOf('web');
  expect([status, json]).toEqual([200, aUsage(60)]);
  const unbound = await identity(cluster.client, 'nobody', { namespace, clusterRole: 'system:discovery' });
  expect((await usageOf('web', unbound)).status).toBe(403);
  expect((await usageOf('missing', unbound)).status).toBe(403);
  expect((await usageOf('missing')).status).toBe(404);
});

test.each<[string, VmStatus]>([
  ['Stopped', { ...runningStatus, powerState: 'Stopped' }],
  ['Suspended', { ...runningStatus, powerState: 'Suspended' }],
  ['Pending', { conditions: [] }],
])('of a VM that is %s is refused with that', async (state, status) => {
  const name = state.toLowerCase();
  const { client, caches } = api.services;
  const vm = await reportVm(client, await runningVm(api, namespace, name), status);
  await caches.vms.changes.until(
    { name, namespace },
    (cached) => cached?.metadata.resourceVersion === vm.metadata.resourceVersion,
    AbortSignal.timeout(60_000),
  );
  const message = `VM ${name} is ${state}, figures of what it uses need it to be Running`;
  expect(await usageOf(name)).toMatchObject({ status: 409, json: { kind: 'Status', message } });
});

test('of a VM whose runner is of the version before is refused', async () => {
  await runningVm(api, namespace, 'old');
  const { status, json } = await usageOf('old');
  expect([status, json.message]).toEqual([501, 'the runner of VM old is old']);
});
