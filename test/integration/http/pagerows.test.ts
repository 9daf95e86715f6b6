/** A long list: what is far from the screen is not in the document, and nothing is lost by it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import { reportVm, runningStatus } from '../../support/api.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { startPageApi, type PageApi } from './pageharness.ts';

const count = 400;
let it: PageApi;

beforeAll(async () => {
  it = await startPageApi('rows');
  const names = Array.from({ length: count }, (_, index) => `vm-${String(index).padStart(3, '0')}`);
  for (let first = 0; first < count; first += 50)
    await Promise.all(names.slice(first, first + 50).map((name) => it.aVm(name)));
});

afterAll(async () => {
  await it?.close();
});

test('is scrolled through, searched and changed as if all of it were there', async () => {
  const { client } = it.cluster;
  const { page, watched } = await it.visitAs(it.cluster.adminToken);
  await page.getByText(`${count} of ${count}`).waitFor();
  const link = (name: string) => page.getByRole('link', { name, exact: true });
  const rows = page.locator('tbody tr[aria-rowindex]');
  await link('vm-000').waitFor();
  expect(await rows.count()).toBeLessThan(count / 2);
  expect(await page.locator('table').getAttribute('aria-rowcount')).toBe(String(count + 1));
  await expectGoodLooks(page);
  const whole = await page.evaluate<number>('document.documentElement.scrollHeight');

  // With a mouse or a finger, to the end and back.
  await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
  await link('vm-399').waitFor();
  expect(await page.locator('tr', { hasText: 'vm-399' }).getAttribute('aria-rowindex')).toBe('401');
  await expect.poll(() => link('vm-000').count()).toBe(0);
  expect(await rows.count()).toBeLessThan(count / 2);
  // Room was kept for what is not drawn: the bar of the window does not jump.
  const later = await page.evaluate<number>('document.documentElement.scrollHeight');
  expect(later / whole).toBeGreaterThan(0.8);
  expect(later / whole).toBeLessThan(1.25);

  // What changes far away is there when it is scrolled to; what changes here is there at once.
  const [far, near] = await Promise.all(
    ['vm-001', 'vm-398'].map((name) => client.get(vms, name, it.namespace)),
  );
  await reportVm(client, far!, runningStatus);
  await reportVm(client, near!, runningStatus);
  await page.locator('tr', { hasText: 'vm-398' }).getByText('Running').waitFor();
  await page.evaluate('scrollTo(0, 0)');
  await page.locator('tr', { hasText: 'vm-001' }).getByText('Running').waitFor();

  // What has the focus stays, and keys lead on from it.
  await link('vm-002').focus();
  await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
  await link('vm-399').waitFor();
  expect(await page.evaluate('document.activeElement.textContent')).toBe('vm-002');
  await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('vm-003');
  for (let row = 4; row <= 63; row += 1) await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('vm-063');

  await page.getByLabel('Search').fill('vm-20');
  expect(await rows.count()).toBe(10);
  await page.getByLabel('Search').fill('');
  await link('vm-000').waitFor();
  expect(watched.faults).toEqual([]);
});

test('keys lead on where the browser is too busy to say what is near the screen', async () => {
  const { page } = await it.visitAs(it.cluster.adminToken);
  await page.addInitScript({
    content: `IntersectionObserver = class extends IntersectionObserver {
      constructor(told, options) {
        super((...news) => globalThis.isBusy || told(...news), options);
      }
    };`,
  });
  await page.reload();
  const link = (row: number) =>
    page.getByRole('link', { name: `vm-${String(row).padStart(3, '0')}`, exact: true });
  await link(2).focus();
  await page.evaluate('globalThis.isBusy = true');
  for (let row = 3; row <= 163; row += 1) await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('vm-163');
  for (let row = 162; row >= 40; row -= 1) await page.keyboard.press('Shift+Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('vm-040');
});
