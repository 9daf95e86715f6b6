import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { images } from '../../../src/api/resources.ts';
import { ifFound } from '../../../src/errors.ts';
import { identity } from '../../support/api.ts';
import { startBrowser } from '../../support/browser.ts';
import { expectGoodLooks, watchPage } from '../../support/visitedpage.ts';
import { dropFile } from './pageharness.ts';
import { startTransferApi, type TransferApi } from './transferharness.ts';

let it: TransferApi;

beforeAll(async () => {
  it = await startTransferApi('pageupload');
});

afterAll(async () => {
  await it?.close();
});

test('a file that is dropped on the page is an image, also where the connection breaks on the way', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'uploader', { namespace, clusterRole: 'cluster-admin' });
  const browser = await startBrowser();
  const page = await browser.newPage();
  const { faults } = watchPage(page, api.baseUrl);
  await page.goto(`${api.baseUrl}/ui#/images`);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Namespace').selectOption(namespace);
  await page.getByText(`upload them to ${namespace}`).waitFor();
  let cuts = 0;
  await page.route('**/ui/api/v1/**/upload/image/**', async (route) => {
    if (route.request().method() !== 'PATCH' || cuts > 0) return route.continue();
    cuts += 1;
    return route.abort('connectionreset');
  });

  const disk = randomBytes(350_000);
  await page.evaluate(dropFile('My Disk 1.qcow2', disk.toString('base64')));
  await page.getByText('Sent.').waitFor();
  expect([cuts, await page.getByLabel('Upload of my-disk-1').getAttribute('value')]).toEqual([1, '100']);
  await expectGoodLooks(page);
  await expect.poll(() => ifFound(cluster.client.get(images, 'my-disk-1', namespace))).toBeDefined();
  // The name is taken.
  await page.evaluate(dropFile('my-disk-1.qcow2', disk.toString('base64')));
  await page.getByRole('alert').waitFor();

  const { status } = await it.call('POST', it.ns('/upload/image?name=whole'), { raw: disk });
  expect(status).toBe(202);
  await it.inspected('whole');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download whole' }).click(),
  ]);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
  expect(Buffer.concat(chunks).equals(disk)).toBe(true);
  expect(faults).toEqual([]);
});
