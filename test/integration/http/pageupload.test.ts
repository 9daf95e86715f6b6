import { randomBytes } from 'node:crypto';
import { appendFile, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { images, serviceAccounts } from '../../../src/api/resources.ts';
import { ifFound } from '../../../src/errors.ts';
import { identity } from '../../support/identity.ts';
import { startCuttingProxy } from '../../support/cuttingproxy.ts';
import { expectGoodLooks } from '../../support/visitedpage.ts';
import { dropFile, signIn, visitAt } from './pageharness.ts';
import { startTransferApi, type TransferApi } from './transferharness.ts';

let it: TransferApi;

beforeAll(async () => {
  it = await startTransferApi('pageupload');
});

afterAll(async () => {
  await it?.close();
});

async function opened(origin: string, token: string) {
  const { page, watched } = await visitAt(origin, '#/images');
  await signIn(page, token);
  await page.getByLabel('Namespace').selectOption(it.namespace);
  await page.getByText(`upload them to ${it.namespace}`).waitFor();
  return { page, watched };
}

test('a file that is dropped on the page is an image, and can be had again', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'uploader', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const disk = randomBytes(350_000);
  const has = (name: string) => ifFound(cluster.client.get(images, name, namespace));
  await page.evaluate(dropFile('My Disk 1.qcow2', disk.toString('base64')));
  await page.getByText('Sent.').waitFor();
  expect(await page.getByLabel('Upload of my-disk-1').getAttribute('value')).toBe('100');
  await expectGoodLooks(page);
  await expect.poll(() => has('my-disk-1')).toBeDefined();
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
  expect(watched.faults).toEqual([]);
});

test('an upload whose connection breaks in the middle goes on from there', async () => {
  const { cluster, api, namespace } = it;
  const proxy = await startCuttingProxy(api.port);
  onTestFinished(() => proxy.close());
  const token = await identity(cluster.client, 'broken', { namespace, clusterRole: 'cluster-admin' });
  // What the page asks before takes far less; the browser may open more than one connection at once.
  proxy.cut(...Array.from({ length: 6 }, () => ({ up: 250_000 })));
  const { page, watched } = await opened(`https://localhost:${proxy.port}`, token);
  const offsets: number[] = [];
  page.on('request', (request) => {
    if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']));
  });
  const disk = randomBytes(500_000);
  await page.evaluate(dropFile('broken.qcow2', disk.toString('base64')));
  await page.getByText('Sent.').waitFor();
  expect(proxy.cuts).toBeGreaterThan(0);
  const [first, ...later] = offsets;
  expect(first).toBe(0);
  // The server had kept some of it, and was not sent that again.
  expect(later.at(-1)).toBeGreaterThan(0);
  expect((await it.contentOf('broken')).equals(disk)).toBe(true);
  expect(watched.faults).toEqual([]);
});

test('an upload whose last answer is lost is done, though its parts are no longer there', async () => {
  const { cluster, api, namespace, store, repository } = it;
  const token = await identity(cluster.client, 'unheard', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  let sent = 0;
  await page.route('**/upload/image/**', async (route) => {
    if (route.request().method() !== 'PATCH') return route.continue();
    sent += 1;
    expect((await route.fetch()).status()).toBe(202);
    // As its worker does when it has the disk.
    const [tag = ''] = await store.tags(repository('unheard'));
    await store.deleteManifest(
      repository('unheard'),
      (await store.digestOf(repository('unheard'), tag)) ?? '',
    );
    return route.abort();
  });
  await page.evaluate(dropFile('unheard.qcow2', randomBytes(1000).toString('base64')));
  await page.getByText('Sent.').waitFor();
  expect(sent).toBe(1);
  expect(watched.faults).toEqual([]);
});

test('an upload whose name somebody else has taken meanwhile says so', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'slower', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  await page.route(
    '**/upload/image/**',
    async (route) => {
      const spec = { source: { blank: { size: '1G' } } };
      await cluster.client.create(images, { metadata: { name: 'faster', namespace }, spec });
      await route.continue();
    },
    { times: 1 },
  );
  await page.evaluate(dropFile('faster.qcow2', randomBytes(1000).toString('base64')));
  const refusal = page.getByRole('alert');
  await refusal.waitFor();
  expect(await refusal.textContent()).toContain('images.svc3.dev "faster" already exists');
  expect(watched.faults).toEqual([]);
});

