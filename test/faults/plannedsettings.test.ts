/** A VM that waits for its place was shown with the defaults, whatever its configuration said. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { vmConfigs } from '../../src/api/resources.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { ensureTools } from '../support/controlplane.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

const run = promisify(execFile);
const { svc3 } = inProcess();

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator | undefined;
let api: TestApi;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('planned');
  await world.kubelet.addNode({ name: 'small', allocatable: { cpu: '2', memory: '4Gi', pods: '10' } });
  await world.client.create(vmConfigs, {
    metadata: { name: 'large', namespace: space.name },
    spec: { image: 'registry.example.com/debian:12', cpu: 7, memory: '5Gi', vncConsole: 'Disabled' },
  });
  api = await startTestApi(world.client);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await world?.stop();
});

const settings = { cpu: 7, memory: '5.00Gi', image: 'registry.example.com/debian:12', vncConsole: false };
const row = async () => {
  const path = `/api/v1/namespaces/${space.name}/vms`;
  const { json } = await api.call('GET', path, { token: world.controlPlane.adminToken });
  return json.items.find(({ name }: { name: string }) => name === 'waits');
};

test('a VM that no operator has seen has the settings of its configuration', async () => {
  const spec = { config: 'large' };
  await world.client.request({
    method: 'POST',
    path: `/apis/svc3.dev/v1/namespaces/${space.name}/vms`,
    body: { apiVersion: 'svc3.dev/v1', kind: 'VM', metadata: { name: 'waits' }, spec },
  });
  await expect.poll(row, slow).toMatchObject({ ...settings, status: 'Pending' });
});

test('one that waits for a node has them everywhere, as they are now', async () => {
  operator = await startVmOperator(world.client);
  await space.until('waits', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
  expect((await space.vm('waits')).status?.effective).toBeUndefined();
  await expect.poll(row, slow).toMatchObject(settings);
  const kubectl = (await ensureTools('controlplane')).path('kubectl');
  const wide = async () => {
    const words = ['--kubeconfig', world.controlPlane.kubeconfigPath, '-n', space.name];
    return (await run(kubectl, [...words, 'get', 'vm', 'waits', '-o', 'wide'])).stdout;
  };
  expect(await wide()).toMatch(/ 7 +5Gi +Disabled +.*registry\.example\.com\/debian:12/);
  const env = { KUBECONFIG: world.controlPlane.kubeconfigPath };
  const { stdout } = await svc3(['vm', 'get', 'waits', '-n', space.name, '-o', 'json'], { env });
  expect(JSON.parse(stdout)).toMatchObject(settings);
  const key = { name: 'large', namespace: space.name };
  await world.client.patch(vmConfigs, key, { type: 'merge', body: { spec: { cpu: 9 } } });
  await expect.poll(row, slow).toMatchObject({ cpu: 9 });
  await expect.poll(wide, slow).toMatch(/ 9 +5Gi /);
});

test('one that is placed has what is frozen, and nothing planned', async () => {
  const key = { name: 'large', namespace: space.name };
  await world.client.patch(vmConfigs, key, { type: 'merge', body: { spec: { cpu: 1, memory: '1Gi' } } });
  await space.untilReady('waits');
  const { status } = await space.vm('waits');
  expect(status).toMatchObject({ effective: { cpu: 1, memory: '1Gi' } });
  expect(status?.planned).toBeUndefined();
  await expect.poll(row, slow).toMatchObject({ cpu: 1, memory: '1.00Gi' });
});
