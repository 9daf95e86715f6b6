/** The page with the keys of a keyboard alone, and what a screen reader is told. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { images, vms } from '../../../src/api/resources.ts';
import { ifFound } from '../../../src/errors.ts';
import { reportVm, runningStatus, runningVm } from '../../support/api.ts';
import { startPageApi, type PageApi } from './pageharness.ts';

let it: PageApi;

beforeAll(async () => {
  it = await startPageApi('keys');
});

afterAll(async () => {
  await it?.close();
});

/** What has the focus, as its role and name say it; where the page has lost it, `nothing`. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const { activeElement: at } = document;
    if (at === document.body) return 'nothing';
    const label = at.labels?.[0]?.textContent ?? at.ariaLabel ?? at.textContent;
    return at.tagName.toLowerCase() + ' ' + label.trim().replaceAll(/\\s+/g, ' ');
  })()`);

/** Whether what has the focus can be seen to have it. */
const isMarked = `(() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
})()`;

/** As if the page had just been opened: the next Tab is the first. */
const toTheTop =
  'document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute("tabindex")';

/** Presses Tab through the whole page from its beginning: every stop, in order. */
async function stopsOf(page: Page): Promise<string[]> {
  await page.evaluate(toTheTop);
  const stops: string[] = [];
  let first: number | undefined;
  for (;;) {
    await page.keyboard.press('Tab');
    const stop = await focused(page);
    const index = await page.evaluate<number>(
      '[...document.querySelectorAll("*")].indexOf(document.activeElement)',
    );
    // After the last one comes the browser itself, or the first one again.
    if (stop === 'nothing' || index === first || stops.length > 200) return stops;
    first ??= index;
    expect({ stop, isMarked: await page.evaluate(isMarked) }).toEqual({ stop, isMarked: true });
    stops.push(stop);
  }
}

