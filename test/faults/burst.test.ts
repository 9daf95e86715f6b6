import { afterAll, beforeAll, expect, test } from 'vitest';
import { events, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { isTrue } from '../../src/controller/conditions.ts';
import { createInformer } from '../../src/kube/informer.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';

/** On a loaded machine everything takes ten times as long. */
const minutes = { timeout: 180_000, interval: 500 };

const names = Array.from({ length: 1_000 }, (_, i) => `vm-${i}`);

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator | undefined;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('burst');
  const allocatable = { cpu: '64', memory: '128Gi', pods: '200' };
  for (let i = 0; i < 20; i += 1) await world.kubelet.addNode({ name: `n${i}`, allocatable });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

/** How many VMs of the namespace have been ready. */
function countReady(signal: AbortSignal): () => number {
  const ready = new Set<string>();
  const informer = createInformer<Vm>({ client: world.client, resource: vms, namespace: space.name });
  informer.onChange(({ object }) => {
    if (isTrue(object.status?.conditions, 'Ready')) ready.add(object.metadata.name ?? '');
  });
  void informer.run(signal);
  return () => ready.size;
}

async function eventReasons(): Promise<Map<string, string[]>> {
  const { items } = await world.client.list(events, { namespace: space.name });
  const byVm = new Map<string, string[]>();
  for (const { regarding, reason = '' } of items) {
    if (regarding?.kind !== 'VM') continue;
    const name = regarding.name ?? '';
    byVm.set(name, [...(byVm.get(name) ?? []), reason].sort());
  }
  return byVm;
}

test('1,000 VMs at once lose no event of their starts', async () => {
  const watching = new AbortController();
  const ready = countReady(watching.signal);
  for (let i = 0; i < names.length; i += 50) {
    await Promise.all(names.slice(i, i + 50).map((name) => space.deploy(name)));
  }
  operator = await startVmOperator(world.client, { portRanges: {} });
  await expect.poll(ready, minutes).toBe(names.length);
  watching.abort();

  await expect
    .poll(
      async () => [...(await eventReasons()).values()].filter((reasons) => isWhole(reasons)).length,
      minutes,
    )
    .toBe(names.length);
}, 400_000);

function isWhole(reasons: readonly string[]): boolean {
  // A start that comes in one status is told in one Event.
  return reasons.includes('Booted');
}
