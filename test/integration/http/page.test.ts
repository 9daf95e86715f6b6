import type { ServerHttp2Session } from 'node:http2';
import type { Page, Request, Route } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  images,
  registryCredentials,
  serviceAccounts,
  vmConfigs,
  vmPools,
  vms,
} from '../../../src/api/resources.ts';
import { clusterRoles } from '../../support/resources.ts';
import type { VmPoolStatus } from '../../../src/api/vmpool.ts';
import { ifFound, isSvc3Error } from '../../../src/errors.ts';
import { explain } from '../../../src/usecases/explanation.ts';
import { liveAddress } from '../../../src/http/ui/page/live.ts';
import { condition, reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { expectGoodLooks, watchPage } from '../../support/visitedpage.ts';
import { pending, signIn, startPageApi, type PageApi, type Visit } from './pageharness.ts';

let it: PageApi;
let cluster: PageApi['cluster'];
let api: PageApi['api'];
let namespace: string;

beforeAll(async () => {
  it = await startPageApi('page');
  ({ cluster, api, namespace } = it);
});

afterAll(async () => {
  await it?.close();
});

describe('signing in', () => {
  test('needs a token that is good; the page keeps none', async () => {
    const { page, watched } = await it.visit();
    await page.getByLabel('Token').waitFor();
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

  test('shows a page that can be read while the server is asked who has come', async () => {
    const { page, watched } = await it.visit();
    await page.getByLabel('Token').waitFor();
    const asked = Promise.withResolvers<void>();
    await page.route('**/ui/session', (route) => asked.promise.then(() => route.continue()));
    await page.reload();
    await page.getByText('Loading').waitFor();
    await expectGoodLooks(page);
    asked.resolve();
    await page.getByLabel('Token').waitFor();
    expect(watched.faults).toEqual([]);
  });

  test('lasts until the server has ended it, and who could not sign out is told so', async () => {
    const { page, watched } = await it.visitAs(cluster.adminToken);
    const answers = new Map<string, (route: Route) => Promise<void>>([
      ['the server does not answer', (route) => route.abort()],
      [
        'all places are taken',
        (route) => route.fulfill({ status: 503, json: { message: 'all places are taken' } }),
      ],
      [
        'not from there',
        (route) => route.fulfill({ status: 403, json: { kind: 'Status', message: 'not from there' } }),
      ],
    ]);
    const signOut = page.getByRole('button', { name: 'Sign out' });
    for (const [why, answer] of answers) {
      await page.route('**/ui/session', answer, { times: 1 });
      await signOut.click();
      await page
        .getByRole('alert')
        .filter({ hasText: `You are still signed in: ${why}` })
        .waitFor();
      expect(await page.getByLabel('Token').count()).toBe(0);
    }
    await expectGoodLooks(page);
    await page.reload();
    await signOut.click();
    await page.getByLabel('Token').waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);

    // Whose session is over already has nothing to sign out of.
    await signIn(page, cluster.adminToken);
    await page.route('**/ui/session', (route) => route.fulfill({ status: 401, json: { kind: 'Status' } }), {
      times: 1,
    });
    await signOut.click();
    await page.getByLabel('Token').waitFor();
    expect(watched.faults).toEqual([]);
  });

  test('is done by the address of svc3 ui, once, with less than 150 kB beside the stream of what lives', async () => {
    const { json } = await api.call('POST', '/ui/code', { token: cluster.adminToken, body: {} });
    const { page, watched } = await it.visit(json.page.replace('/ui', ''));
    await page.getByRole('heading', { name: 'VMs' }).waitFor();
    expect(page.url()).toBe(`${api.baseUrl}/ui`);
    expect(await watched.bytes()).toBeLessThan(150_000);
    await page.context().clearCookies();
    await page.goto('about:blank');
    await page.goto(`${api.baseUrl}${json.page}`);
    await expect.poll(() => page.getByRole('alert').textContent()).toContain('has been used');
    expect(watched.faults).toEqual([]);
  });

  test('as another user is asked about, whatever address somebody was led to', async () => {
    const other = await identity(cluster.client, 'lurer', { namespace });
    const { page, watched } = await it.visitAs(cluster.adminToken);
    const before = await page.locator('.user').innerText();
    const lead = async () => {
      const { json } = await api.call('POST', '/ui/code', { token: other, body: {} });
      await page.goto('about:blank');
      await page.goto(`${api.baseUrl}${json.page}`);
      await page.getByText(`the code is one of system:serviceaccount:${namespace}:lurer`).waitFor();
    };
    await lead();
    await expectGoodLooks(page);
    await page.getByRole('button', { name: 'Stay signed in as before' }).click();
    await expect.poll(() => page.locator('.user').innerText()).toBe(before);
    await lead();
    await page.getByRole('button', { name: 'Sign in as the other user' }).click();
    await expect
      .poll(() => page.locator('.user').innerText())
      .toBe(`system:serviceaccount:${namespace}:lurer`);
    // Answered once: whoever signs out is not asked again.
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(watched.faults).toEqual([]);
  });

  test('is for all tabs of a browser: none shows one user and acts as another', async () => {
    const other = await identity(cluster.client, 'second', { namespace });
    const { page, watched } = await it.visitAs(cluster.adminToken);
    const context = page.context();
    const shown = () => page.locator('.user').innerText();
    const admin = await shown();
    const opened = await page.evaluate('performance.timeOrigin');
    const tab = await context.newPage();
    const { faults } = watchPage(tab, api.baseUrl);
    const { json } = await api.call('POST', '/ui/code', { token: cluster.adminToken, body: {} });
    await tab.goto(`${api.baseUrl}${json.page}`);
    const signOut = tab.getByRole('button', { name: 'Sign out' });
    await signOut.waitFor();
    // Of the same user nothing changes.
    expect(await page.evaluate('performance.timeOrigin')).toBe(opened);
    await signOut.click();
    await page.getByLabel('Token').waitFor();
    await signIn(tab, other);
    await expect.poll(shown).toBe(`system:serviceaccount:${namespace}:second`);

    // Nobody told the tabs of this one: they look when they are seen again.
    await context.request.post(`${api.baseUrl}/ui/session`, {
      headers: { origin: api.baseUrl },
      data: { token: cluster.adminToken },
    });
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await expect.poll(shown).toBe(admin);
    expect([...watched.faults, ...faults]).toEqual([]);
  });
});

describe('the VMs', () => {
  test('are shown as they are, without a reload, and found by words and state', async () => {
    await runningVm(api, namespace, 'web');
    const waiting = await it.aVm('waiting');
    await reportVm(cluster.client, waiting, pending('no node has 900 free CPUs'));
    const { page, watched } = await it.visitAs(cluster.adminToken);
    const rows = () => page.locator('tbody tr').allInnerTexts();
    await expect.poll(async () => (await rows()).join('\n')).toContain('no node has 900 free CPUs');
    await expectGoodLooks(page);

    const before = await page.evaluate('performance.timeOrigin');
    const later = await it.aVm('later');
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

  test('are there again after the connection was cut', async () => {
    const sessions = new Set<ServerHttp2Session>();
    const keep = (session: ServerHttp2Session): void => void sessions.add(session);
    api.api.http.server.on('session', keep);
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await it.aVm('before');
    await page.getByRole('link', { name: 'before' }).waitFor();
    api.api.http.server.off('session', keep);
    for (const session of sessions) session.destroy();
    await it.aVm('after');
    await page.getByRole('link', { name: 'after' }).waitFor();
    await page.getByText('The connection was lost').waitFor({ state: 'detached' });
    expect(watched.faults).toEqual([]);
  });

  test('run no script, whatever is written in them', async () => {
    const vm = await it.aVm('scripted');
    const message = '<img src=x onerror=alert(1)><script>alert(2)</script>';
    await reportVm(cluster.client, vm, pending(message));
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await page.getByText(message).first().waitFor();
    expect([await page.locator('main img').count(), watched.faults]).toEqual([0, []]);
  });

  test('are not shown to whoever may not list them', async () => {
    await runningVm(api, namespace, 'unlisted');
    const { page: seen } = await it.visitAs(cluster.adminToken);
    await seen.getByRole('link', { name: 'unlisted', exact: true }).waitFor();
    const token = await identity(cluster.client, 'unbound', {
      namespace,
      clusterRole: 'system:discovery',
    });
    const { page, watched } = await it.visitAs(token);
    await page.getByText('your account lacks the right').waitFor();
    expect(await page.content()).not.toContain('unlisted');
    const told = await page.evaluate(`new Promise((done) => {
      const source = new EventSource(${JSON.stringify(liveAddress(namespace))});
      source.addEventListener('snapshot', ({ data }) => done(data) ?? source.close());
    })`);
    expect(told).toBe('{}');
    expect(await page.locator('tbody tr').count()).toBe(0);
    expect(await page.getByRole('link', { name: 'Deploy a VM' }).count()).toBe(0);
    expect(watched.faults).toEqual([]);
  });
});

describe('one VM', () => {
  const open = async (name: string, token = cluster.adminToken): Promise<Visit> => {
    const visited = await it.visitAs(token);
    await visited.page.getByRole('link', { name, exact: true }).click();
    await visited.page.getByRole('heading', { name, exact: true }).waitFor();
    return visited;
  };
  const specOf = async (name: string) => (await cluster.client.get(vms, name, namespace)).spec;

  test('says why it is as it is, and is started and stopped', async () => {
    await runningVm(api, namespace, 'power');
    const { page, watched } = await open('power');
    await page.getByRole('cell', { name: 'Scheduled', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Delete …' }).waitFor();
    await expectGoodLooks(page);
    expect(await page.getByRole('button', { name: 'Start', exact: true }).count()).toBe(0);

    await page.getByRole('button', { name: 'Stop …' }).click();
    const dialog = page.getByRole('dialog', { name: 'Stop power?' });
    await expectGoodLooks(page);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect((await specOf('power')).powerState).toBe('Running');

    await page.getByRole('button', { name: 'Stop …' }).click();
    await dialog.getByRole('button', { name: 'Stop', exact: true }).click();
    await expect.poll(async () => (await specOf('power')).powerState).toBe('Stopped');
    const stopped = await cluster.client.get(vms, 'power', namespace);
    await reportVm(cluster.client, stopped, { ...runningStatus, powerState: 'Stopped' });
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await expect.poll(async () => (await specOf('power')).powerState).toBe('Running');
    expect(watched.faults).toEqual([]);
  });

  /** What the page asks of why a VM is as it is, and how many seconds of its clock, which goes on by itself, too, it takes. */
  const asking = async (page: Page) => {
    const asked: string[] = [];
    const underWay = new Set<Request>();
    const isMeant = (request: Request) => new URL(request.url()).pathname.endsWith('/explain');
    page.on('request', (request) => {
      if (!isMeant(request)) return;
      const { pathname, search } = new URL(request.url());
      asked.push(`${pathname.split('/').at(-2)}${search}`);
      underWay.add(request);
    });
    page.on('requestfinished', (request) => underWay.delete(request));
    page.on('requestfailed', (request) => underWay.delete(request));
    await page.clock.install();
    const now = () => page.evaluate<number>('Date.now()');
    let since = await now();
    return {
      asked,
      underWay,
      async begin() {
        asked.length = 0;
        since = await now();
      },
      seconds: async () => ((await now()) - since) / 1000,
      count: (what: string) => asked.filter((one) => one === what).length,
      /** The page has every answer. */
      async answered() {
        await expect.poll(() => underWay.size).toBe(0);
        await page.evaluate('fetch("/ui/session").then((reply) => reply.text())');
      },
    };
  };

  test('is asked about without the nodes once it has one, and less often about them while it has none', async () => {
    await runningVm(api, namespace, 'placed');
    const unplaced = await it.aVm('unplaced');
    await reportVm(cluster.client, unplaced, pending('no node has 900 free CPUs'));
    const { page, watched } = await it.visitAs(cluster.adminToken);
    const { asked, begin, seconds, count, answered } = await asking(page);
    /** For how many seconds it was watched after it was opened. */
    const watchedFor = async (name: string) => {
      await page.getByRole('link', { name, exact: true }).click();
      await page.getByRole('cell', { name: 'Scheduled', exact: true }).waitFor();
      await begin();
      for (let at = 0; at < 20; at += 1) {
        await page.clock.runFor(3_000);
        await answered();
      }
      return seconds();
    };
    const before = await watchedFor('unplaced');
    expect(new Set(asked)).toEqual(new Set(['unplaced', 'unplaced?nodes=false']));
    expect(count('unplaced')).toBeLessThanOrEqual(1 + before / 15);
    expect(count('unplaced')).toBeGreaterThan(before / 15 - 2);
    await page.getByRole('link', { name: 'VMs', exact: true }).click();
    const after = await watchedFor('placed');
    expect(new Set(asked)).toEqual(new Set(['placed?nodes=false']));
    expect(asked.length).toBeGreaterThan(after / 5 - 2);
    expect(watched.faults).toEqual([]);
  });

  test('is asked about without the nodes when it changes, however often, and what they said stays', async () => {
    const vm = await it.aVm('changing');
    await reportVm(cluster.client, vm, pending('no node has 900 free CPUs'));
    const { page, watched } = await it.visitAs(cluster.adminToken);
    // The cluster of this test has no nodes.
    const nodes = [{ node: 'n1', fits: false, reasons: ['Insufficient cpu'] }];
    await page.route('**/changing/explain', async (route) => {
      const found = await explain(cluster.client, namespace, 'changing', { nodes: false });
      await route.fulfill({ json: { ...found, nodes } });
    });
    const { begin, seconds, count, answered } = await asking(page);
    await page.getByRole('link', { name: 'changing', exact: true }).click();
    const verdict = page.getByRole('cell', { name: 'Insufficient cpu' });
    await verdict.waitFor();
    await begin();
    for (let at = 0; at < 30; at += 1) {
      await reportVm(cluster.client, vm, pending(`${at} nodes have no 900 free CPUs`));
      await page.getByRole('cell', { name: `${at} nodes have no 900 free CPUs`, exact: true }).waitFor();
      expect(await verdict.count()).toBe(1);
      await page.clock.runFor(1_000);
      await answered();
    }
    expect(count('changing')).toBeLessThanOrEqual(1 + (await seconds()) / 15);
    expect(count('changing?nodes=false')).toBeGreaterThan(20);
    expect(watched.faults).toEqual([]);
  });

  test('is asked about once at a time, and not for who has left it', async () => {
    const vm = await it.aVm('held');
    await reportVm(cluster.client, vm, pending('no node has 900 free CPUs'));
    const { page, watched } = await it.visitAs(cluster.adminToken);
    const { asked, underWay } = await asking(page);
    const held: Route[] = [];
    await page.route('**/held/explain*', (route) => void held.push(route));
    const open = () => page.getByRole('link', { name: 'held', exact: true }).click();
    await open();
    await expect.poll(() => asked).toEqual(['held']);
    for (let at = 0; at < 20; at += 1) {
      await reportVm(cluster.client, vm, pending(`${at} nodes have no 900 free CPUs`));
      await page.getByText(`${at} nodes have no 900 free CPUs`).first().waitFor();
      await page.clock.runFor(3_000);
    }
    expect(asked).toEqual(['held']);
    await held[0]?.continue();
    // It has changed since the question.
    await expect.poll(() => asked).toEqual(['held', 'held?nodes=false']);
    await page.getByRole('link', { name: 'VMs', exact: true }).click();
    await expect.poll(() => underWay.size).toBe(0);
    expect(held[1]?.request().failure()?.errorText).toBe('net::ERR_ABORTED');
    expect(asked).toHaveLength(2);
    expect(watched.faults).toEqual([]);
  });

  test('shows its screen', async () => {
    await runningVm(api, namespace, 'screen');
    const { page, watched } = await open('screen');
    await page.getByRole('button', { name: 'Console', exact: true }).click();
    await page.getByText('Connected', { exact: true }).waitFor();
    await page.locator('.screen canvas').waitFor();
    await expectGoodLooks(page);
    expect(watched.faults).toEqual([]);
  });

  test('shows its screen to nobody whose account is deleted, and asks for another', async () => {
    await runningVm(api, namespace, 'left');
    const token = await identity(cluster.client, 'leaver', { namespace, clusterRole: 'cluster-admin' });
    const { page, watched } = await open('left', token);
    await page.getByRole('button', { name: 'Console', exact: true }).click();
    await page.getByText('Connected', { exact: true }).waitFor();
    await cluster.client.delete(serviceAccounts, { name: 'leaver', namespace });
    await page.getByLabel('Token').waitFor();
    expect(await page.locator('canvas').count()).toBe(0);
    expect(await page.getByRole('alert').textContent()).not.toBe('');
    expect(watched.faults).toEqual([]);
  });

  test('is saved, and deleted with its disk after what that means was said', async () => {
    await runningVm(api, namespace, 'leaving');
    const { page, watched } = await open('leaving');
    await page.getByRole('button', { name: 'Save …' }).click();
    await page.getByLabel('Name of the image').fill('kept');
    await expectGoodLooks(page);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The disk is being saved as image kept.').waitFor();
    expect((await cluster.client.get(images, 'kept', namespace)).spec.source.vm?.name).toBe('leaving');

    await page.getByRole('button', { name: 'Delete …' }).click();
    await page.getByText('gone for good').waitFor();
    await expectGoodLooks(page);
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('There is no VM leaving').waitFor();
    await expect.poll(() => ifFound(cluster.client.get(vms, 'leaving', namespace))).toBeUndefined();
    expect(watched.faults).toEqual([]);
  });

  test('is only looked at by who may do no more', async () => {
    await runningVm(api, namespace, 'guarded');
    await cluster.client.create(clusterRoles, {
      metadata: { name: `${namespace}-look` },
      rules: [{ apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['get', 'list', 'watch'] }],
    });
    const token = await identity(cluster.client, 'looker', { namespace, role: `${namespace}-look` });
    const { page, watched } = await open('guarded', token);
    await page.getByRole('cell', { name: 'Scheduled', exact: true }).waitFor();
    expect(await page.locator('main button').count()).toBe(0);
    expect(await page.locator('nav a').allInnerTexts()).toEqual(['VMs']);
    expect(watched.faults).toEqual([]);
  });
});

describe('a deploy', () => {
  test('is a form of what the server takes, with refusals at their fields', async () => {
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await page.getByRole('link', { name: 'Deploy a VM' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Not a name');
    await page.getByLabel('CPU', { exact: true }).fill('two');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByText('is no number').waitFor();
    await page.getByLabel('CPU', { exact: true }).fill('1000');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    const refused = page.locator('[aria-invalid=true]');
    await expect
      .poll(() => refused.evaluateAll((all) => all.map(({ id }) => id)))
      .toEqual(['field-name', 'field-cpu']);
    await expectGoodLooks(page);
    await page.getByText('More settings').click();
    await expectGoodLooks(page);

    await page.getByLabel('Name', { exact: true }).fill('deployed');
    await page.getByLabel('CPU', { exact: true }).fill('1');
    await page.getByLabel('Image', { exact: true }).fill('registry.example.com/team/debian:12');
    await page.getByLabel('Size', { exact: true }).fill('3Gi');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByRole('heading', { name: 'deployed' }).waitFor();
    const { spec } = await cluster.client.get(vms, 'deployed', namespace);
    expect([spec.cpu, spec.disk?.size]).toEqual([1, '3Gi']);
    expect(watched.faults).toEqual([]);
  });

  test('takes lists item by item, with refusals at the field of the item', async () => {
    const { page, watched } = await it.visitAs(cluster.adminToken, '#/deploy');
    const deploy = page.getByRole('button', { name: 'Deploy', exact: true });
    const focused = () =>
      page.evaluate<string>('document.activeElement.id || document.activeElement.ariaLabel');
    const add = (list: string) => page.getByRole('button', { name: `Add to ${list}`, exact: true }).click();
    const item = (name: string) => page.getByRole('group', { name, exact: true });
    await page.getByLabel('Name', { exact: true }).fill('listed');
    await page.getByLabel('Image', { exact: true }).fill('registry.example.com/team/debian:12');
    await page.getByText('More settings').click();
    await add('Disks');
    // Who adds one goes on in it.
    await expect.poll(focused).toBe('field-disks[0].name');
    await page.keyboard.insertText('Not a name');
    await item('Disks 1').getByLabel('Size').fill('1Gi');
    await add('Tolerations');
    await item('Tolerations 1').getByLabel('Key').fill('gpu');
    await add('Tolerations');
    await item('Tolerations 2').getByLabel('Operator').selectOption('Exists');
    await add('Node selector terms');
    await item('Node selector terms 1').getByRole('button', { name: 'Add to Match expressions' }).click();
    await expect.poll(focused).toMatch(/nodeSelectorTerms\[0\]\.matchExpressions\[0\]\.key$/);
    await page.keyboard.insertText('zone');
    await item('Match expressions 1').getByLabel('Operator').selectOption('Exists');
    await expectGoodLooks(page);
    await deploy.click();
    const refused = page.locator('[aria-invalid=true]');
    await expect
      .poll(() => refused.evaluateAll((all) => all.map(({ id }) => id)))
      .toEqual(['field-disks[0].name']);
    expect(await focused()).toBe('field-disks[0].name');
    await item('Disks 1').getByLabel('Name (required)').fill('logs');
    await page.getByRole('button', { name: 'Remove Tolerations 1' }).click();
    await expect.poll(focused).toBe('Add to Tolerations');
    expect(await item('Tolerations 1').getByLabel('Operator').inputValue()).toBe('Exists');
    expect(await item('Tolerations 2').count()).toBe(0);
    await deploy.click();
    await page.getByRole('heading', { name: 'listed' }).waitFor();
    expect((await cluster.client.get(vms, 'listed', namespace)).spec).toMatchObject({
      disks: [{ name: 'logs', size: '1Gi' }],
      tolerations: [{ operator: 'Exists' }],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: 'zone', operator: 'Exists' }] }],
          },
        },
      },
    });
    expect(watched.faults).toEqual([]);
  });

  test('says what is refused of a group and of no field of it', async () => {
    const { page, watched } = await it.visitAs(cluster.adminToken, '#/deploy');
    await page.getByLabel('Name', { exact: true }).fill('grouped');
    await page.getByLabel('Image', { exact: true }).fill('registry.example.com/team/debian:12');
    await page.getByText('More settings').click();
    const readiness = page.getByRole('group', { name: 'Readiness', exact: true });
    await readiness.getByLabel('Guest agent').selectOption('Yes');
    await readiness.getByLabel('None').selectOption('Yes');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await readiness.getByRole('alert').waitFor();
    await expectGoodLooks(page);
    expect(watched.faults).toEqual([]);
  });
});

describe('pools', () => {
  const image = 'registry.example.com/team/debian:12';
  const aPool = (name: string) =>
    cluster.client.create(vmPools, {
      metadata: { name, namespace },
      spec: { template: { image }, minIdle: 2, maxSize: 4, standby: 'Suspended', serveConfig: false },
    });
  /** As the operator, which is not here, says it. */
  const report = async (name: string, status: VmPoolStatus): Promise<void> => {
    const { generation } = (await cluster.client.get(vmPools, name, namespace)).metadata;
    const body = { status: { observedGeneration: generation, ...status } };
    const key = { name, namespace };
    await cluster.client.patch(vmPools, key, { type: 'merge', body }, { subresource: 'status' });
  };
  const open = async (token = cluster.adminToken): Promise<Visit> => {
    const visited = await it.visitAs(token);
    await visited.page.getByRole('link', { name: 'Pools', exact: true }).click();
    await visited.page.getByRole('heading', { name: 'Pools' }).waitFor();
    return visited;
  };

  test('are shown as they are, without a reload', async () => {
    const { page, watched } = await open();
    const before = await page.evaluate('performance.timeOrigin');
    await aPool('seen');
    const row = page.locator('tbody tr', { hasText: 'seen' });
    await expect.poll(() => row.innerText()).toContain('0 of 2');
    await report('seen', {
      conditions: [condition('Ready', 'False', 'Unschedulable', 'no node has 900 free CPUs')],
      idle: 1,
      preparing: 1,
      claimed: 3,
    });
    await page.getByText('no node has 900 free CPUs').waitFor();
    const said = await row.innerText();
    for (const words of ['Updating', '1 of 2', '1 preparing', image, 'Suspended while they wait'])
      expect(said).toContain(words);
    expect(await row.locator('td[data-title="Claimed"]').innerText()).toBe('3');
    expect(await row.locator('td[data-title="Max size"]').innerText()).toBe('4');
    await page.getByRole('button', { name: 'Delete seen' }).waitFor();
    await expectGoodLooks(page);

    await report('seen', { conditions: [condition('Ready', 'True', 'Filled', '')], idle: 2, preparing: 0 });
    await expect.poll(() => row.innerText()).toContain('2 of 2');
    expect(await row.innerText()).not.toContain('preparing');
    await cluster.client.delete(vmPools, { name: 'seen', namespace });
    await row.waitFor({ state: 'detached' });
    expect(await page.evaluate('performance.timeOrigin')).toBe(before);
    expect(watched.faults).toEqual([]);
  });

  test('are made, scaled and deleted, after what that means was said', async () => {
    const specOf = async () => (await cluster.client.get(vmPools, 'ci', namespace)).spec;
    const { page, watched } = await open();
    await page.getByRole('button', { name: 'New pool' }).click();
    await page.getByLabel('Name (required)', { exact: true }).fill('ci');
    await page.getByLabel('Min idle', { exact: true }).fill('2');
    await page.getByLabel('Max size', { exact: true }).fill('1');
    await page.getByLabel('Image', { exact: true }).fill(image);
    await page.getByRole('button', { name: `Create in ${namespace}` }).click();
    await page.getByText('maxSize must not be less than minIdle').first().waitFor();
    const refused = page.locator('[aria-invalid=true]');
    expect(await refused.evaluateAll((all) => all.map(({ id }) => id))).toEqual(['field-maxSize']);
    await expectGoodLooks(page);
    await page.getByLabel('Max size', { exact: true }).fill('4');
    await page.getByRole('button', { name: `Create in ${namespace}` }).click();
    await page.getByRole('button', { name: 'Scale ci' }).click();
    expect(await specOf()).toMatchObject({
      minIdle: 2,
      maxSize: 4,
      standby: 'Suspended',
      template: { image },
    });

    const scaling = page.getByRole('dialog', { name: 'Scale ci' });
    const idle = scaling.getByLabel('Min idle (required)', { exact: true });
    expect(await idle.inputValue()).toBe('2');
    await idle.fill('9');
    await scaling.getByRole('button', { name: 'Scale', exact: true }).click();
    await scaling.getByText('maxSize must not be less than minIdle').waitFor();
    await expectGoodLooks(page);
    await idle.fill('3');
    await scaling.getByLabel('Max size', { exact: true }).fill('5');
    await scaling.getByRole('button', { name: 'Scale', exact: true }).click();
    await scaling.waitFor({ state: 'detached' });
    await expect.poll(() => page.locator('tbody tr', { hasText: 'ci' }).innerText()).toContain('0 of 3');
    expect(await specOf()).toMatchObject({ minIdle: 3, maxSize: 5 });

    await page.getByRole('button', { name: 'Delete ci' }).click();
    const deleting = page.getByRole('dialog', { name: 'Delete ci?' });
    await deleting.getByText('VMs that have claimed one stay').waitFor();
    await expectGoodLooks(page);
    await deleting.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete ci' }).waitFor({ state: 'detached' });
    await expect.poll(() => ifFound(cluster.client.get(vmPools, 'ci', namespace))).toBeUndefined();
    expect(watched.faults).toEqual([]);
  });

  test('are offered by the form of a deploy', async () => {
    await aPool('warm');
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await page.getByRole('link', { name: 'Deploy a VM' }).click();
    await page.locator('#field-pool-names option[value=warm]').waitFor({ state: 'attached' });
    await page.getByLabel('Name', { exact: true }).fill('of-pool');
    await page.getByLabel('Pool', { exact: true }).fill('warm');
    await page.getByLabel('CPU', { exact: true }).fill('1');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByText('pool excludes cpu').first().waitFor();
    await page.getByLabel('CPU', { exact: true }).fill('');
    await page.getByRole('button', { name: 'Deploy', exact: true }).click();
    await page.getByRole('heading', { name: 'of-pool' }).waitFor();
    await expect.poll(() => page.locator('dl').innerText()).toContain('warm');
    expect((await cluster.client.get(vms, 'of-pool', namespace)).spec).toMatchObject({ pool: 'warm' });
    expect(watched.faults).toEqual([]);
  });

  test.each([
    ['look', ['get', 'list', 'watch'], []],
    ['scale', ['get', 'list', 'watch', 'patch'], ['Scale']],
    ['delete', ['get', 'list', 'watch', 'delete'], ['Delete']],
  ])('offer what may be done to who may %s', async (may, verbs, offered) => {
    await aPool('guarded').catch((error: unknown) => {
      if (!isSvc3Error(error, 'AlreadyExists')) throw error;
    });
    const role = `${namespace}-pools-${may}`;
    await cluster.client.create(clusterRoles, {
      metadata: { name: role },
      rules: [
        { apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['list'] },
        { apiGroups: ['svc3.dev'], resources: ['vmpools'], verbs },
      ],
    });
    const token = await identity(cluster.client, `pools-${may}`, { namespace, role });
    const { page, watched } = await open(token);
    await page.locator('tbody tr', { hasText: 'guarded' }).waitFor();
    for (const verb of offered) await page.getByRole('button', { name: `${verb} guarded` }).waitFor();
    // The rights were known before the view was: what they allow is drawn with the next frames.
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
    const buttons = page.locator('main').getByRole('button');
    const labels = await buttons.evaluateAll((all) => all.map(({ ariaLabel }) => ariaLabel));
    // Other pools are there as well.
    expect(new Set(labels.map((label) => label?.split(' ')[0]))).toEqual(new Set(offered));
    expect(watched.faults).toEqual([]);
  });
});

describe('images', () => {
  test('are shown with their progress and deleted', async () => {
    const made = await cluster.client.create(images, {
      metadata: { name: 'slow', namespace },
      spec: { source: { upload: {} }, description: '<script>alert(3)</script>' },
    });
    const key = { name: 'slow', namespace };
    const status = { observedGeneration: made.metadata.generation, progress: 42 };
    await cluster.client.patch(images, key, { type: 'merge', body: { status } }, { subresource: 'status' });
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await page.getByRole('link', { name: 'Images' }).click();
    await expect.poll(() => page.getByLabel('Progress of slow').getAttribute('value')).toBe('42');
    await expectGoodLooks(page);
    // A word of state is one word where there is little room, too.
    await page.setViewportSize({ width: 760, height: 900 });
    const heights = page.locator('.badge').evaluateAll((all) => all.map((badge) => badge.clientHeight));
    for (const height of await heights) expect(height).toBeLessThan(30);
    expect(await page.getByRole('link', { name: 'Download slow' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Delete slow' }).click();
    await page.getByRole('dialog').getByText('refused while a VM or a pool uses it').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await expect.poll(() => ifFound(cluster.client.get(images, 'slow', namespace))).toBeUndefined();
    await page.getByRole('button', { name: 'Delete slow' }).waitFor({ state: 'detached' });
    expect(watched.faults).toEqual([]);
  });
});

test('an image is downloaded while a commit of it is under way', async () => {
  const key = { name: 'committed', namespace };
  const made = await cluster.client.create(images, { metadata: key, spec: { source: { upload: {} } } });
  const stored = condition('Ready', 'True', 'Stored');
  const { generation = 1 } = made.metadata;
  // It has been carried out up to the generation before.
  const status = {
    observedGeneration: generation - 1,
    digest: `sha256:${'a'.repeat(64)}`,
    conditions: [stored],
  };
  await cluster.client.patch(images, key, { type: 'merge', body: { status } }, { subresource: 'status' });
  const { page, watched } = await it.visitAs(cluster.adminToken);
  await page.getByRole('link', { name: 'Images' }).click();
  const row = page.locator('tbody tr', { hasText: 'committed' });
  await expect.poll(() => row.innerText()).toContain('Updating');
  await row.getByRole('link', { name: 'Download committed' }).waitFor();
  expect(watched.faults).toEqual([]);
});

describe('an administrator', () => {
  test('sees nodes, and gives logins of registries that nobody reads again', async () => {
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await page.getByRole('link', { name: 'Nodes' }).click();
    await page.getByText('No node takes VMs.').waitFor();
    await page.getByRole('link', { name: 'Registry credentials' }).click();
    await page.getByText('Add a login').click();
    await page.getByLabel('Server').fill('https://registry.example.com');
    await page.getByLabel('User').fill('robot');
    await page.getByLabel('Password').fill('secret-of-the-registry');
    await expectGoodLooks(page);
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('cell', { name: 'robot' }).waitFor();
    const shown = await page.evaluate<string>(
      'document.documentElement.outerHTML + [...document.querySelectorAll("input")].map(({ value }) => value).join()',
    );
    expect(shown).not.toContain('secret-of-the-registry');
    await page.getByRole('button', { name: /^Remove https/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    // The operator, which is not here, takes its Secrets away.
    await expect
      .poll(async () => {
        const { items } = await cluster.client.list(registryCredentials, { namespace });
        return items.every(({ metadata }) => metadata.deletionTimestamp !== undefined);
      })
      .toBe(true);
    expect(watched.faults).toEqual([]);
  });

  test('makes a configuration', async () => {
    const { page, watched } = await it.visitAs(cluster.adminToken);
    await page.getByRole('link', { name: 'Configurations' }).click();
    await page.getByRole('button', { name: 'New configuration' }).click();
    await page.getByLabel('Name (required)', { exact: true }).fill('builder');
    await page.getByLabel('Image (required)', { exact: true }).fill('registry.example.com/team/debian:12');
    await page.getByRole('button', { name: `Create in ${namespace}` }).click();
    await page.getByRole('button', { name: 'Delete builder' }).waitFor();
    await expectGoodLooks(page);
    expect((await cluster.client.get(vmConfigs, 'builder', namespace)).spec.image).toContain('debian:12');
    expect(watched.faults).toEqual([]);
  });
});
