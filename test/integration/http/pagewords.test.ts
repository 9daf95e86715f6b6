/** That the page says what is so: no empty view for who lacks a right, nothing that goes unsaid, no way that leads nowhere. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, registryCredentials, vms } from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import type { VmSpec, VmStatus } from '../../../src/api/vm.ts';
import { condition, reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { startPageApi, type PageApi } from './pageharness.ts';

let it: PageApi;

beforeAll(async () => {
  it = await startPageApi('words');
});

afterAll(async () => {
  await it?.close();
});

const heading = (name: string) => ({ name, exact: true }) as const;

test('who lacks a right is told so, wherever a link leads', async () => {
  const { cluster, namespace } = it;
  await runningVm(it.api, namespace, 'unseen');
  const token = await identity(cluster.client, 'unbound', { namespace, clusterRole: 'system:discovery' });
  const { page, watched } = await it.visitAs(token);
  await page.getByText(`This is not for you in namespace ${namespace}`).waitFor();
  await expectGoodLooks(page);
  for (const [view, title] of [
    ['deploy', 'Deploy a VM'],
    ['pools', 'Pools'],
    ['images', 'Images'],
    ['isos', 'ISOs'],
    ['configs', 'Configurations'],
    ['nodes', 'Nodes'],
    ['credentials', 'Registry credentials'],
    ['accounts', 'Service accounts'],
  ]) {
    await page.evaluate(`location.hash = '#/${view}'`);
    await page.getByRole('heading', heading(title!)).waitFor();
    await page.getByText(`This is not for you in namespace ${namespace}`).waitFor();
    expect(await page.locator('main').getByRole('button').count()).toBe(0);
    expect(await page.getByText(/^There are no/).count()).toBe(0);
  }
  await page.evaluate(`location.hash = '#/vms/${namespace}/unseen'`);
  await page.getByText(`VMs of namespace ${namespace} are not for you`).waitFor();
  expect(watched.faults).toEqual([]);
});

test('who may list VMs and not read one is told why its conditions are not shown', async () => {
  const { client } = it.cluster;
  await runningVm(it.api, it.namespace, 'listed');
  const role = `${it.namespace}-lists`;
  const rules = [{ apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['list'] }];
  await client.create(clusterRoles, { metadata: { name: role }, rules });
  const token = await identity(client, 'lister', { namespace: it.namespace, role });
  const { page, watched } = await it.visitAs(token, `#/vms/${it.namespace}/listed`);
  await page.getByRole('alert').filter({ hasText: 'cannot get' }).first().waitFor();
  await page.getByText('Not known.').first().waitFor();
  expect(watched.faults).toEqual([]);
});

test('another namespace is chosen on the page of a VM as well, and a link still leads to its own', async () => {
  const other = await uniqueNamespace(it.cluster.client, 'words-other');
  await it.cluster.client.create(vms, {
    metadata: { name: 'elsewhere', namespace: other },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });
  await runningVm(it.api, it.namespace, 'here');
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/here`);
  const namespace = page.getByLabel('Namespace', { exact: true });
  await page.getByRole('button', { name: 'Delete …' }).waitFor();
  await namespace.selectOption(other);
  await page.getByRole('link', { name: 'elsewhere', exact: true }).waitFor();
  expect(await namespace.inputValue()).toBe(other);
  await page.evaluate(`location.hash = '#/vms/${it.namespace}/here'`);
  await page.getByRole('button', { name: 'Delete …' }).waitFor();
  expect(await namespace.inputValue()).toBe(it.namespace);
  expect(watched.faults).toEqual([]);
});

test('where all namespaces are shown, new things go to the usual one', async () => {
  // The first of all by its name.
  const first = await uniqueNamespace(it.cluster.client, 'aaa');
  await runningVm(it.api, first, 'first');
  const { page, watched } = await it.visitAs(it.cluster.adminToken);
  await page.getByLabel('Namespace', { exact: true }).selectOption('');
  await page.getByRole('link', { name: 'first', exact: true }).waitFor();
  await page.getByRole('link', { name: 'Deploy a VM' }).click();
  await page.getByRole('heading', heading(`Deploy a VM in ${it.namespace}`)).waitFor();
  expect(watched.faults).toEqual([]);
});

test('the address of svc3 ui signs in where the page is open already, and leaves no code behind', async () => {
  const { json } = await it.api.call('POST', '/ui/code', { token: it.cluster.adminToken, body: {} });
  const { page, watched } = await it.visit();
  await page.getByLabel('Token').waitFor();
  await page.goto(`${it.api.baseUrl}${json.page}`);
  await page.getByRole('heading', { name: 'VMs' }).waitFor();
  expect(page.url()).toBe(`${it.api.baseUrl}/ui`);
  expect(watched.faults).toEqual([]);
});

test('before the server has said what there is, nothing is said to be missing', async () => {
  const { page } = await it.visit();
  await page.route('**/ui/live**', (route) => route.abort());
  await page.getByLabel('Token').fill(it.cluster.adminToken);
  await page.keyboard.press('Enter');
  await page.getByText('The connection was lost').waitFor();
  expect(await page.locator('main').innerText()).toContain('Loading …');
  expect(await page.getByText('There are no VMs here.').count()).toBe(0);
  await page.unrouteAll({ behavior: 'wait' });
});

test('a form that cannot be made says why, and is there at the next look', async () => {
  const { page } = await it.visitAs(it.cluster.adminToken);
  await page.route('**/api/v1/openapi.json', (route) => route.abort());
  await page.getByRole('link', { name: 'Deploy a VM' }).click();
  await page.getByRole('alert').filter({ hasText: 'the server does not answer' }).waitFor();
  await page.unroute('**/api/v1/openapi.json');
  await page.getByRole('link', { name: 'VMs', exact: true }).click();
  await page.getByRole('link', { name: 'Deploy a VM' }).click();
  await page.getByLabel('Name', { exact: true }).waitFor();
});

