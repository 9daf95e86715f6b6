import { afterAll, beforeAll, expect, test } from 'vitest';
import { clusterRoleBindings, images, roleBindings, vms } from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { identity } from '../../support/identity.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { signIn, startPageApi, type PageApi } from './pageharness.ts';

/** What one may do changes while a page is open; it went by what it had been told first, for as long as it was. */
let it: PageApi;

beforeAll(async () => {
  it = await startPageApi('pagerights');
});

afterAll(async () => {
  await it?.close();
});

/** Gives a ServiceAccount all rights in a namespace; returns the name of what gives them. */
async function allow(name: string, namespace: string): Promise<string> {
  const { metadata } = await it.cluster.client.create(roleBindings, {
    metadata: { generateName: `${name}-`, namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name, namespace: it.namespace }],
  });
  return metadata.name ?? '';
}

/** The images, as a ServiceAccount sees them that has no right yet; `shown` after a minute each time. */
async function imagesFor(name: string) {
  const { cluster, namespace } = it;
  const token = await identity(cluster.client, name, { namespace });
  const { page, watched } = await it.visit('#/images');
  await page.clock.install();
  await signIn(page, token);
  const shown = async () => {
    await page.clock.fastForward(60_000);
    return page.locator('main').textContent();
  };
  await expect.poll(shown).toContain(`not for you in namespace ${namespace}`);
  return { page, watched, shown };
}

test('a right that is given is offered without a reload, and one that is taken is not offered any more', async () => {
  const { cluster, namespace } = it;
  const { shown, watched } = await imagesFor('late');
  await cluster.client.create(images, {
    metadata: { name: 'there-before', namespace },
    spec: { source: { upload: {} } },
  });
  const binding = await allow('late', namespace);
  await expect.poll(shown).toContain(`upload them to ${namespace}`);
  await expect.poll(shown).toContain('there-before');
  await cluster.client.delete(roleBindings, { name: binding, namespace });
  await expect.poll(shown).toContain(`not for you in namespace ${namespace}`);
  expect(watched.faults).toEqual([]);
});

test('a right that is given is offered though the clock was set back since the page was opened', async () => {
  const { namespace } = it;
  const { page, shown, watched } = await imagesFor('backward');
  await page.clock.setSystemTime(new Date(Date.now() - 365 * 24 * 3_600_000));
  await allow('backward', namespace);
  await expect.poll(shown).toContain(`upload them to ${namespace}`);
  expect(watched.faults).toEqual([]);
});

/** Lets a ServiceAccount list a kind in all namespaces; returns the name of what lets it. */
async function allowEverywhere(name: string, resource: string): Promise<string> {
  const { client } = it.cluster;
  const role = `${it.namespace}-${name}-${resource}`;
  const rules = [{ apiGroups: ['svc3.dev'], resources: [resource], verbs: ['list'] }];
  await client.create(clusterRoles, { metadata: { name: role }, rules });
  await client.create(clusterRoleBindings, {
    metadata: { name: role },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'ServiceAccount', name, namespace: it.namespace }],
  });
  return role;
}

test('of all namespaces, what may be listed in some only is no empty list, and follows the rights', async () => {
  const { client } = it.cluster;
  await allow('partly', it.namespace);
  await allowEverywhere('partly', 'vms');
  await client.create(images, {
    metadata: { name: 'somewhere', namespace: it.namespace },
    spec: { source: { upload: {} } },
  });
  const token = await identity(client, 'partly', { namespace: it.namespace });
  const { page, watched } = await it.visitAs(token);
  const main = page.locator('main');
  await page.getByLabel('Namespace').selectOption('');
  await page.getByText('There are no VMs here.').or(page.locator('tbody tr').first()).waitFor();
  for (const view of ['Pools', 'ISOs', 'Configurations', 'Images']) {
    await page.getByRole('link', { name: view, exact: true }).click();
    await page.getByRole('heading', { name: view }).waitFor();
    await expect.poll(() => main.textContent()).toContain('not for you in all namespaces');
    expect(await main.textContent()).not.toContain('There are none here.');
  }
  await expectGoodLooks(page);
  const binding = await allowEverywhere('partly', 'images');
  await page.getByRole('cell', { name: 'somewhere', exact: true }).waitFor();
  await client.delete(clusterRoleBindings, { name: binding });
  await expect.poll(() => main.textContent()).toContain('not for you in all namespaces');
  await page.getByLabel('Namespace').selectOption(it.namespace);
  await page.getByRole('cell', { name: 'somewhere', exact: true }).waitFor();
  expect(watched.faults).toEqual([]);
});

test('of a namespace, a list whose right is taken does not stay as an empty one', async () => {
  const { client } = it.cluster;
  const binding = await allow('former', it.namespace);
  await it.aVm('theirs-before');
  const token = await identity(client, 'former', { namespace: it.namespace });
  const { page } = await it.visitAs(token, '#/configs');
  await page.getByText('There are none here.').waitFor();
  // What may be done is asked for once a minute: until then the stream alone knows it.
  await page.route('**/ui/rights*', (route) => route.abort());
  await client.delete(roleBindings, { name: binding, namespace: it.namespace });
  await page.getByText(`not for you in namespace ${it.namespace}`).waitFor();
  await page.evaluate(`location.hash = '#/vms/${it.namespace}/theirs-before'`);
  await page.getByText(`VMs of namespace ${it.namespace} are not for you`).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

test('rights that the server could not tell are asked for again', async () => {
  const { cluster, namespace } = it;
  await allow('unlucky', namespace);
  const token = await identity(cluster.client, 'unlucky', { namespace });
  const { page } = await it.visit('#/images');
  await page.route('**/ui/rights*', (route) => route.abort(), { times: 1 });
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(`upload them to ${namespace}`).waitFor();
});

test('a namespace that somebody gets later can be chosen', async () => {
  const { cluster, namespace } = it;
  await allow('guest', namespace);
  const { page } = await it.visitAs(await identity(cluster.client, 'guest', { namespace }));
  await page.getByRole('link', { name: 'Images' }).waitFor();
  const other = await uniqueNamespace(cluster.client, 'pagerights-other');
  await cluster.client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name: 'theirs', namespace: other },
    spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi' },
  } as Vm);
  await allow('guest', other);
  const options = async () => {
    await page.getByLabel('Namespace').blur();
    await page.getByLabel('Namespace').focus();
    return page.getByLabel('Namespace').locator('option').allTextContents();
  };
  await expect.poll(options, { interval: 500 }).toContain(other);
  await page.getByLabel('Namespace').selectOption(other);
  await page.getByRole('link', { name: 'theirs' }).waitFor();
});
