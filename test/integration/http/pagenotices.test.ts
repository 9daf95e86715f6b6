/** What fails after somebody has closed its dialog or gone to another view is told all the same, and what works out by then disturbs nobody. */
import type { Page, Route } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { startPageApi, type PageApi } from './pageharness.ts';

let it: PageApi;
const why = 'not while it is in use';

beforeAll(async () => {
  it = await startPageApi('notices');
});

afterAll(() => it?.close());

/** Holds the next request of a method, and answers it when it is told to. */
async function holding(page: Page, url: string, method: string) {
  const asked = Promise.withResolvers<Route>();
  await page.route(url, (route) => {
    if (route.request().method() !== method) return route.continue();
    asked.resolve(route);
    return Promise.resolve();
  });
  return {
    asked: asked.promise,
    refuse: async () => (await asked.promise).fulfill({ status: 409, json: { message: why } }),
    take: async (json: unknown, headers = {}) =>
      (await asked.promise).fulfill({ status: 200, json, headers }),
  };
}

/** Everything that has come is drawn. */
async function untilDrawn(page: Page): Promise<void> {
  await page.evaluate("fetch('/ui/session').then((reply) => reply.text())");
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
}

const dialogs = [
  { button: 'Delete …', verb: 'Delete', method: 'DELETE', url: '**/vms/web?*', about: 'Delete web' },
  { button: 'Stop …', verb: 'Stop', method: 'POST', url: '**/vms/web/exec?*', about: 'Stop web' },
  {
    button: 'Save …',
    verb: 'Save',
    method: 'POST',
    url: '**/vms/web/save',
    about: 'Save the disk of web',
  },
  { button: 'Change …', verb: 'Change', method: 'PATCH', url: '**/vms/web?*', about: 'Change web' },
];

test('a dialog that was closed tells its failure, also in another view, until that is dismissed', async () => {
  await runningVm(it.api, it.namespace, 'web');
  const { page } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/web`);
  for (const { button, verb, method, url, about } of dialogs) {
    await page.getByRole('link', { name: 'VMs', exact: true }).click();
    await page.getByRole('link', { name: 'web', exact: true }).click();
    const reply = await holding(page, url, method);
    await page.getByRole('button', { name: button }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: verb, exact: true }).click();
    await reply.asked;
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Nodes' }).click();
    await page.getByRole('heading', { name: 'Nodes' }).waitFor();
    await reply.refuse();
    await page.getByRole('alert').getByText(`${about}: ${why}`).waitFor();
    await page.unroute(url);
  }
  expect(await page.getByRole('alert').count()).toBe(dialogs.length);
  await expectGoodLooks(page);
  for (const { about } of dialogs)
    await page.getByRole('button', { name: `Dismiss: ${about}: ${why}` }).click();
  await page.getByRole('region', { name: 'Notices' }).waitFor({ state: 'detached' });
});

test('a verb that asks nothing before tells its failure in the view that is shown by then', async () => {
  const { client } = it.cluster;
  const vm = await it.aVm('asleep');
  await reportVm(client, vm, { ...runningStatus, powerState: 'Stopped' });
  const { page } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/asleep`);
  const reply = await holding(page, '**/vms/asleep/exec?*', 'POST');
  const start = page.getByRole('button', { name: 'Start', exact: true });
  await start.click();
  await reply.asked;
  await page.getByRole('link', { name: 'Images' }).click();
  await reply.refuse();
  await page.getByRole('alert').getByText(`Start asleep: ${why}`).waitFor();
});

test('a dialog that was opened meanwhile stays open when the one before has done its work', async () => {
  await runningVm(it.api, it.namespace, 'twice');
  const { page } = await it.visitAs(it.cluster.adminToken, `#/vms/${it.namespace}/twice`);
  const reply = await holding(page, '**/vms/twice/exec?*', 'POST');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Restart …' }).click();
  await dialog.getByRole('button', { name: 'Restart', exact: true }).click();
  await reply.asked;
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Delete …' }).click();
  await dialog.getByRole('heading', { name: 'Delete twice?' }).waitFor();
  await reply.take({ message: 'it is being restarted' });
  await page.getByText('it is being restarted').waitFor();
  await untilDrawn(page);
  expect(await dialog.getByRole('heading', { name: 'Delete twice?' }).count()).toBe(1);
});

test('who has left a deploy is not taken back to it, and is told what it has left out and why it was refused', async () => {
  const { page } = await it.visitAs(it.cluster.adminToken, `#/deploy/${it.namespace}`);
  const deploy = async () => {
    await page.evaluate(`location.hash = '#/deploy/${it.namespace}'`);
    await page.getByLabel('Name', { exact: true }).fill('left');
    const reply = await holding(page, '**/vms?wait=false', 'POST');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await reply.asked;
    await page.getByRole('link', { name: 'Images' }).click();
    await page.getByRole('heading', { name: 'Images' }).waitFor();
    return reply;
  };
  await (await deploy()).take({ name: 'left', portWarnings: 'Port mapping 80:80 was left out' });
  await page.getByRole('alert').getByText('Deploy left: Port mapping 80:80 was left out').waitFor();
  await page.unroute('**/vms?wait=false');
  await (await deploy()).take({ name: 'left' });
  await untilDrawn(page);
  expect(await page.getByRole('heading', { name: 'Images' }).count()).toBe(1);
  await page.unroute('**/vms?wait=false');
  await (await deploy()).refuse();
  await page.getByRole('alert').getByText(`Deploy a VM in ${it.namespace}: ${why}`).waitFor();
});

test('a login of a registry that was refused after its view was left is told', async () => {
  const { page } = await it.visitAs(it.cluster.adminToken);
  await page.getByRole('link', { name: 'Registry credentials' }).click();
  await page.getByText('Add a login').click();
  await page.getByLabel('Server').fill('https://registry.example.com');
  await page.getByLabel('User').fill('somebody');
  await page.getByLabel('Password').fill('secret');
  const reply = await holding(page, '**/registrycredentials/add', 'POST');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await reply.asked;
  await page.getByRole('link', { name: 'Images' }).click();
  await page.getByRole('heading', { name: 'Images' }).waitFor();
  await reply.refuse();
  await page.getByRole('alert').getByText(`Add a login: ${why}`).waitFor();
});
