/** What the page does beyond watching and power: media, disks of the store, nodes, service accounts; each for who may do it only. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Page } from 'playwright-core';
import {
  images,
  isos,
  nodes,
  pods,
  registryCredentials,
  roleBindings,
  serviceAccounts,
  vmConfigs,
  vmPools,
  vms,
} from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import { labels, tagLabel } from '../../../src/api/meta.ts';
import type { Image } from '../../../src/api/image.ts';
import type { Resource } from '../../../src/api/object.ts';
import type { EffectiveSettings } from '../../../src/api/vm.ts';
import { ifFound } from '../../../src/errors.ts';
import { condition, reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { startPageApi, type PageApi, type Visit } from './pageharness.ts';

let it: PageApi;
let elsewhere: string;
const nodeName = `verbs-${crypto.randomUUID().slice(0, 8)}`;
const remote = 'registry.example.com/team/debian:12';

beforeAll(async () => {
  it = await startPageApi('verbs');
  const { client } = it.cluster;
  elsewhere = await uniqueNamespace(client, 'verbs-other');
  // Reserved: other files do not see it.
  await client.create(nodes, { metadata: { name: nodeName, labels: { [labels.namespace]: it.namespace } } });
});

afterAll(async () => {
  await it?.cluster.client.delete(nodes, { name: nodeName });
  await it?.close();
});

async function open(view: string, token = it.cluster.adminToken): Promise<Visit> {
  const visited = await it.visitAs(token);
  await visited.page.getByRole('link', { name: view, exact: true }).click();
  await visited.page.getByRole('heading', { name: view }).waitFor();
  return visited;
}

/** Presses what opens a dialog, and looks at it; resolves with it. */
async function dialogOf(page: Page, button: string) {
  await page.getByRole('button', { name: button, exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Cancel' }).waitFor();
  await expectGoodLooks(page);
  return dialog;
}

test('an ISO is ejected where there is one', async () => {
  const { client } = it.cluster;
  await runningVm(it.api, it.namespace, 'no-iso');
  const vm = await it.aVm('with-iso', { iso: 'debian-netinst' });
  await reportVm(client, vm, runningStatus);
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/no-iso`);
  await page.getByRole('button', { name: 'Delete …' }).waitFor();
  expect(await page.getByRole('button', { name: 'Eject ISO …' }).count()).toBe(0);
  await page.evaluate(`location.hash = '#/vms/${it.namespace}/with-iso'`);
  const dialog = await dialogOf(page, 'Eject ISO …');
  await dialog.getByText('reads from debian-netinst').waitFor();
  await dialog.getByRole('button', { name: 'Eject', exact: true }).click();
  await page.getByText('The CD drive of vm with-iso is being emptied').waitFor();
  await page.getByRole('button', { name: 'Eject ISO …' }).waitFor({ state: 'detached' });
  expect((await client.get(vms, 'with-iso', it.namespace)).spec.iso).toBe('');
  expect(watched.faults).toEqual([]);
});

test('a deploy says what it has left out', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/deploy/${it.namespace}`);
  await page.getByText('More settings').click();
  await page.getByLabel('Name', { exact: true }).fill('partly');
  await page.getByLabel('Image', { exact: true }).fill(remote);
  await page.locator('#field-reservedPorts').fill('80:80');
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByRole('status').getByText('Port mapping 80:80 was left out').waitFor();
  await expectGoodLooks(page);
  await page.getByRole('link', { name: 'partly' }).click();
  await page.getByRole('heading', { name: 'partly' }).waitFor();
  expect((await it.cluster.client.get(vms, 'partly', it.namespace)).spec.ports).toBeUndefined();
  expect(watched.faults).toEqual([]);
});

test('a disk is saved with the memory of its guest', async () => {
  await runningVm(it.api, it.namespace, 'remembered');
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/remembered`);
  const dialog = await dialogOf(page, 'Save …');
  await dialog.getByLabel('With the memory of the guest').check();
  await dialog.getByRole('button', { name: 'Save', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const saved = await it.cluster.client.get(images, 'remembered-saved', it.namespace);
  expect(saved.spec.source.vm).toMatchObject({ name: 'remembered', mode: 'SaveWithMemory' });
  expect(watched.faults).toEqual([]);
});

test('what cannot be saved is not offered', async () => {
  const { client } = it.cluster;
  const { effective } = runningStatus;
  const booted = async (name: string, image: string, more: Partial<EffectiveSettings>) =>
    reportVm(client, await it.aVm(name, { image }), {
      ...runningStatus,
      effective: { ...effective!, ...more },
    });
  await booted('of-image', 'debian', { imageName: 'debian' });
  await booted('of-registry', remote, { iso: remote });
  await client.patch(
    vms,
    { name: 'of-registry', namespace: it.namespace },
    { type: 'merge', body: { spec: { iso: '' } } },
  );
  const stalled = [condition('Stalled', 'True', 'ImageRefused', 'there is no such image')];
  await reportVm(client, await it.aVm('never-booted'), { conditions: stalled });
  const { page, watched } = await it.visitAs(it.cluster.adminToken);
  const offered = async (name: string) => {
    await page.evaluate(`location.hash = '#/vms/${it.namespace}/${name}'`);
    await page.getByRole('heading', { name, exact: true }).waitFor();
    await page.getByRole('button', { name: 'Delete …' }).waitFor();
    const buttons = await page.locator('main').getByRole('button').allInnerTexts();
    return buttons.filter((label) => /^(Save|Commit)/.test(label));
  };
  const memory = page.getByLabel('With the memory of the guest');
  expect(await offered('of-image')).toEqual(['Save …', 'Commit …']);
  await page.getByRole('button', { name: 'Save …' }).click();
  await memory.check();
  // Its guest ends meanwhile, and its memory with it.
  await reportVm(client, await client.get(vms, 'of-image', it.namespace), { powerState: 'Stopped' });
  await memory.waitFor({ state: 'detached' });
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The disk is being saved as image of-image-saved.').waitFor();

  expect(await offered('of-registry')).toEqual(['Save …']);
  await page.getByRole('button', { name: 'Save …' }).click();
  await page.getByLabel('Name of the image').waitFor();
  expect(await memory.count()).toBe(0);
  await page.keyboard.press('Escape');
  expect(await offered('never-booted')).toEqual([]);
  expect(watched.faults).toEqual([]);
});

test.each([
  ['Images', images, 'Pull an image into', 'remoteimage'],
  ['ISOs', isos, 'Pull an ISO into', 'remoteiso'],
] as const)('%s are pulled, copied and described', async (view, resource, title, parameter) => {
  const { client } = it.cluster;
  const specOf = async (name: string) => (await client.get(resource, name, it.namespace)).spec;
  const { page, watched } = await open(view);
  let dialog = await dialogOf(page, 'Pull …');
  expect(await dialog.getAttribute('aria-labelledby')).toBe('dialog-title');
  await dialog.getByRole('heading', { name: `${title} ${it.namespace}` }).waitFor();
  const offered = dialog.locator(`#dialog-${parameter}-names option`);
  await expect
    .poll(() => offered.evaluateAll((all) => all.map((one) => one.getAttribute('value'))))
    .toEqual([remote]);
  const reference = dialog.getByLabel('Reference (required)');
  await reference.fill('debian');
  await dialog.getByRole('button', { name: 'Pull', exact: true }).click();
  await expect.poll(() => reference.getAttribute('aria-invalid')).toBe('true');
  await reference.fill(remote);
  await dialog.getByLabel('Name', { exact: true }).fill('pulled');
  await dialog.getByRole('button', { name: 'Pull', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.locator('tbody tr', { hasText: 'pulled' }).waitFor();
  expect((await specOf('pulled')).source.remote?.reference).toBe(remote);

  dialog = await dialogOf(page, 'Copy pulled');
  await dialog.getByLabel('Name (required)').fill('pulled');
  await dialog.getByRole('button', { name: 'Copy', exact: true }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('Name (required)').fill('copied');
  await dialog.getByRole('button', { name: 'Copy', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  expect((await specOf('copied')).source.image?.name).toBe('pulled');

  dialog = await dialogOf(page, 'Describe copied');
  await dialog.getByLabel('Description').fill('A copy for tests');
  await dialog.getByRole('button', { name: 'Describe', exact: true }).click();
  await page.getByText('A copy for tests').waitFor();
  dialog = await dialogOf(page, 'Describe copied');
  expect(await dialog.getByLabel('Description').inputValue()).toBe('A copy for tests');
  await dialog.getByLabel('Description').fill('');
  await dialog.getByRole('button', { name: 'Describe', exact: true }).click();
  await expect.poll(async () => (await specOf('copied')).description).toBe('');
  expect(watched.faults).toEqual([]);
});

interface Made {
  readonly name: string;
  readonly namespace: string;
}

test.each([
  {
    view: 'Configurations',
    find: () => ifFound<unknown>(it.cluster.client.get(vmConfigs, 'going', it.namespace)),
    make: (metadata: Made) => it.cluster.client.create(vmConfigs, { metadata, spec: { image: remote } }),
    means: 'VMs that were placed keep the settings',
  },
  {
    view: 'ISOs',
    find: () => ifFound<unknown>(it.cluster.client.get(isos, 'going', it.namespace)),
    make: (metadata: Made) => it.cluster.client.create(isos, { metadata, spec: { source: { upload: {} } } }),
    means: 'refused while a VM or a pool uses it',
  },
])('of $view, one is deleted after what that means was said', async ({ view, find, make, means }) => {
  await make({ name: 'going', namespace: it.namespace });
  const { page, watched } = await open(view);
  const dialog = await dialogOf(page, 'Delete going');
  await dialog.getByText(means).waitFor();
  expect(await find()).toBeDefined();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('button', { name: 'Delete going' }).waitFor({ state: 'detached' });
  expect(await find()).toBeUndefined();
  expect(watched.faults).toEqual([]);
});

test.each([
  ['Images', images, { source: { upload: {} } }, ['Copy', 'Describe', 'Delete']],
  ['Pools', vmPools, { minIdle: 0, template: { image: remote } }, ['Scale', 'Delete']],
  ['Configurations', vmConfigs, { image: remote }, ['Delete']],
] as const)(
  'of %s, one that was made anew is not what a dialog of the one before is about',
  async (view, kind, spec, verbs) => {
    const { client } = it.cluster;
    const metadata = { name: 'remade', namespace: it.namespace };
    const of = kind as unknown as Resource<Image>;
    const make = () => client.create(of, { metadata, spec: spec as unknown as Image['spec'] });
    await make();
    const { page, watched } = await open(view);
    for (const verb of verbs) {
      // The page learns of it at once; the dialog is about the one that it was opened for.
      const dialog = await dialogOf(page, `${verb} remade`);
      await client.delete(of, metadata);
      const { uid, resourceVersion } = (await make()).metadata;
      if (verb === 'Copy') await dialog.getByLabel('Name (required)').fill('copied');
      await dialog.getByRole('button', { name: verb, exact: true }).click();
      await dialog.getByRole('alert').filter({ hasText: 'is another one' }).waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      expect((await client.get(of, 'remade', it.namespace)).metadata).toMatchObject({ uid, resourceVersion });
    }
    expect(watched.faults).toEqual([]);
  },
);

test('a login of a registry is replaced by who says so', async () => {
  const { client } = it.cluster;
  const { page, watched } = await open('Registry credentials');
  await page.getByText('Add a login').click();
  const add = async (user: string) => {
    await page.getByLabel('Server').fill('https://registry.example.com');
    await page.getByLabel('User').fill(user);
    await page.getByLabel('Password').fill('secret');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
  };
  await add('first');
  await page.getByRole('cell', { name: 'first', exact: true }).waitFor();
  await add('second');
  await page.getByRole('alert').waitFor();
  await page.getByRole('cell', { name: 'first', exact: true }).waitFor();
  await page.getByLabel('Replace the login that is there').check();
  await add('second');
  await page.getByRole('cell', { name: 'second', exact: true }).waitFor();
  expect(await page.getByRole('cell', { name: 'first', exact: true }).count()).toBe(0);
  expect((await client.list(registryCredentials, { namespace: it.namespace })).items).toHaveLength(1);
  // Ticked for one login, not for the next.
  expect(await page.getByLabel('Replace the login that is there').isChecked()).toBe(false);
  expect(watched.faults).toEqual([]);
});

test('an empty image is made', async () => {
  const { page, watched } = await open('Images');
  const dialog = await dialogOf(page, 'New empty image …');
  await dialog.getByLabel('Name (required)').fill('blank');
  await dialog.getByLabel('Size (required)').fill('many');
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await dialog.getByText('must be a size such as 120G').waitFor();
  await dialog.getByLabel('Size (required)').fill('10G');
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  const { spec } = await it.cluster.client.get(images, 'blank', it.namespace);
  expect(spec.source.blank?.size).toBe('10G');
  expect(watched.faults).toEqual([]);
});

test('a node is tagged, says who has its GPU, allows passthrough and is reserved', async () => {
  const { client } = it.cluster;
  const labelsOf = async () => (await client.get(nodes, nodeName)).metadata.labels ?? {};
  const allocatable = { cpu: '4', memory: '8Gi', 'svc3.dev/gpu-passthrough': '1' };
  const status = { type: 'merge', body: { status: { allocatable, capacity: allocatable } } } as const;
  await client.patch(nodes, { name: nodeName }, status, { subresource: 'status' });
  const player = await it.aVm('player', { gpuPassthrough: 'Enabled' });
  await client.patch(
    vms,
    { name: 'player', namespace: it.namespace },
    {
      type: 'merge',
      body: {
        status: {
          observedGeneration: player.metadata.generation,
          node: nodeName,
          conditions: [condition('Scheduled', 'True')],
        },
      },
    },
    { subresource: 'status' },
  );
  const { page, watched } = await open('Nodes');
  const row = page.locator('tbody tr', { hasText: nodeName });
  await row.getByRole('link', { name: `${it.namespace}/player` }).waitFor();

  let dialog = await dialogOf(page, `Tag ${nodeName}`);
  await dialog.getByLabel('Tag (required)').fill('fast');
  await dialog.getByRole('button', { name: 'Tag', exact: true }).click();
  await page.getByText(`node ${nodeName} was tagged fast`).waitFor();
  expect((await labelsOf())[tagLabel('fast')]).toBe('true');
  await page.getByRole('button', { name: `Remove tag fast of ${nodeName}` }).waitFor();
  await expectGoodLooks(page);
  await page.getByRole('button', { name: `Remove tag fast of ${nodeName}` }).click();
  await page.getByText(`tag fast was removed from node ${nodeName}`).waitFor();
  expect((await labelsOf())[tagLabel('fast')]).toBeUndefined();

  dialog = await dialogOf(page, `GPU ${nodeName}`);
  await dialog.getByLabel('Allowed (required)').selectOption('Yes');
  await dialog.getByRole('button', { name: 'Set', exact: true }).click();
  await page.getByText('may be used once its hardware qualifies').waitFor();
  expect((await labelsOf())[labels.allowGpuPassthrough]).toBe('true');

  dialog = await dialogOf(page, `Reserve ${nodeName}`);
  await dialog.getByLabel('Namespace', { exact: true }).fill(elsewhere);
  await dialog.getByRole('button', { name: 'Reserve', exact: true }).click();
  await page.getByText(`takes VMs of namespace ${elsewhere} only`).waitFor();
  expect((await labelsOf())[labels.namespace]).toBe(elsewhere);
  await row.waitFor({ state: 'detached' });
  // Nothing of svc3 is there, and the node has to be found all the same.
  const box = page.getByLabel('Namespace');
  const options = async () => {
    await box.blur();
    await box.focus();
    return box.locator('option').allTextContents();
  };
  await expect.poll(options, { interval: 500 }).toContain(elsewhere);
  await box.selectOption(elsewhere);
  await row.waitFor();
  dialog = await dialogOf(page, `Reserve ${nodeName}`);
  await dialog.getByText('is then shown under that namespace only').waitFor();
  await dialog.getByLabel('Namespace', { exact: true }).fill(it.namespace);
  await dialog.getByRole('button', { name: 'Reserve', exact: true }).click();
  await page.getByText(`takes VMs of namespace ${it.namespace} only`).waitFor();
  expect((await labelsOf())[labels.namespace]).toBe(it.namespace);
  expect(watched.faults).toEqual([]);
});

test('a GPU that a VM of another namespace has is taken, by a name that is not told', async () => {
  const { client } = it.cluster;
  const name = `shared-${crypto.randomUUID().slice(0, 8)}`;
  await client.create(nodes, { metadata: { name, labels: { [labels.namespace]: it.namespace } } });
  onTestFinished(() => client.delete(nodes, { name }));
  const resources = { 'svc3.dev/gpu-passthrough': '1' };
  const allocatable = { cpu: '4', memory: '8Gi', ...resources };
  const status = { type: 'merge', body: { status: { allocatable, capacity: allocatable } } } as const;
  await client.patch(nodes, { name }, status, { subresource: 'status' });
  const { page, watched } = await open('Nodes');
  const cell = page.locator('tbody tr', { hasText: name }).locator('td[data-title="GPU of"]');
  await expect.poll(() => cell.innerText()).toBe('–');
  // Of a VM that was there before the node was reserved.
  const pod = { name: 'vm-of-somebody', namespace: elsewhere };
  await client.create(pods, {
    metadata: pod,
    spec: {
      nodeName: name,
      containers: [{ name: 'vm', image: 'a', resources: { limits: resources, requests: resources } }],
    },
  });
  await expect.poll(() => cell.innerText()).toBe('A VM that is not shown here');
  await expectGoodLooks(page);
  // Who sees the VMs of all namespaces is told nothing that is not known.
  await page.getByLabel('Namespace').selectOption('');
  await expect.poll(() => cell.innerText()).toBe('–');
  await client.delete(pods, pod, { gracePeriodSeconds: 0 });
  expect(watched.faults).toEqual([]);
});

test('service accounts are made and deleted', async () => {
  const { client } = it.cluster;
  const { page, watched } = await open('Service accounts');
  let dialog = await dialogOf(page, 'New service account …');
  await dialog.getByLabel('Name (required)').fill('Robot');
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await expect.poll(() => dialog.getByLabel('Name (required)').getAttribute('aria-invalid')).toBe('true');
  await dialog.getByLabel('Name (required)').fill('robot');
  await dialog.getByLabel('Role').selectOption('none');
  await dialog.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('Service account robot was created.').waitFor();
  await page.getByRole('button', { name: 'Delete robot' }).waitFor();
  expect((await client.list(roleBindings, { namespace: it.namespace })).items).toEqual([]);
  await expectGoodLooks(page);
  dialog = await dialogOf(page, 'Delete robot');
  await dialog.getByText('Its tokens end at once').waitFor();
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('button', { name: 'Delete robot' }).waitFor({ state: 'detached' });
  expect(await ifFound(client.get(serviceAccounts, 'robot', it.namespace))).toBeUndefined();
  expect(watched.faults).toEqual([]);
});

test('a list that comes late does not replace one that was asked for after it', async () => {
  const { client } = it.cluster;
  const { page } = await open('VMs');
  const isAsked = Promise.withResolvers<void>();
  const isShown = Promise.withResolvers<void>();
  await page.route(
    '**/serviceaccounts',
    async (route) => {
      isAsked.resolve();
      await isShown.promise;
      await route.fulfill({ json: { items: [] } });
    },
    { times: 1 },
  );
  await page.clock.install();
  await page.getByRole('link', { name: 'Service accounts' }).click();
  await isAsked.promise;
  await client.create(serviceAccounts, { metadata: { name: 'made', namespace: it.namespace } });
  await page.clock.fastForward(10_000);
  const made = page.getByRole('button', { name: 'Delete made' });
  await made.waitFor();
  const comes = page.waitForResponse('**/serviceaccounts');
  isShown.resolve();
  await (await comes).finished();
  // What came before the next answer has been drawn after it.
  await page.evaluate("fetch('/ui/session').then((reply) => reply.text())");
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  expect(await made.count()).toBe(1);
  await client.delete(serviceAccounts, { name: 'made', namespace: it.namespace });
});

test.each([
  ['looks', ['get', 'list', 'watch'], []],
  ['makes', ['get', 'list', 'watch', 'create'], ['Copy seen', 'New empty image …', 'Pull …']],
  ['describes', ['get', 'list', 'watch', 'patch'], ['Describe seen']],
])('of images and nodes, who %s is offered no more', async (does, verbs, offered) => {
  const { client } = it.cluster;
  const name = `${it.namespace}-${does}`;
  await client.apply(images, {
    apiVersion: 'svc3.dev/v1',
    kind: 'Image',
    metadata: { name: 'seen', namespace: it.namespace },
    spec: { source: { upload: {} } },
  });
  await client.create(clusterRoles, {
    metadata: { name },
    rules: [
      { apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['list'] },
      { apiGroups: ['svc3.dev'], resources: ['images'], verbs },
      { apiGroups: ['api.svc3.dev'], resources: ['nodes'], verbs: ['list'] },
    ],
  });
  const token = await identity(client, does, { namespace: it.namespace, role: name });
  const { page, watched } = await open('Images', token);
  const row = page.locator('tbody tr', { hasText: 'seen' });
  await row.waitFor();
  for (const button of offered) await page.getByRole('button', { name: button, exact: true }).waitFor();
  // The rights were known before the view was: what they allow is drawn with the next frames.
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  const labelsOf = (scope: typeof row) =>
    scope.getByRole('button').evaluateAll((all) => all.map((one) => one.ariaLabel ?? one.textContent ?? ''));
  const above = page.locator('.title');
  expect([...(await labelsOf(above)), ...(await labelsOf(row))].toSorted((a, b) => (a < b ? -1 : 1))).toEqual(
    offered,
  );
  expect(await page.getByRole('link', { name: 'Service accounts' }).count()).toBe(0);
  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  const node = page.locator('tbody tr', { hasText: nodeName });
  await node.waitFor();
  expect(await labelsOf(node)).toEqual([]);
  expect(watched.faults).toEqual([]);
});