/** Whatever can be used with the mouse on the page as it is now, in the order in which it is read. */
const controlsOf = (page: Page): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
    .filter((one) => one.checkVisibility())
    .map((one) => one.tagName.toLowerCase() + ' '
      + (one.labels?.[0]?.textContent ?? one.ariaLabel ?? one.textContent).trim().replaceAll(/\\s+/g, ' '))`);

async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

/** Tab until something has the focus. */
async function tabTo(page: Page, wanted: string): Promise<void> {
  for (let presses = 0; presses < 100 && (await focused(page)) !== wanted; presses += 1)
    await page.keyboard.press('Tab');
  expect(await focused(page)).toBe(wanted);
}

/** Signs in without a mouse. */
async function signedIn(): Promise<Awaited<ReturnType<PageApi['visit']>>> {
  const visited = await it.visit();
  await visited.page.getByLabel('Token').waitFor();
  await tabTo(visited.page, 'input Token');
  await visited.page.keyboard.insertText(it.cluster.adminToken);
  await press(visited.page, 'Enter');
  await visited.page.getByRole('link', { name: 'Registry credentials' }).waitFor();
  await expect.poll(() => focused(visited.page)).toBe('h1 VMs');
  return visited;
}

/** Follows a link of the navigation; reading goes on at the heading of what it leads to. */
async function go(page: Page, view: string, heading: string | RegExp = `h1 ${view}`): Promise<void> {
  await page.evaluate(toTheTop);
  await tabTo(page, `a ${view}`);
  await press(page, 'Enter');
  await expect.poll(() => focused(page)).toMatch(heading);
}

test('every view can be walked through with Tab, in the order in which it is read', async () => {
  await runningVm(it.api, it.namespace, 'walked');
  await it.cluster.client.create(images, {
    metadata: { name: 'walked', namespace: it.namespace },
    spec: { source: { upload: {} } },
  });
  const { page, watched } = await signedIn();
  for (const view of ['VMs', 'Pools', 'Images', 'ISOs', 'Configurations', 'Nodes']) {
    await go(page, view);
    if (['VMs', 'Images'].includes(view)) await page.locator('tbody tr', { hasText: 'walked' }).waitFor();
    await expect.poll(() => page.title()).toBe(`${view} – svc3`);
    expect(await stopsOf(page)).toEqual(await controlsOf(page));
  }
  await go(page, 'Registry credentials', /^h1 Registry credentials of/);
  expect(await stopsOf(page)).toEqual(await controlsOf(page));
  await go(page, 'VMs');
  await tabTo(page, 'a Deploy a VM');
  await press(page, 'Enter');
  await expect.poll(() => focused(page)).toBe(`h1 Deploy a VM in ${it.namespace}`);
  await tabTo(page, 'summary More settings');
  await press(page, 'Enter');
  await page.getByLabel('Hostname', { exact: true }).waitFor();
  expect(await stopsOf(page)).toEqual(await controlsOf(page));
  await go(page, 'VMs');
  await tabTo(page, 'a walked');
  await press(page, 'Enter');
  await expect.poll(() => focused(page)).toBe('h1 walked');
  await page.getByRole('button', { name: 'Delete …' }).waitFor();
  expect(await stopsOf(page)).toEqual(await controlsOf(page));
  expect(watched.faults).toEqual([]);
});

test('a refused form leads to the first field that is wrong', async () => {
  const { page, watched } = await signedIn();
  await tabTo(page, 'a Deploy a VM');
  await press(page, 'Enter');
  await tabTo(page, 'input CPU');
  await page.keyboard.insertText('1000');
  await press(page, 'Enter');
  await page.locator('[aria-invalid=true]').waitFor();
  await expect.poll(() => focused(page)).toBe('input CPU');
  const described = await page.evaluate<string>(
    `document.activeElement.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent).join(' ')`,
  );
  expect(described).toContain('256');
  expect(watched.faults).toEqual([]);
});

test('a dialog keeps the focus, begins at what takes nothing away, and gives it back', async () => {
  const running = await runningVm(it.api, it.namespace, 'asked');
  const effective = { ...runningStatus.effective!, imageName: 'debian' };
  await reportVm(it.cluster.client, running, { ...runningStatus, effective });
  const { page, watched } = await signedIn();
  await tabTo(page, 'a asked');
  await press(page, 'Enter');
  await page.getByRole('button', { name: 'Delete …' }).waitFor();
  for (const [opener, title] of [
    ['Stop …', 'Stop asked?'],
    ['Delete …', 'Delete asked?'],
    ['Commit …', 'Commit the disk of asked?'],
  ] as const) {
    await tabTo(page, `button ${opener}`);
    await press(page, 'Enter');
    const dialog = page.getByRole('dialog', { name: title });
    await dialog.waitFor();
    expect(await focused(page)).toBe('button Cancel');
    const seen = new Set<string>();
    for (let presses = 0; presses < 12; presses += 1) {
      await press(page, presses % 4 === 3 ? 'Shift+Tab' : 'Tab');
      const at = await focused(page);
      // The browser's own controls are a stop between the last and the first.
      if (at === 'nothing') continue;
      expect(await page.evaluate('document.activeElement.closest("dialog") !== null')).toBe(true);
      seen.add(at);
    }
    expect(seen).toContain('button Cancel');
    await press(page, 'Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(await focused(page)).toBe(`button ${opener}`);
  }
  await tabTo(page, 'button Save …');
  await press(page, 'Enter');
  await expect.poll(() => focused(page)).toBe('input Name of the image');
  await press(page, 'Escape');
  await expect.poll(() => focused(page)).toBe('button Save …');
  expect((await it.cluster.client.get(vms, 'asked', it.namespace)).spec.powerState).toBe('Running');
  expect(watched.faults).toEqual([]);
});

test('what changes by itself takes the focus from nobody', async () => {
  for (const name of ['focus-a', 'focus-b', 'focus-c']) await it.aVm(name);
  const { page, watched } = await signedIn();
  await tabTo(page, 'a focus-b');
  // Before and behind it, in it, and then it itself.
  await it.aVm('focus-aa');
  await page.getByRole('link', { name: 'focus-aa' }).waitFor();
  await it.cluster.client.delete(vms, { name: 'focus-a', namespace: it.namespace });
  await page.getByRole('link', { name: 'focus-a', exact: true }).waitFor({ state: 'detached' });
  const seen = await it.cluster.client.get(vms, 'focus-b', it.namespace);
  await reportVm(it.cluster.client, seen, runningStatus);
  await page.locator('tr', { hasText: 'focus-b' }).getByText('Running').waitFor();
  expect(await focused(page)).toBe('a focus-b');
  await it.cluster.client.delete(vms, { name: 'focus-b', namespace: it.namespace });
  await expect.poll(() => focused(page)).toMatch(/^tr focus-c/);
  expect(await page.evaluate(isMarked)).toBe(true);
  await press(page, 'Tab');
  expect(await focused(page)).toBe('a focus-c');
  expect(watched.faults).toEqual([]);
});

test('a verb that is carried out keeps the focus on the page, and what becomes of the VM is said', async () => {
  const { client } = it.cluster;
  const vm = await runningVm(it.api, it.namespace, 'spoken');
  await reportVm(client, vm, { ...runningStatus, powerState: 'Stopped' });
  const { page, watched } = await signedIn();
  await page.locator('tr', { hasText: 'spoken' }).getByText('Stopped').waitFor();
  await tabTo(page, 'a spoken');
  await press(page, 'Enter');
  const said = page.getByRole('status').filter({ hasText: 'spoken is' });
  await expect.poll(() => said.textContent()).toBe('spoken is Stopped');
  await tabTo(page, 'button Start');
  await press(page, 'Space');
  await expect
    .poll(async () => (await client.get(vms, 'spoken', it.namespace)).spec.powerState)
    .toBe('Running');
  await reportVm(client, await client.get(vms, 'spoken', it.namespace), runningStatus);
  await expect.poll(() => said.textContent()).toBe('spoken is Running');
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor({ state: 'detached' });
  await expect.poll(() => focused(page)).toBe('h1 spoken');
  await client.delete(vms, { name: 'spoken', namespace: it.namespace });
  await page.getByText('There is no VM spoken').waitFor();
  await expect.poll(() => focused(page)).toBe('h1 spoken');
  expect(await ifFound(client.get(vms, 'spoken', it.namespace))).toBeUndefined();
  expect(watched.faults).toEqual([]);
});

test('a screen is entered and left', async () => {
  await runningVm(it.api, it.namespace, 'typed');
  const { page, watched } = await signedIn();
  await tabTo(page, 'a typed');
  await press(page, 'Enter');
  await tabTo(page, 'button Console');
  await press(page, 'Enter');
  await page.getByText('Connected', { exact: true }).waitFor();
  await tabTo(page, 'button Keyboard');
  await press(page, 'Enter');
  await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('CANVAS');
  // These are the guest's.
  await press(page, 'Tab', 'Escape', 'a');
  expect(await page.evaluate('document.activeElement.tagName')).toBe('CANVAS');
  await press(page, 'Control+Alt+Shift');
  await expect.poll(() => focused(page)).toBe('button Keyboard');
  expect(watched.faults).toEqual([]);
});
