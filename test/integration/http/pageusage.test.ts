/** The plots of one VM; what a real runner tells: test/integration/runner/metrics.test.ts. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { serviceAccounts, vms } from '../../../src/api/resources.ts';
import { Svc3Error } from '../../../src/errors.ts';
import type { VmUsages } from '../../../src/http/call/services.ts';
import { reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { usagesStandIn } from '../../support/vmusage.ts';
import { startPageApi, type PageApi, type Visit } from './pageharness.ts';

let it: PageApi;
let usageOf: VmUsages['of'];

beforeAll(async () => {
  it = await startPageApi('plots', () => ({ usages: { of: (vm) => usageOf(vm) } }));
});

beforeEach(() => {
  usageOf = usagesStandIn().of;
});

afterAll(async () => {
  await it?.close();
});

async function open(name: string, token = it.cluster.adminToken): Promise<Visit> {
  await runningVm(it.api, it.namespace, name);
  const visited = await it.visitAs(token, `#/vms/${it.namespace}/${name}`);
  await visited.page.getByRole('button', { name: 'Delete …' }).waitFor();
  return visited;
}

const plotOf = (page: Page, title: string) => page.getByRole('img', { name: new RegExp(`^${title}\\.`) });
const words = (page: Page, title: string) => () => plotOf(page, title).getAttribute('aria-label');

/** Figures that the page asks for from now on. */
function asking(page: Page): { readonly asked: () => number } {
  let asked = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/usage')) asked += 1;
  });
  return { asked: () => asked };
}

/** Some seconds of the page's clock, each time with a call in between, as if it had waited. */
async function pass(page: Page): Promise<void> {
  for (let at = 0; at < 5; at += 1) {
    await page.clock.runFor(2_000);
    await page.evaluate('fetch("/ui/session").then((reply) => reply.text())');
  }
}

const beHidden = (page: Page, isHidden: boolean) =>
  page.evaluate(`(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${isHidden} });
    document.dispatchEvent(new Event('visibilitychange'));
  })()`);

test('what a VM uses is drawn, said in words and listed', async () => {
  const { page, watched } = await open('drawn');
  await expect.poll(words(page, 'CPU')).toContain('busy: 0.50 cores now');
  expect(await words(page, 'Memory')()).toContain('in the guest: 512 MiB now');
  expect(await words(page, 'Disks')()).toMatch(/read: 2\.0 MiB\/s now.*written: 1\.0 MiB\/s now/);
  expect(await words(page, 'Network')()).toMatch(/in: 3\.0 KiB\/s now.*out: 1\.0 KiB\/s now/);
  await expect.poll(() => plotOf(page, 'Disks').locator('.line').nth(1).getAttribute('d')).toMatch(/L/);
  await page.getByText('Last values').click();
  await page.getByRole('cell', { name: '0.50 cores' }).first().waitFor();
  await expectGoodLooks(page);
  expect(watched.faults).toEqual([]);
});

test('nothing moves when the figures come', async () => {
  const come = Promise.withResolvers<void>();
  usageOf = async (vm) => {
    await come.promise;
    return usagesStandIn().of(vm);
  };
  const { page } = await open('still');
  const below = page.getByRole('heading', { name: 'Conditions' });
  await plotOf(page, 'CPU').waitFor();
  const before = await below.boundingBox();
  expect(await words(page, 'CPU')()).toBe('CPU. busy: no figures yet.');
  come.resolve();
  await expect.poll(words(page, 'CPU')).toContain('0.50 cores now');
  expect(await below.boundingBox()).toEqual(before);
});