test('an upload is asked after until the server says how far it is', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'asker', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const disk = randomBytes(200_000);
  const sent: string[] = [];
  await page.route('**/upload/image/**', async (route) => {
    const request = route.request();
    const headers = request.headers();
    sent.push([request.method(), headers['upload-offset']].join(' '));
    if (sent.length === 1) {
      // Half of it arrives, and the connection breaks.
      const part = { ...headers, 'upload-complete': '?0', 'content-length': '100000' };
      await route.fetch({ headers: part, postData: disk.subarray(0, 100_000) });
      return route.abort();
    }
    return sent.length === 2 ? route.fulfill({ status: 503, body: '{}' }) : route.continue();
  });
  await page.evaluate(dropFile('asked.qcow2', disk.toString('base64')));
  await page.getByText('Sent.').waitFor();
  expect(sent).toEqual(['PATCH 0', 'GET ', 'GET ', 'PATCH 100000']);
  expect((await it.contentOf('asked')).equals(disk)).toBe(true);
  expect(watched.faults).toEqual([]);
});

test('a file may miss the field, and an upload goes on while somebody looks at something else', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'walker', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const go = Promise.withResolvers<void>();
  await page.route('**/upload/image/**', async (route) => {
    await go.promise;
    await route.continue();
  });
  // The browser would open what nobody takes.
  await page.evaluate(dropFile('missed.qcow2', randomBytes(1000).toString('base64'), 'h1'));
  await page.getByLabel('Upload of missed').waitFor();
  await page.getByRole('link', { name: 'VMs', exact: true }).click();
  await page.getByRole('heading', { name: 'VMs' }).waitFor();
  await page.getByRole('link', { name: 'Images', exact: true }).click();
  await page.getByRole('button', { name: 'Give up missed' }).waitFor();
  go.resolve();
  await page.getByText('Sent.').waitFor();
  await expect.poll(() => ifFound(cluster.client.get(images, 'missed', namespace))).toBeDefined();
  // What is over is not shown again.
  await page.getByRole('link', { name: 'VMs', exact: true }).click();
  await page.getByRole('link', { name: 'Images', exact: true }).click();
  await page.getByText(`upload them to ${namespace}`).waitFor();
  expect(await page.getByText('Sent.').count()).toBe(0);
  expect(watched.faults).toEqual([]);
});

test('an upload that fails while somebody looks at the other kind is told when its own is shown again', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'turner', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const fails = Promise.withResolvers<void>();
  await page.route('**/upload/image/**', async (route) => {
    await fails.promise;
    await route.fulfill({ status: 422, json: { message: 'the disk is none' } });
  });
  await page.evaluate(dropFile('refused.qcow2', randomBytes(1000).toString('base64')));
  await page.getByLabel('Upload of refused').waitFor();
  await page.getByRole('link', { name: 'ISOs', exact: true }).click();
  await page.getByRole('heading', { name: 'ISOs' }).waitFor();
  const answered = page.waitForResponse('**/upload/image/**');
  fails.resolve();
  await (await answered).finished();
  // What came before the next answer is known after it.
  await page.evaluate("fetch('/ui/session').then((reply) => reply.text())");
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  await page.getByRole('link', { name: 'Images', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'the disk is none' }).waitFor();
  await page.getByRole('link', { name: 'ISOs', exact: true }).click();
  await page.getByRole('heading', { name: 'ISOs' }).waitFor();
  await page.getByRole('link', { name: 'Images', exact: true }).click();
  await page.getByText(`upload them to ${namespace}`).waitFor();
  expect(await page.getByLabel('Upload of refused').count()).toBe(0);
  expect(watched.faults).toEqual([]);
});