test('how a disk is grown is said, and a save needs no mouse', async () => {
  await runningVm(it.api, it.namespace, 'typed');
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/typed`);
  await page.getByRole('button', { name: 'Save …' }).click();
  await page.getByLabel('Name of the image').fill('Not a name');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('alert').waitFor();
  await page.getByLabel('Name of the image').fill('by-key');
  await page.keyboard.press('Enter');
  await page.getByText('The disk is being saved as image by-key.').waitFor();
  expect((await it.cluster.client.get(images, 'by-key', it.namespace)).spec.source.vm?.name).toBe('typed');
  await page.getByText(`svc3 vm resize typed GIB -n ${it.namespace}`).waitFor();
  expect(watched.faults).toEqual([]);
});

test('a disk that stays is named after its VM is gone', async () => {
  const { client } = it.cluster;
  const vm = await client.create(vms, {
    metadata: { name: 'kept', namespace: it.namespace },
    spec: {
      image: 'registry.example.com/team/debian:12',
      powerState: 'Running',
      disk: { storage: 'Persistent', claimName: 'data-of-kept' },
    },
  });
  await reportVm(client, vm, runningStatus);
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/kept`);
  await page.getByRole('button', { name: 'Delete …' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('There is no VM kept').waitFor();
  await page.getByText('stays in PersistentVolumeClaim data-of-kept').waitFor();
  await expectGoodLooks(page);
  expect(watched.faults).toEqual([]);
});

describe('before a VM is deleted', () => {
  const checkbox = { name: 'Delete the disk that it boots from' } as const;
  /** What its dialog says. */
  const dialogOf = async (name: string, spec: Partial<VmSpec>, status: VmStatus) => {
    const vm = await it.aVm(name, spec);
    await reportVm(it.cluster.client, vm, { ...runningStatus, ...status });
    const { page } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/${name}`);
    await page.getByRole('button', { name: 'Delete …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('gone for good').waitFor();
    await expectGoodLooks(page);
    return dialog;
  };

  test('it is said that a Persistent disk stays, and that may be otherwise', async () => {
    const dialog = await dialogOf('stays', { disk: { storage: 'Persistent' } }, {});
    await dialog.getByText('A Persistent disk stays').waitFor();
    await dialog.getByText('The guest shuts down').waitFor();
    expect(await dialog.getByRole('checkbox', checkbox).count()).toBe(1);
  });

  test('the disks that go with it are named', async () => {
    const dialog = await dialogOf(
      'goes',
      {
        disk: { storage: 'Persistent', whenDeleted: 'Delete' },
        disks: [{ name: 'logs', size: '1Gi', whenDeleted: 'Delete' }],
      },
      {},
    );
    await dialog.getByText('the disk that it boots from and data disk logs').waitFor();
    expect(await dialog.getByText('A Persistent disk stays').count()).toBe(0);
    expect(await dialog.getByRole('checkbox').count()).toBe(0);
  });

  test('it is said that a guest whose memory is on its disk does not shut down', async () => {
    const dialog = await dialogOf(
      'asleep',
      { disk: { storage: 'Persistent' }, powerState: 'Suspended', suspendTo: 'Disk' },
      { powerState: 'Suspended', suspendedTo: 'Disk' },
    );
    await dialog.getByText('does not shut down before').waitFor();
    expect(await dialog.getByText('The guest shuts down').count()).toBe(0);
  });
});

test('a guest that has shut itself down can be left off', async () => {
  const { client } = it.cluster;
  const conditions = [condition('Booted', 'True'), condition('Ready', 'False', 'GuestStopped')];
  await reportVm(client, await it.aVm('left-off'), { ...runningStatus, powerState: 'Stopped', conditions });
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/left-off`);
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Stop …' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('The guest has shut itself down').waitFor();
  await expectGoodLooks(page);
  await dialog.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByRole('button', { name: 'Stop …' }).waitFor({ state: 'detached' });
  expect((await client.get(vms, 'left-off', it.namespace)).spec.powerState).toBe('Stopped');
  expect(watched.faults).toEqual([]);
});

test('after an eject the words of the server are shown', async () => {
  const vm = await it.aVm('ejected', { iso: 'debian-netinst' });
  await reportVm(it.cluster.client, vm, runningStatus);
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/ejected`);
  await page.route('**/vms/ejected/eject', (route) =>
    route.fulfill({ json: { kind: 'Status', message: 'said by the server' } }),
  );
  await page.getByRole('button', { name: 'Eject ISO …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Eject', exact: true }).click();
  await page.getByText('said by the server', { exact: true }).waitFor();
  expect(watched.faults).toEqual([]);
});

test('the login of a registry that speaks plain HTTP can be given', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken);
  await page.getByRole('link', { name: 'Registry credentials' }).click();
  await page.getByText('Add a login').click();
  await page.getByLabel('Server').fill('http://registry.example.com:5000');
  await page.getByLabel('User').fill('robot');
  await page.getByLabel('Password').fill('secret');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Insecure').check();
  await expectGoodLooks(page);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('cell', { name: 'robot' }).waitFor();
  const { items } = await it.cluster.client.list(registryCredentials, { namespace: it.namespace });
  expect(items.map(({ spec }) => spec.allowInsecure)).toEqual([true]);
  expect(watched.faults).toEqual([]);
});
