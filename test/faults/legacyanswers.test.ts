import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { annotations } from '../../src/api/meta.ts';
import { vmConfigs, vms } from '../../src/api/resources.ts';
import type { Vm, VmStatus } from '../../src/api/vm.ts';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { startTestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

/**
 * Clients of 2.4.x go on when they are answered. Where `/api/v1` says 202, since the work takes longer than the process has, they were told that
 * it was done.
 */
let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'legacyanswers');
  await cluster.client.create(vmConfigs, {
    metadata: { name: 'config', namespace },
    spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi' },
  });
});

afterAll(async () => {
  const { items } = await cluster.client.list(vms, { namespace });
  for (const { metadata } of items) await letGo(metadata.name);
});

async function letGo(name: string): Promise<void> {
  const body = { metadata: { finalizers: null } };
  await cluster.client.patch(vms, { name, namespace }, { type: 'merge', body });
}

const conditionOf = (type: string, status: 'True' | 'False', reason: string, message = '') => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: '2026-11-01T10:00:00Z',
});

/** A VM that runs, and that nobody looks after. */
async function aVm(name: string, virtualMachineName = name): Promise<void> {
  await cluster.client.create(vms, {
    metadata: {
      name,
      namespace,
      finalizers: ['example.com/held'],
      annotations: { [annotations.virtualMachineName]: virtualMachineName },
    },
    spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi' } as Vm['spec'],
  });
  await say(name, { powerState: 'Running', conditions: [conditionOf('Booted', 'True', 'Booted')] });
}

async function say(name: string, status: VmStatus): Promise<void> {
  const patch = { type: 'merge', body: { status } } as const;
  await cluster.client.patch(vms, { name, namespace }, patch, { subresource: 'status' });
}

async function anApi() {
  const api = await startTestApi(cluster.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
  let isClosed = false;
  const close = async () => {
    if (!isClosed) await api.close();
    isClosed = true;
  };
  onTestFinished(close);
  const headers = { 'x-svc3-namespace': namespace };
  const ask = (method: string, path: string, body: object) =>
    api.call(method, path, { token: cluster.adminToken, headers, body });
  return { ask, close };
}

const vmNow = async (name: string): Promise<Vm | undefined> =>
  (await cluster.client.list(vms, { namespace })).items.find(({ metadata }) => metadata.name === name);

test.each(['stop', 'suspend'] as const)(
  'exec/%s says that it is not done where the api ends before it is',
  async (command) => {
    const name = `exec-${command}`;
    await aVm(name);
    const { ask, close } = await anApi();
    const answer = ask('POST', `/resources/vm/exec/${command}`, { svc_vm_name: name });
    await expect.poll(async () => (await vmNow(name))?.spec.powerState).not.toBe('Running');
    await close();
    const message = `${command} of ${name} is not done yet and goes on; GET /resources/vm/status/${name} tells`;
    expect(await answer).toMatchObject({ status: 504, json: { errors: [{ message }] } });
  },
);

test('deploy says that the VM does not run where the api ends before it does', async () => {
  const { ask, close } = await anApi();
  const answer = ask('POST', '/resources/vm/deploy', { svc_vm_name: 'config' });
  await expect.poll(() => vmNow('config')).toBeDefined();
  await close();
  const message = 'VM config was created and does not run yet; GET /resources/vm/status/config tells';
  expect(await answer).toMatchObject({ status: 504, json: { errors: [{ message }] } });
});

test.each([
  ['delete', 'held'],
  ['purge', 'held-too'],
])('vm/%s says what the deletion waits for', async (row, name) => {
  await aVm(name);
  const { ask } = await anApi();
  const answer = ask('DELETE', `/resources/vm/${row}`, { svc_vm_name: name });
  await expect.poll(async () => (await vmNow(name))?.metadata.deletionTimestamp).toBeDefined();
  const message = 'it waits until image saved is saved';
  await say(name, { conditions: [conditionOf('Ready', 'False', 'Terminating', message)] });
  const said = `deletion of VM ${name} has begun: ${message}; GET /resources/vm/status/${name} tells`;
  expect(await answer).toMatchObject({ status: 504, json: { errors: [{ message: said }] } });
});

test('purge deletes every VM of the name and its configuration before it says what one of them waits for', async () => {
  const names = ['fleet-1', 'fleet-2', 'fleet-3'];
  for (const name of names) await aVm(name, 'fleet');
  const spec = { image: 'registry.example.com/debian:12' };
  await cluster.client.create(vmConfigs, { metadata: { name: 'fleet', namespace }, spec });
  const { ask } = await anApi();
  const answer = ask('DELETE', '/resources/vm/purge', { svc_vm_name: 'fleet' });
  const deleted = async () => {
    const seen = await Promise.all(names.map(vmNow));
    return seen.filter((vm) => vm?.metadata.deletionTimestamp !== undefined).length;
  };
  await expect.poll(deleted).toBe(names.length);
  const message = 'it waits until image saved is saved';
  await say('fleet-1', { conditions: [conditionOf('Ready', 'False', 'Terminating', message)] });
  for (const name of names.slice(1)) await letGo(name);
  const said = `deletion of VM fleet-1 has begun: ${message}; GET /resources/vm/status/fleet-1 tells`;
  expect(await answer).toMatchObject({ status: 504, json: { errors: [{ message: said }] } });
  const { items } = await cluster.client.list(vmConfigs, { namespace });
  expect(items.map(({ metadata }) => metadata.name)).not.toContain('fleet');
});