test('an upload whose session ends in the middle ends with the page asking for a new one', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'leaver', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  await page.route('**/upload/image/**', async (route) => {
    begun.resolve();
    await ended.promise;
    await route.continue();
  });
  await page.evaluate(dropFile('left.qcow2', randomBytes(1000).toString('base64')));
  await begun.promise;
  await cluster.client.delete(serviceAccounts, { name: 'leaver', namespace });
  await page.getByLabel('Token').waitFor();
  expect(await page.getByRole('alert').textContent()).not.toBe('');
  ended.resolve();
  // Nothing was made, and whoever signs in now does not see what the other was doing.
  await signIn(page, cluster.adminToken);
  await page.getByLabel('Namespace').selectOption(namespace);
  await page.getByText(`upload them to ${namespace}`).waitFor();
  expect(await page.getByText('left').count()).toBe(0);
  expect(await ifFound(cluster.client.get(images, 'left', namespace))).toBeUndefined();
  expect(watched.faults).toEqual([]);
});

test('of two files that become one name the second is refused before it is sent', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'doubler', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  let asked = 0;
  const goOn = Promise.withResolvers<void>();
  await page.route('**/upload/image*', async (route) => {
    asked += 1;
    await goOn.promise;
    await route.continue();
  });
  const [first, second] = [randomBytes(1000), randomBytes(1000)];
  const mimeType = 'application/octet-stream';
  await page.getByLabel('Drop files here').setInputFiles([
    { name: 'Twin.qcow2', mimeType, buffer: first },
    { name: 'twin.img', mimeType, buffer: second },
  ]);
  const refusal = page.getByRole('alert');
  await refusal.filter({ hasText: 'another file is being uploaded under this name' }).waitFor();
  expect(asked).toBe(1);
  goOn.resolve();
  await page.getByText('Sent.').waitFor();
  expect((await it.contentOf('twin')).equals(first)).toBe(true);
  expect(await refusal.count()).toBe(1);
  expect(watched.faults).toEqual([]);
});

test('who signs out leaves nothing of what was being uploaded in the store', async () => {
  const { cluster, api, namespace, store, repository } = it;
  const token = await identity(cluster.client, 'hasty', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const begun = Promise.withResolvers<void>();
  await page.route('**/upload/image/**', async (route) => {
    // It never comes to its end by itself.
    if (route.request().method() === 'PATCH') begun.resolve();
    else await route.continue();
  });
  await page.evaluate(dropFile('hasty.qcow2', randomBytes(1000).toString('base64')));
  await begun.promise;
  expect(await store.tags(repository('hasty'))).toHaveLength(1);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  expect(await store.tags(repository('hasty'))).toEqual([]);
  expect(watched.faults).toEqual([]);
});

test('files that are chosen are images', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'chooser', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const disks = new Map(['chosen-1', 'chosen-2'].map((name) => [name, randomBytes(1000)]));
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByLabel('Drop files here').click(),
  ]);
  expect(chooser.isMultiple()).toBe(true);
  const mimeType = 'application/octet-stream';
  await chooser.setFiles([...disks].map(([name, buffer]) => ({ name: `${name}.qcow2`, mimeType, buffer })));
  await expect.poll(() => page.getByText('Sent.').count()).toBe(2);
  for (const [name, disk] of disks) expect((await it.contentOf(name)).equals(disk)).toBe(true);
  // The same one may be chosen again.
  expect(await page.getByLabel('Drop files here').inputValue()).toBe('');
  expect(watched.faults).toEqual([]);
});