test('the page asks while it is seen, and while the guest runs', async () => {
  const { page, watched } = await open('seen');
  await expect.poll(words(page, 'CPU')).toContain('0.50 cores now');
  await page.clock.install();
  const { asked } = asking(page);
  await expect.poll(asked).toBeGreaterThan(0);
  const seen = asked();
  await pass(page);
  expect(asked() - seen).toBeGreaterThan(2);

  await beHidden(page, true);
  const hidden = asked();
  await pass(page);
  expect(asked()).toBe(hidden);
  await beHidden(page, false);
  await expect.poll(asked).toBeGreaterThan(hidden);

  const vm = await it.cluster.client.get(vms, 'seen', it.namespace);
  await reportVm(it.cluster.client, vm, { ...runningStatus, powerState: 'Stopped' });
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor();
  const stopped = asked();
  await pass(page);
  expect(asked()).toBe(stopped);
  expect(await words(page, 'CPU')()).toContain('0.50 cores');
  expect(watched.faults).toEqual([]);
});

/** How far the line of a plot reaches, of 300. */
const reachOf = async (page: Page, title: string): Promise<number> => {
  const line = (await plotOf(page, title).locator('.line').first().getAttribute('d')) ?? '';
  return Number(/([\d.]+) [\d.]+(h0)?$/.exec(line)?.[1]);
};

test.each([
  ['is stopped', 'Stopped'],
  ['is suspended', 'Suspended'],
] as const)('what a guest uses now is not said where it %s', async (_what, powerState) => {
  const name = powerState.toLowerCase();
  const { page, watched } = await open(name);
  await expect.poll(words(page, 'CPU')).toContain('0.50 cores now');
  expect(await reachOf(page, 'CPU')).toBe(300);
  await page.clock.install();
  const vm = await it.cluster.client.get(vms, name, it.namespace);
  await reportVm(it.cluster.client, vm, { ...runningStatus, powerState });
  await expect.poll(words(page, 'CPU')).toContain('busy: not known now, 0.50 cores to 0.50 cores');
  expect(await plotOf(page, 'CPU').locator('..').innerText()).toContain('busy –');
  await page.clock.runFor(60_000);
  await expect.poll(() => reachOf(page, 'CPU')).toBeLessThanOrEqual(240);
  expect(await reachOf(page, 'CPU')).toBeGreaterThan(100);
  await expectGoodLooks(page);
  await page.clock.runFor(300_000);
  await expect.poll(words(page, 'CPU')).toBe('CPU. busy: not known now.');
  await reportVm(it.cluster.client, vm, { ...runningStatus, powerState: 'Running' });
  await expect.poll(words(page, 'Memory')).toContain('512 MiB now');
  expect(watched.faults).toEqual([]);
});

test('what a guest uses now is not said where its runner does not answer', async () => {
  const { page, watched } = await open('mute');
  await expect.poll(words(page, 'CPU')).toContain('0.50 cores now');
  usageOf = () => Promise.reject(new Svc3Error('ServiceUnavailable', 'the runner does not answer'));
  await page.getByText('the runner does not answer').waitFor();
  expect(await words(page, 'CPU')()).toContain('busy: not known now');
  expect(await plotOf(page, 'CPU').locator('..').innerText()).toContain('busy –');
  usageOf = usagesStandIn().of;
  await expect.poll(words(page, 'Memory')).toContain('512 MiB now');
  expect(watched.faults).toEqual([]);
});

test('it asks no more when the session is over', async () => {
  const token = await identity(it.cluster.client, 'leaver', {
    namespace: it.namespace,
    clusterRole: 'cluster-admin',
  });
  const { page } = await open('left', token);
  await expect.poll(words(page, 'CPU')).toContain('0.50 cores now');
  await page.clock.install();
  await it.cluster.client.delete(serviceAccounts, { name: 'leaver', namespace: it.namespace });
  await page.getByLabel('Token').waitFor();
  const { asked } = asking(page);
  await pass(page);
  expect(asked()).toBe(0);
});

test('why there are no figures is said; what stays so is not asked again and again', async () => {
  const message = 'the runner of VM old is of a version that tells no figures';
  usageOf = () => Promise.reject(new Svc3Error('NotImplemented', message));
  const { page, watched } = await open('old');
  await page.getByText(message).waitFor();
  await expectGoodLooks(page);
  await page.clock.install();
  const { asked } = asking(page);
  await pass(page);
  expect(asked()).toBe(0);
  expect(watched.faults).toEqual([]);
});
