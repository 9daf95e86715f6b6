/** Of a thousand VMs that come at once to fifty guests, none gets a guest that another has, and none is forgotten. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import { isTrue } from '../../src/controller/conditions.ts';
import type { ClaimResult } from '../../src/controllers/vm/pool/claimobserver.ts';
import { type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { poolWorld, template } from '../integration/vm/poolworld.ts';

/** On a loaded machine everything takes ten times as long. */
const minutes = { timeout: 900_000, interval: 500 };
const count = 1_000;
const guests = 50;

let world: VmWorld;
let space: VmNamespace;
const { operate, stopAll, aPool, claim, idle, expectOneToOne } = poolWorld(() => world);

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('rush');
  const allocatable = { cpu: '64', memory: '128Gi', pods: '200' };
  for (let i = 0; i < 20; i += 1) await world.kubelet.addNode({ name: `n${i}`, allocatable });
});

afterAll(async () => {
  await stopAll();
  await world?.stop();
});

test('a thousand VMs at once on fifty guests: every VM runs in a pod of its own, and every guest that waited is used', async () => {
  const results = { warm: 0, cold: 0, lost: 0 };
  let told = 0;
  const claims = {
    claimed: (_pool: string, result: ClaimResult) => void (results[result] += 1),
    told: () => void (told += 1),
  };
  await operate(world.client, { claims });
  const nodePorts = { ssh: 'Disabled', screenshare: 'Disabled' } as const;
  await aPool(space, { template: { ...template, nodePorts }, minIdle: guests });
  await expect.poll(() => idle(space), minutes).toBe(guests);
  const names = Array.from({ length: count }, (_, i) => `job-${i}`);
  await Promise.all(names.map((name) => claim(space, name)));
  const ready = async () => {
    const { items } = await world.client.list(vms, { namespace: space.name });
    return items.filter(({ status }) => isTrue(status?.conditions, 'Ready')).length;
  };
  await expect.poll(ready, minutes).toBe(count);
  await expectOneToOne(space, count);
  expect(results.warm).toBeGreaterThanOrEqual(guests);
  expect(results.warm + results.cold).toBe(count);
  expect(told).toBe(results.warm);
}, 1_500_000);
