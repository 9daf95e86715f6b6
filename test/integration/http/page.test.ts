import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { namespaces, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import {
  condition,
  identity,
  reportVm,
  runningStatus,
  runningVm,
  startTestApi,
  type TestApi,
} from '../../support/api.ts';
import { startBrowser } from '../../support/browser.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { expectGoodLooks, watchPage } from '../../support/visitedpage.ts';

let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'page');
  await cluster.client.create(namespaces, { metadata: { name: 'svc3-system' } }).catch((error: unknown) => {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  });
  api = await startTestApi(cluster.client, ({ settings }) => ({
    settings: { ...settings, defaultNamespace: namespace },
  }));
});

afterAll(async () => {
  await api?.close();
});

interface Visit {
  readonly page: Page;
  readonly watched: ReturnType<typeof watchPage>;
}

async function visit(fragment = ''): Promise<Visit> {
  const browser = await startBrowser();
  const page = await browser.newPage();
  const watched = watchPage(page, api.baseUrl);
  await page.goto(`${api.baseUrl}/ui${fragment}`);
  return { page, watched };
}

async function visitAs(token: string, fragment = ''): Promise<Visit> {
  const visited = await visit(fragment);
  await visited.page.getByLabel('Token').fill(token);
  await visited.page.getByRole('button', { name: 'Sign in' }).click();
  await visited.page.getByRole('heading', { name: 'VMs' }).waitFor();
  return visited;
}

const pending = (message: string) => ({
  conditions: [condition('Scheduled', 'False', 'Unschedulable', message)],
});

async function aVm(name: string): Promise<Vm> {
  return cluster.client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });
}

describe('signing in', () => {
  test('needs a token that is good; the page keeps none', async () => {
    const { page, watched } = await visit();
    await expectGoodLooks(page);
    await page.getByLabel('Token').fill('nonsense');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    await expectGoodLooks(page);
    await page.getByLabel('Token').fill(cluster.adminToken);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'VMs' }).waitFor();
    const kept = await page.evaluate<string>(
      'JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, document.documentElement.outerHTML])',
    );
    expect(kept).not.toContain(cluster.adminToken);
    await page.reload();
    await page.getByRole('heading', { name: 'VMs' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    await page.reload();
    await page.getByLabel('Token').waitFor();
    expect(watched.faults).toEqual([]);
  });

  test('is done by the address of svc3 ui, once', async () => {
    const { json } = await api.call('POST', '/ui/code', { token: cluster.adminToken, body: {} });
    const { page, watched } = await visit(json.page.replace('/ui', ''));
    await page.getByRole('heading', { name: 'VMs' }).waitFor();
    expect(page.url()).toBe(`${api.baseUrl}/ui`);
    expect(await watched.bytes()).toBeLessThan(150_000);
    await page.context().clearCookies();
    await page.goto('about:blank');
    await page.goto(`${api.baseUrl}${json.page}`);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('has been used');
    expect(watched.faults).toEqual([]);
  });
});

describe('the VMs', () => {
  test('are shown as they are, without a reload, and found by words and state', async () => {
    await runningVm(api, namespace, 'web');
    const waiting = await aVm('waiting');
    await reportVm(cluster.client, waiting, pending('no node has 900 free CPUs'));
    const { page, watched } = await visitAs(cluster.adminToken);
    const rows = () => page.locator('tbody tr').allInnerTexts();
    await expect.poll(async () => (await rows()).join('\n')).toContain('no node has 900 free CPUs');
    await expectGoodLooks(page);

    const before = await page.evaluate('performance.timeOrigin');
    const later = await aVm('later');
    await page.getByRole('link', { name: 'later' }).waitFor();
    await reportVm(cluster.client, later, runningStatus);
    await expect.poll(() => page.locator('tr', { hasText: 'later' }).innerText()).toContain('Running');
    await cluster.client.delete(vms, { name: 'later', namespace });
    await page.getByRole('link', { name: 'later' }).waitFor({ state: 'detached' });
    expect(await page.evaluate('performance.timeOrigin')).toBe(before);

    await page.getByLabel('Search').fill('900 free');
    expect(await rows()).toEqual([expect.stringContaining('waiting')]);
    await page.getByLabel('Search').fill('');
    await page.getByLabel('State').selectOption('Running');
    expect(await rows()).toEqual([expect.stringContaining('web')]);
    expect(watched.faults).toEqual([]);
  });

  test('run no script, whatever is written in them', async () => {
    const vm = await aVm('scripted');
    const message = '<img src=x onerror=alert(1)><script>alert(2)</script>';
    await reportVm(cluster.client, vm, pending(message));
    const { page, watched } = await visitAs(cluster.adminToken);
    await page.getByText(message).first().waitFor();
    expect([await page.locator('main img').count(), watched.faults]).toEqual([0, []]);
  });

  test('of others are shown to nobody', async () => {
    const token = await identity(cluster.client, 'stranger', { namespace, clusterRole: 'system:discovery' });
    const { page, watched } = await visitAs(token);
    await page.getByText('There are no VMs here.').waitFor();
    expect(await page.getByRole('link', { name: 'Deploy a VM' }).count()).toBe(0);
    expect(watched.faults).toEqual([]);
  });
});
