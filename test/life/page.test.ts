/** The web page as somebody new meets it after `npm start`: one life of a VM, in a real browser, with nothing typed into a shell but `svc3 ui`. */
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBrowser } from '../support/browser.ts';
import { type DevUpHome, devUpHome } from '../support/devuphome.ts';
import { type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';
import { expectGoodLooks, watchPage } from '../support/visitedpage.ts';

const execute = promisify(execFile);
const pictures = fileURLToPath(new URL('../../test-results/page', import.meta.url));
const vm = `page-${process.pid}`;
const image = `${vm}-saved`;

let cluster: E2eCluster;
let home: DevUpHome;

beforeAll(async () => {
  cluster = await e2eCluster();
  home = await devUpHome(cluster);
});

afterAll(async () => {
  await cluster?.svc3('vm', 'delete', vm);
  await cluster?.svc3('image', 'delete', image);
  if (home !== undefined) await rm(home.folder, { recursive: true, force: true });
});

/** A picture of the page as it is, for people to look at. */
async function take(page: Page, name: string): Promise<void> {
  await page.screenshot({
    path: join(pictures, `life-${name}.jpg`),
    type: 'jpeg',
    quality: 60,
    fullPage: true,
  });
}

/** Points of the guest's screen that are lit. */
const litPoints = (page: Page) =>
  page.evaluate<number>(`(() => {
    const canvas = document.querySelector('.screen canvas');
    if (canvas === null) return 0;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, index) => index % 4 === 0 && value > 100).length;
  })()`);

test('a VM is deployed, watched, used, saved and deleted on the page', { timeout: 480_000 }, async () => {
  const { stdout } = await execute('svc3', ['ui'], { cwd: home.folder, env: home.env });
  const browser = await startBrowser();
  browser.setDefaultTimeout(eventually.timeout);
  const page = await browser.newPage();
  const watched = watchPage(page, home.baseUrl);
  await page.goto(stdout.trim());
  await page.getByRole('heading', { name: 'VMs' }).waitFor();
  const opened = await page.evaluate('performance.timeOrigin');

  // Deployed by the form.
  await page.getByRole('link', { name: 'Deploy a VM' }).click();
  await page.getByLabel('Name', { exact: true }).fill(vm);
  await page.getByLabel('Image', { exact: true }).fill(cluster.guest);
  await page.getByLabel('CPU', { exact: true }).fill('1');
  await page.getByLabel('Memory', { exact: true }).fill('0.25');
  await take(page, '1-form');
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByRole('heading', { name: vm, exact: true }).waitFor();

  // Watched while it boots.
  await page.locator('.title .badge.running').waitFor();
  await page.getByRole('button', { name: 'Serial console', exact: true }).click();
  await page.getByText('Connected', { exact: true }).waitFor();
  const ready = page.locator('tr', { has: page.getByRole('cell', { name: 'Ready', exact: true }) });
  await expect.poll(() => ready.innerText(), eventually).toMatch(/\bTrue\b/);
  await take(page, '2-booted');

  // Used: its serial console,
  const serial = page.getByRole('log', { name: `Serial console of ${vm}` });
  const written = () => serial.innerText();
  const type = async (line: string): Promise<void> => {
    await page.getByLabel('Keys for the guest').focus();
    await page.keyboard.type(line);
    await page.keyboard.press('Enter');
  };
  await type('');
  await expect.poll(written, eventually).toMatch(/login: *$/m);
  await type('root');
  await expect.poll(written, eventually).toMatch(/Password: *$/m);
  await type('admin');
  await expect.poll(written, eventually).toMatch(/# *$/m);
  await type('echo it is $((40+2))');
  await expect.poll(written, eventually).toMatch(/^it is 42$/m);
  await page.getByRole('button', { name: 'Log', exact: true }).click();
  await expect
    .poll(() => page.getByRole('group', { name: `Log of ${vm}` }).innerText(), eventually)
    .toContain('READY');

  // and its screen, whose keys the guest itself tells of.
  await page.getByRole('button', { name: 'Console', exact: true }).click();
  await expect.poll(() => litPoints(page), eventually).toBeGreaterThan(100);
  await page.locator('.screen canvas').click();
  await page.keyboard.type('root\n', { delay: 50 });
  await type('until grep -q Password: /dev/vcs1; do sleep 1; done; echo seen $((6*7))');
  await expect.poll(written, eventually).toMatch(/^seen 42$/m);
  await expectGoodLooks(page);
  await take(page, '3-consoles');

  // What it uses.
  const cpu = page.getByRole('img', { name: /^CPU\./ });
  await expect.poll(() => cpu.locator('.line').getAttribute('d'), eventually).toMatch(/L/);
  expect(await cpu.getAttribute('aria-label')).toMatch(/busy: \d\.\d\d cores? now/);

  // Saved.
  for (const name of ['Console', 'Serial console', 'Log'])
    await page.getByRole('button', { name, exact: true }).click();
  await page.getByRole('button', { name: 'Save …' }).click();
  await page.getByLabel('Name of the image').fill(image);
  await page.keyboard.press('Enter');
  await page.getByText(`The disk is being saved as image ${image}.`).waitFor();
  await page.getByRole('link', { name: 'Images', exact: true }).click();
  const saved = page.locator('tr', { hasText: image });
  await expect.poll(() => saved.innerText(), eventually).toContain('Ready');
  await take(page, '4-saved');

  // Deleted, and the image after it.
  await page.getByRole('link', { name: 'VMs', exact: true }).click();
  await page.getByRole('link', { name: vm, exact: true }).click();
  await page.getByRole('button', { name: 'Delete …' }).click();
  await page.getByText('gone for good').waitFor();
  await take(page, '5-delete');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText(`There is no VM ${vm}`).waitFor();
  await page.getByRole('link', { name: 'Images', exact: true }).click();
  await page.getByRole('button', { name: `Delete ${image}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await saved.waitFor({ state: 'detached' });
  expect(await page.evaluate('performance.timeOrigin')).toBe(opened);
  expect(watched.faults).toEqual([]);
});
