import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Pod } from '../../src/api/core.ts';
import { labels } from '../../src/api/meta.ts';
import { events, pods, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { isTrue } from '../../src/controller/conditions.ts';
import { lowPriorityMs } from '../../src/controller/workqueue.ts';
import { createInformer } from '../../src/kube/informer.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';

/** On a loaded machine everything takes ten times as long. */
const minutes = { timeout: 180_000, interval: 500 };

const names = Array.from({ length: 1_000 }, (_, i) => `vm-${i}`);

/** Passes that had begun before, and that the two watches do not show in the order of the writes. */
const underWay = 100;

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

/** When something was first seen, and the resourceVersion of that write: etcd has one order of all writes. */
interface Sight {
  readonly at: number;
  readonly version: number;
}

interface Sights {
  /** By name of the VM. */
  readonly pod: Map<string, Sight>;
  readonly status: Map<string, Sight>;
  readonly ready: Map<string, Sight>;
}

function watchBurst(signal: AbortSignal): Sights {
  const sights: Sights = { pod: new Map(), status: new Map(), ready: new Map() };
  const see = (into: Map<string, Sight>, name: string, { metadata }: Pod | Vm) => {
    if (into.has(name)) return;
    into.set(name, { at: performance.now(), version: Number(metadata.resourceVersion) });
  };
  const podInformer = createInformer<Pod>({ client: world.client, resource: pods, namespace: space.name });
  const vmInformer = createInformer<Vm>({ client: world.client, resource: vms, namespace: space.name });
  podInformer.onChange(({ object }) => see(sights.pod, object.metadata.labels?.[labels.vm] ?? '', object));
  vmInformer.onChange(({ object }) => {
    const { name } = object.metadata;
    if (object.status?.conditions !== undefined) see(sights.status, name, object);
    if (isTrue(object.status?.conditions, 'Ready')) see(sights.ready, name, object);
  });
  void podInformer.run(signal);
  void vmInformer.run(signal);
  return sights;
}

/**
 * By how many the pods of others exceed the statuses of others that were written after a VM's status had waited for
 * `lowPriorityMs` and before it was written. Counts, so that it does not matter how fast the machine is.
 */
function overtaking({ pod, status }: Sights): number[] {
  const made = [...pod.values()];
  const told = [...status.values()];
  return names.map((name) => {
    const waited = (pod.get(name)?.at ?? NaN) + lowPriorityMs;
    const version = status.get(name)?.version ?? NaN;
    const count = (all: readonly Sight[]) =>
      all.filter((one) => one.at > waited && one.version < version).length;
    return count(made) - count(told);
  });
}

/** Names of the VMs whose Events tell both steps of a start: a node was chosen, and QEMU runs the guest. One Event may tell both. */
async function toldWhole(): Promise<string[]> {
  const { items } = await world.client.list(events, { namespace: space.name });
  const about = (isStep: (event: (typeof items)[number]) => boolean) =>
    new Set(
      items.flatMap((event) =>
        event.regarding?.kind === 'VM' && isStep(event) ? [event.regarding.name ?? ''] : [],
      ),
    );
  const placed = about(({ note }) => note?.startsWith('placed on node ') === true);
  const booted = about(({ reason }) => reason === 'Booted');
  return names.filter((name) => placed.has(name) && booted.has(name));
}

test('1,000 VMs at once lose no event of their starts, and none waits for the pods of the others', async () => {
  const watching = new AbortController();
  const sights = watchBurst(watching.signal);
  for (let i = 0; i < names.length; i += 50)
    await Promise.all(names.slice(i, i + 50).map((name) => space.deploy(name)));
  operator = await startVmOperator(world.client, { portRanges: {} });
  await expect.poll(() => sights.ready.size, minutes).toBe(names.length);
  watching.abort();

  // A status that has waited for its time gets three of four turns.
  expect(Math.max(...overtaking(sights))).toBeLessThan(underWay);
  await expect.poll(toldWhole, minutes).toEqual(names);
}, 400_000);
