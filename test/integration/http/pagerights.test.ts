import { afterAll, beforeAll, expect, test } from 'vitest';
import { images, roleBindings, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { identity } from '../../support/api.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
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

test('a right that is given is offered without a reload, and one that is taken is not offered any more', async () => {
  const { cluster, namespace } = it;
  const token = await identity(cluster.client, 'late', { namespace });
  const { page, watched } = await it.visit('#/images');
  await page.clock.install();
  await signIn(page, token);
  const shown = async () => {
    await page.clock.fastForward(60_000);
    return page.locator('main').textContent();
  };
  await expect.poll(shown).toContain(`not for you in namespace ${namespace}`);
  await cluster.client.create(images, {
    metadata: { name: 'there-before', namespace },
    spec: { source: { upload: {} } },
  });
  const binding = await allow('late', namespace);
  await expect.poll(shown).toContain(`upload them to ${namespace}`);
  await expect.poll(shown, { timeout: 30_000 }).toContain('there-before');
  await cluster.client.delete(roleBindings, { name: binding, namespace });
  await expect.poll(shown).toContain(`not for you in namespace ${namespace}`);
  expect(watched.faults).toEqual([]);
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
