/**
 * The pictures of the README. Every run leaves them in `test-results/pictures`; `SVC3_PICTURES=docs/images vitest run --project integration
 * test/integration/http/pagepictures.test.ts` puts them where the README has them.
 */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { annotations } from '../../../src/api/meta.ts';
import { namespaces, vms } from '../../../src/api/resources.ts';
import type { VmStatus } from '../../../src/api/vm.ts';
import type { VmUsages } from '../../../src/http/call/services.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { aUsage } from '../../support/vmusage.ts';
import { pending, startPageApi, type PageApi } from './pageharness.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = join(root, process.env['SVC3_PICTURES'] ?? 'test-results/pictures');
const namespace = 'web-team';
const size = { width: 1280, height: 700 };
let it: PageApi;

/** Points of a plot, and the seconds between them: five minutes. */
const points = 15;
const apartSeconds = 20;

/** A guest that has more to do at times; each look at it is some seconds of its life later. */
function busyGuest(): VmUsages {
  let uptimeSeconds = 3_600;
  let busySeconds = 0;
  let bytes = 0;
  return {
    of() {
      uptimeSeconds += apartSeconds;
      const load = 1.2 + Math.sin(uptimeSeconds / 70) * Math.cos(uptimeSeconds / 23);
      busySeconds += load * apartSeconds;
      bytes += Math.round(load ** 2 * apartSeconds * 2 ** 20);
      return Promise.resolve(
        aUsage(uptimeSeconds, {
          cpu: { cpus: 4, seconds: busySeconds },
          memory: { totalBytes: 2 ** 33, usedBytes: Math.round((3 + load / 2) * 2 ** 30) },
          disks: [{ name: 'disk', readBytes: 3 * bytes, writtenBytes: bytes, reads: 0, writes: 0 }],
          network: { receivedBytes: Math.round(bytes / 4), sentBytes: Math.round(bytes / 20) },
        }),
      );
    },
  };
}

const runs = (
  node: string,
  ip: string,
  effective: Partial<NonNullable<VmStatus['effective']>> = {},
): VmStatus => ({
  ...runningStatus,
  conditions: ['Scheduled', 'Prepared', 'Booted', 'Ready'].map((type) => condition(type, 'True', type)),
  node,
  ip,
  effective: { ...runningStatus.effective!, ...effective },
});
const guests: readonly (readonly [string, string, VmStatus])[] = [
  ['build-1', 'debian-12', runs('node-1', '192.0.2.11', { cpu: 8, memory: '16Gi' })],
  ['build-2', 'debian-12', runs('node-2', '192.0.2.12', { cpu: 8, memory: '16Gi' })],
  [
    'desktop-ann',
    'windows-11',
    { ...runs('node-3', '192.0.2.13', { cpu: 4, memory: '8Gi' }), powerState: 'Suspended' },
  ],
  [
    'render',
    'blender',
    pending('0/3 nodes are available: 2 nodes have no GPU for passthrough, 1 GPU is in use.'),
  ],
  ['shop', 'debian-12', runs('node-1', '192.0.2.11')],
  ['shop-db', 'debian-12', runs('node-2', '192.0.2.12', { cpu: 4, memory: '8Gi' })],
  ['try-out', 'fedora-42', { ...runs('node-3', '192.0.2.13'), powerState: 'Stopped' }],
];

beforeAll(async () => {
  it = await startPageApi('pictures', () => ({ usages: busyGuest() }));
  const { client } = it.cluster;
  await client.create(namespaces, { metadata: { name: namespace } });
  for (const [name, image, status] of guests) {
    const vm = await client.create(vms, {
      metadata: { name, namespace, annotations: { [annotations.owner]: 'ann' } },
      spec: { image, powerState: status.powerState === 'Stopped' ? 'Stopped' : 'Running' },
    });
    await reportVm(client, vm, status);
  }
  const now = new Date().toISOString();
  for (const [reason, message] of [
    ['Scheduled', 'The VM was placed on node-2.'],
    ['Started', 'The guest has booted.'],
  ])
    await client.request({
      method: 'POST',
      path: `/api/v1/namespaces/${namespace}/events`,
      body: {
        metadata: { generateName: 'shop-db-', namespace },
        involvedObject: { apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'shop-db', namespace },
        type: 'Normal',
        reason,
        message,
        firstTimestamp: now,
        lastTimestamp: now,
      },
    });
});

afterAll(async () => {
  await it?.cluster.client.delete(namespaces, { name: namespace });
  await it?.close();
});

async function bytesOf(path: string): Promise<number> {
  return (await stat(path)).size;
}

test('show the VMs and one of them as they look now', async () => {
  const token = await identity(it.cluster.client, 'ann', { namespace, clusterRole: 'cluster-admin' });
  const { page, watched } = await it.visitAs(token);
  await page.setViewportSize(size);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.getByLabel('Namespace').selectOption(namespace);
  for (const [name] of guests) await page.getByRole('link', { name, exact: true }).waitFor();
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(folder, 'page-vms.png') });

  await page.emulateMedia({ colorScheme: 'dark' });
  await page.setViewportSize({ ...size, height: 556 });
  await page.getByRole('link', { name: 'shop-db', exact: true }).click();
  await page.getByText('The guest has booted.').waitFor();
  await page.getByRole('button', { name: 'Delete …' }).waitFor();
  // The page's own time is put on, so that its plots are full.
  await page.clock.install();
  const line = page.getByRole('img', { name: /^CPU\./ }).locator('.line');
  const drawn = async () => (await line.getAttribute('d'))?.match(/[ML]/g)?.length ?? 0;
  for (let before = await drawn(); before < points; before = await drawn()) {
    await page.clock.runFor(2_000);
    await expect.poll(drawn).toBeGreaterThan(before);
  }
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(folder, 'page-vm.png') });
  expect(watched.faults).toEqual([]);

  const readme = await readFile(join(root, 'README.md'), 'utf8');
  for (const name of ['page-vms.png', 'page-vm.png']) {
    expect(readme).toContain(`docs/images/${name}`);
    expect(await bytesOf(join(root, 'docs/images', name))).toBeLessThan(100_000);
  }
});
