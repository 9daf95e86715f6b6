/** Everything that a tenant, a node or a guest can write is shown as text: no script runs, and no element and no link is made of it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import {
  images,
  isos,
  nodes,
  registryCredentials,
  secrets,
  vmConfigs,
  vmPools,
  vms,
} from '../../../src/api/resources.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { annotations, labels } from '../../../src/api/meta.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { dropFile, startPageApi, type PageApi } from './pageharness.ts';

/** Markup that says where it was written; it has no space and no colon, and fits into 64 characters, so that any field takes it. */
const markup = (where: string) => `"'><img/src=x/onerror=alert(1)><svg/onload=alert(2)>${where}`;

let it: PageApi;
const nodeName = `injected-${crypto.randomUUID().slice(0, 8)}`;

beforeAll(async () => {
  it = await startPageApi(
    'inject',
    ({ remotes }) => ({
      remotes: {
        ...remotes,
        list: () =>
          Promise.resolve({
            items: [{ name: `a/${markup('remote')}` }],
            incomplete: [markup('incomplete')],
          }),
      },
    }),
    {},
    markup('screen'),
  );
  await Promise.all([writeVm(), writeDisks(), writeTemplates(), writeNode(), writeCredential()]);
});

afterAll(async () => {
  await it?.cluster.client.delete(nodes, { name: nodeName });
  await it?.close();
});

async function report<T extends KubeObject>(resource: Resource<T>, name: string, status: object) {
  const key = { name, namespace: it.namespace };
  const { metadata } = await it.cluster.client.get(resource, name, it.namespace);
  const body = { status: { observedGeneration: metadata?.generation, ...status } };
  await it.cluster.client.patch(resource, key, { type: 'merge', body }, { subresource: 'status' });
}

const stalled = (where: string) => ({
  conditions: ['Ready', 'Stalled'].map((type) =>
    condition(type, type === 'Ready' ? 'False' : 'True', 'Test', markup(where)),
  ),
});

async function writeVm(): Promise<void> {
  const { client } = it.cluster;
  const metadata = { namespace: it.namespace, annotations: { [annotations.owner]: markup('owner') } };
  const spec = { image: `a/${markup('image')}`, powerState: 'Running' } as const;
  const waiting = await client.create(vms, { metadata: { ...metadata, name: 'waiting' }, spec });
  await reportVm(client, waiting, {
    conditions: [condition('Scheduled', 'False', 'Unschedulable', markup('vm-message'))],
    warnings: [markup('vm-warning')],
  });
  const runs = await client.create(vms, { metadata: { ...metadata, name: 'runs' }, spec });
  await reportVm(client, runs, { ...runningStatus, node: markup('node'), ip: markup('ip') });
  // As anybody with the right to Events writes them: the server checks hardly anything of this kind.
  const { metadata: of } = waiting;
  const now = new Date().toISOString();
  await client.request({
    method: 'POST',
    path: `/api/v1/namespaces/${it.namespace}/events`,
    body: {
      metadata: { name: 'hostile', namespace: it.namespace },
      involvedObject: { apiVersion: 'svc3.dev/v1', kind: 'VM', name: of.name, namespace: of.namespace },
      type: markup('event-type'),
      reason: markup('event-reason'),
      message: markup('event-message'),
      firstTimestamp: now,
      lastTimestamp: now,
    },
  });
}

async function writeDisks(): Promise<void> {
  const { client } = it.cluster;
  const metadata = { name: 'hostile', namespace: it.namespace };
  const spec = { source: { upload: {} }, description: markup('description') };
  await Promise.all([client.create(images, { metadata, spec }), client.create(isos, { metadata, spec })]);
  for (const resource of [images, isos]) await report(resource, 'hostile', stalled('disk-message'));
}

async function writeTemplates(): Promise<void> {
  const { client } = it.cluster;
  const metadata = { name: 'hostile', namespace: it.namespace };
  const image = `a/${markup('template')}`;
  await client.create(vmConfigs, { metadata, spec: { image } });
  await client.create(vmPools, {
    metadata,
    spec: { template: { image }, minIdle: 1, standby: 'Suspended', serveConfig: false },
  });
  await report(vmConfigs, 'hostile', stalled('config-message'));
  await report(vmPools, 'hostile', stalled('pool-message'));
}

