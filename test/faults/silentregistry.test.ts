import { createServer, type Server } from 'node:net';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { registryCredentials, secrets, vms } from '../../src/api/resources.ts';
import { createRegistryClient } from '../../src/registry/client.ts';
import { pushDisk } from '../../src/registry/disk.ts';
import { createImageResolver } from '../../src/controllers/vm/resolve/imageresolver.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { startRegistry, type TestRegistry } from '../support/registry.ts';

/** More than there are workers, each image another one. */
const failing = Array.from({ length: 576 }, (_, i) => `vm-${i}`);

let world: VmWorld;
let operator: TestOperator;
let registry: TestRegistry;
let silent: Server;
/** Connections that the silent registry was asked on. */
let asked = 0;
let many: VmNamespace;
let other: VmNamespace;

beforeAll(async () => {
  [world, registry] = await Promise.all([vmWorld(), startRegistry()]);
  silent = createServer(() => (asked += 1)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  await pushOne();
  many = await world.namespace('many');
  other = await world.namespace('other');
  await world.namespace('svc3-credentials');
  const allocatable = { cpu: '64', memory: '128Gi', pods: '200' };
  for (let i = 0; i < 12; i += 1) await world.kubelet.addNode({ name: `n${i}`, allocatable });
  operator = await startVmOperator(world.client, { portRanges: {} }, (informers) => ({
    resolver: createImageResolver({
      credentials: informers.get(registryCredentials),
      basicAuth: informers.get(secrets, { namespace: 'svc3-credentials' }),
      storeUrl: `http://${registry.address}`,
    }),
  }));
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
  await registry?.stop();
  silent?.close();
});

async function pushOne(): Promise<void> {
  const client = createRegistryClient({ registry: registry.address, scheme: 'http' });
  const content = Buffer.from('not a disk, and nobody looks');
  await pushDisk(client, {
    repository: 'vms/one',
    tag: '1',
    architecture: 'amd64',
    fileName: 'disk.raw',
    size: content.length,
    content: Readable.from([content]),
  });
  await client.close();
}

/** Milliseconds from the create of a VM to its pod. */
async function createToPod(name: string, image: string): Promise<number> {
  const began = performance.now();
  await other.deploy(name, { image });
  await expect.poll(() => other.pod(name), { ...slow, interval: 10 }).toBeDefined();
  return performance.now() - began;
}

test('576 VMs that name a silent registry keep nobody else waiting, and go on without its answer', async () => {
  const { port } = silent.address() as AddressInfo;
  await createToPod('warm-up', `${registry.address}/vms/one:1`);
  for (let i = 0; i < failing.length; i += 48)
    await Promise.all(
      failing.slice(i, i + 48).map((name) => many.deploy(name, { image: `127.0.0.1:${port}/vms/${name}:1` })),
    );
  await expect.poll(() => asked, slow).toBeGreaterThan(0);
  const took: number[] = [];
  for (let i = 0; i < 10; i += 1) took.push(await createToPod(`other-${i}`, `${registry.address}/vms/one:1`));
  // 0.1 s on a machine that does nothing else. Each turn behind the others would cost 5 s, and there are twelve.
  expect(Math.max(...took)).toBeLessThan(30_000);
  expect((await other.vm('other-0')).status?.effective?.image ?? '').toMatch(/vms\/one@sha256:[0-9a-f]{64}$/);

  const placed = async () => {
    const { items } = await world.client.list(vms, { namespace: many.name });
    return items.filter(({ status }) => status?.podName !== undefined).length;
  };
  await expect.poll(placed, { timeout: 120_000, interval: 500 }).toBe(failing.length);
  expect((await many.vm('vm-0')).status?.warnings?.[0]).toMatch(
    `image 127.0.0.1:${port}/vms/vm-0:1 could not be pinned to a digest: registry 127.0.0.1:${port} did not answer`,
  );
  // That it is silent was found out once for all of them.
  expect(asked).toBeLessThan(20);
}, 300_000);