test('a file that is changed while it is uploaded is said to be lost, and nothing of it stays', async () => {
  const { cluster, api, namespace, store, repository } = it;
  const token = await identity(cluster.client, 'changer', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const folder = await mkdtemp(join(tmpdir(), 'svc3-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'changed.qcow2');
  await writeFile(file, randomBytes(1000));
  let parts = 0;
  const begun = Promise.withResolvers<void>();
  const changed = Promise.withResolvers<void>();
  await page.route('**/upload/image/**', async (route) => {
    if (route.request().method() !== 'PATCH') return route.continue();
    parts += 1;
    begun.resolve();
    await changed.promise;
    return route.abort();
  });
  await page.getByLabel('Drop files here').setInputFiles(file);
  await begun.promise;
  // A browser knows a file by its size and the second in which it was changed.
  await appendFile(file, 'more');
  await utimes(file, new Date(), new Date(Date.now() + 10_000));
  changed.resolve();
  await page.getByRole('alert').filter({ hasText: 'the file cannot be read any more' }).waitFor();
  expect(parts).toBe(1);
  await expect.poll(() => store.tags(repository('changed'))).toEqual([]);
  expect(watched.faults).toEqual([]);
});

test('of many files that are chosen a few are sent at a time, and all are', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'hoarder', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const names = Array.from({ length: 6 }, (_, index) => `many-${index}`);
  const open = new Set<string>();
  let most = 0;
  const goOn = Promise.withResolvers<void>();
  await page.route('**/upload/image/**', async (route) => {
    const { pathname } = new URL(route.request().url());
    open.add(pathname);
    most = Math.max(most, open.size);
    await goOn.promise;
    const reply = await route.fetch();
    open.delete(pathname);
    await route.fulfill({ response: reply });
  });
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByLabel('Drop files here').click(),
  ]);
  const mimeType = 'application/octet-stream';
  const files = names.map((name) => ({ name: `${name}.qcow2`, mimeType, buffer: randomBytes(1000) }));
  await chooser.setFiles(files);
  await expect.poll(() => page.getByText('Waiting for its turn').count()).toBe(3);
  await expect.poll(() => open.size).toBe(3);
  await expectGoodLooks(page);
  // One that has not begun is given up before the server hears of it.
  await page.getByRole('button', { name: 'Give up many-5' }).click();
  await page.getByRole('alert').filter({ hasText: 'the upload was given up' }).waitFor();
  goOn.resolve();
  await expect.poll(() => page.getByText('Sent.', { exact: true }).count()).toBe(5);
  expect(most).toBe(3);
  expect(await ifFound(cluster.client.get(images, 'many-5', namespace))).toBeUndefined();
  expect(watched.faults).toEqual([]);
});

test('an upload that is given up leaves nothing behind, and its name free', async () => {
  const { cluster, api, namespace } = it;
  const token = await identity(cluster.client, 'quitter', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await opened(api.baseUrl, token);
  const begun = Promise.withResolvers<void>();
  const isPart = ({ pathname }: URL): boolean => pathname.includes('/upload/image/given-up/');
  await page.route(isPart, async (route) => {
    // It never comes to its end by itself.
    if (route.request().method() === 'PATCH') begun.resolve();
    else await route.continue();
  });
  await page.evaluate(dropFile('given-up.qcow2', randomBytes(1000).toString('base64')));
  await begun.promise;
  const cancelled = page.waitForResponse((reply) => reply.request().method() === 'DELETE');
  await page.getByRole('button', { name: 'Give up given-up' }).click();
  expect((await cancelled).ok()).toBe(true);
  await page.getByRole('alert').filter({ hasText: 'the upload was given up' }).waitFor();
  await expectGoodLooks(page);
  expect(await page.getByRole('button', { name: 'Give up given-up' }).count()).toBe(0);
  await expect.poll(() => ifFound(cluster.client.get(images, 'given-up', namespace))).toBeUndefined();
  await page.unroute(isPart);
  const disk = randomBytes(1000);
  await page.evaluate(dropFile('given-up.qcow2', disk.toString('base64')));
  await page.getByText('Sent.').waitFor();
  expect((await it.contentOf('given-up')).equals(disk)).toBe(true);
  expect(watched.faults).toEqual([]);
});