/** Reserved for the namespace of this file: other files do not see it. */
async function writeNode(): Promise<void> {
  const { client } = it.cluster;
  await client.create(nodes, {
    metadata: {
      name: nodeName,
      labels: { [labels.namespace]: it.namespace },
      annotations: { [annotations.gpuPassthroughReason]: markup('gpu-reason') },
    },
  });
  const nodeInfo = { architecture: markup('architecture') };
  const patch = { type: 'merge', body: { status: { nodeInfo } } } as const;
  await client.patch(nodes, { name: nodeName }, patch, { subresource: 'status' });
}

async function writeCredential(): Promise<void> {
  const { client } = it.cluster;
  const name = `hostile-${it.namespace}`;
  await client.create(secrets, {
    metadata: { name, namespace: 'svc3-credentials' },
    type: 'kubernetes.io/basic-auth',
    stringData: { username: markup('username'), password: 'p' },
  });
  await client.create(registryCredentials, {
    metadata: { name: 'registry.example.com.443', namespace: it.namespace },
    spec: { server: 'https://registry.example.com', allowInsecure: false, secretRef: { name } },
  });
}

/** What there is that only markup could have made: elements, handlers, and links that lead elsewhere than into this page. */
const traces = `(() => {
  // The plots of the page itself have a role.
  const sought = 'img, svg:not([role="img"]), iframe, object, embed, base, meta[http-equiv]';
  const made = [...document.querySelectorAll(sought)];
  const scripts = [...document.scripts].filter(({ src }) => new URL(src).pathname !== '/ui/files/page.js');
  const handlers = [...document.querySelectorAll('*')].filter(({ attributes }) =>
    [...attributes].some(({ name }) => name.startsWith('on')));
  const links = [...document.querySelectorAll('[href]')].filter((link) =>
    !/^(#\\/|\\/ui\\/|data:,$)/.test(link.getAttribute('href')));
  return [...made, ...scripts, ...handlers, ...links].map(({ outerHTML }) => outerHTML.slice(0, 200));
})()`;

async function expectText(page: Page, places: readonly string[]): Promise<void> {
  const missing = async () => {
    const text = await page.locator('body').innerText();
    return places.filter((place) => !text.includes(markup(place)));
  };
  await expect.poll(missing).toEqual([]);
  expect(await page.evaluate(traces)).toEqual([]);
}

test('in every list', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken);
  const open = (name: string) => page.getByRole('link', { name, exact: true }).click();
  await expectText(page, ['image', 'vm-message', 'node', 'ip']);
  for (const [view, places] of [
    ['Pools', ['pool-message', 'template']],
    ['Images', ['description', 'disk-message']],
    ['ISOs', ['description', 'disk-message']],
    ['Configurations', ['config-message', 'template']],
    ['Nodes', ['gpu-reason', 'architecture']],
    ['Registry credentials', ['username']],
  ] as const) {
    await open(view);
    await expectText(page, places);
  }
  expect(watched.faults).toEqual([]);
});

interface Pulled {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly source: { readonly remote: { readonly reference: string } } };
}

test.each([
  ['images', (disk: Pulled) => it.cluster.client.create(images, disk)],
  ['isos', (disk: Pulled) => it.cluster.client.create(isos, disk)],
] as const)('in what remote registries have of %s', async (view, create) => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/${view}`);
  await page.getByRole('button', { name: 'Pull …' }).click();
  const dialog = page.getByRole('dialog');
  const offered = dialog.locator('datalist option');
  const reference = `a/${markup('remote')}`;
  await expect
    .poll(() => offered.evaluateAll((all) => all.map((one) => one.getAttribute('value'))))
    .toEqual([reference]);
  await expectText(page, ['incomplete']);
  await dialog.getByLabel('Reference (required)').fill(reference);
  await dialog.getByRole('button', { name: 'Pull', exact: true }).click();
  // It is none, which the refusal quotes.
  await expect.poll(() => dialog.textContent()).toContain(`"${reference}" is not an image reference`);
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  // kube-apiserver takes it of others.
  const metadata = { name: 'pulled', namespace: it.namespace };
  await create({ metadata, spec: { source: { remote: { reference } } } });
  await page.getByRole('button', { name: 'Delete pulled', exact: true }).waitFor();
  expect(await page.evaluate(traces)).toEqual([]);
  expect(watched.faults).toEqual([]);
});

test('in one VM, its Events and its screen', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/waiting`);
  await expectText(page, ['vm-message', 'vm-warning', 'image', 'owner']);
  await expectText(page, ['event-type', 'event-reason', 'event-message']);
  await page.evaluate(`location.hash = '#/vms/${it.namespace}/runs'`);
  await expectText(page, ['node', 'ip']);
  await page.getByRole('button', { name: 'Console', exact: true }).click();
  await page.getByText('Connected', { exact: true }).waitFor();
  expect(await page.evaluate(traces)).toEqual([]);
  expect(watched.faults).toEqual([]);
});

