import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Pod } from '../../src/api/core.ts';
import { events, pods, vms } from '../../src/api/resources.ts';
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

/** When each VM of the namespace got its pod and its status, and when it was ready. */
function watchTimes(signal: AbortSignal) {
  const times = {
    pod: new Map<string, number>(),
    status: new Map<string, number>(),
    vmReady: new Map<string, number>(),
  };
  const note = (into: Map<string, number>, name: string) =>
    into.has(name) || into.set(name, performance.now());
  const podInformer = createInformer<Pod>({ client: world.client, resource: pods, namespace: space.name });
  const vmInformer = createInformer<Vm>({ client: world.client, resource: vms, namespace: space.name });
  podInformer.onChange(({ object }) => {
    note(times.pod, object.metadata.name ?? '');
  });
  vmInformer.onChange(({ object }) => {
    if (object.status?.conditions !== undefined) note(times.status, object.metadata.name ?? '');
    if (isTrue(object.status?.conditions, 'Ready')) note(times.vmReady, object.metadata.name ?? '');
  });
  void podInformer.run(signal);
  void vmInformer.run(signal);
  return times;
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

test('1,000 VMs at once lose no event of their starts, and none waits for the pods of the others', async () => {
  const watching = new AbortController();
  const times = watchTimes(watching.signal);
  for (let i = 0; i < names.length; i += 50) {
    await Promise.all(names.slice(i, i + 50).map((name) => space.deploy(name)));
  }
  operator = await startVmOperator(world.client, { portRanges: {} });
  await expect.poll(() => times.vmReady.size, minutes).toBe(names.length);
  watching.abort();

  // The first have their status while most of the others have no pod yet.
  const firstStatus = Math.min(...times.status.values());
  const podsBefore = [...times.pod.values()].filter((at) => at < firstStatus).length;
  // How many come first depends on how fast pods can be made in the second after which a status counts as much as a pod.
  expect(podsBefore).toBeLessThan(names.length * 0.9);
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