test('in the page of the console', async () => {
  const path = `/api/v1/namespaces/${it.namespace}/vms/runs/console`;
  const { json } = await it.api.call('POST', path, { token: it.cluster.adminToken, body: {} });
  const { page, watched } = await it.visit();
  await page.goto(`${it.api.baseUrl}${json.page}`);
  await page.getByText('Connected', { exact: true }).waitFor();
  for (const fragment of [
    markup('fragment'),
    encodeURIComponent(markup('fragment')),
    '%',
    'javascript:alert(3)',
  ]) {
    await page.goto('about:blank');
    await page.goto(`${it.api.baseUrl}/api/v1/console#${fragment}`);
    await page.getByText('This link is not complete').waitFor();
    expect(await page.locator('img, svg').count()).toBe(0);
  }
  expect(watched.faults).toEqual([]);
});

test('in no page that the policy breaks: that of the API shows its routes', async () => {
  const { page, watched } = await it.visit();
  await page.goto(`${it.api.baseUrl}/api/v1/swagger`);
  await page.getByText('Deploy a VM', { exact: false }).first().waitFor();
  expect(watched.faults).toEqual([]);
});

test('in the address', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken);
  for (const fragment of [
    `#/vms/${it.namespace}/${encodeURIComponent(markup('name'))}`,
    `#/vms/${encodeURIComponent(markup('namespace'))}/${encodeURIComponent(markup('name'))}`,
  ]) {
    await page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
    await expectText(page, ['name']);
  }
  for (const fragment of [
    `#code=${markup('code')}`,
    '#javascript:alert(3)',
    '#/%',
    '#/constructor',
    '#/vms/%/%',
  ]) {
    await page.evaluate(`location.hash = ${JSON.stringify(fragment)}`);
    await page.getByRole('heading', { level: 1 }).first().waitFor();
    expect(await page.evaluate(traces)).toEqual([]);
  }
  // The namespace of a link is kept for the next view: it makes no other address of it either.
  await page.goto('about:blank');
  await page.goto(`${it.api.baseUrl}/ui#code=${markup('code')}`);
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  expect(await page.evaluate(traces)).toEqual([]);
  expect(watched.faults).toEqual([]);
});

test('in what the server refuses', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken, '#/deploy');
  await page.getByLabel('Name', { exact: true }).fill(markup('name'));
  await page.getByLabel('Image', { exact: true }).fill(markup('image'));
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.locator('[aria-invalid=true]').first().waitFor();
  expect(await page.evaluate(traces)).toEqual([]);
  // Every word of a refusal, as a server would say it that repeats what it was sent.
  const body = {
    kind: 'Status',
    message: markup('message'),
    details: {
      causes: [
        { field: 'name', message: markup('cause') },
        { field: markup('field'), message: markup('other') },
      ],
    },
  };
  const isDeploy = (url: URL) => url.pathname.endsWith('/vms');
  await page.route(isDeploy, (route) => route.fulfill({ status: 422, json: body }));
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await expectText(page, ['message', 'cause']);
  expect(watched.faults).toEqual([]);
});

test('in the name of who is signed in, as an issuer gave it', async () => {
  const { page, watched } = await it.visit();
  await page.route('**/ui/session', async (route) => {
    const reply = await route.fetch();
    const said = (await reply.json()) as object;
    await route.fulfill({ response: reply, json: { ...said, user: markup('user') } });
  });
  await page.getByLabel('Token').fill(it.cluster.adminToken);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expectText(page, ['user']);
  expect(watched.faults).toEqual([]);
});

test('in the name of a file', async () => {
  const { page, watched } = await it.visitAs(it.cluster.adminToken, '#/images');
  await page.getByText(`upload them to ${it.namespace}`).waitFor();
  await page.evaluate(dropFile(`${markup('file')}.iso`, 'AAAA'));
  // There is no store here: what it says stands where the upload was.
  await page.getByRole('alert').waitFor();
  expect(await page.evaluate(traces)).toEqual([]);
  expect(watched.faults).toEqual([]);
});
