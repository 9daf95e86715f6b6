import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pods } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { type Fault, withFaults } from '../../support/faultclient.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('crash');
  for (const name of ['n1', 'n2', 'n3'])
    await world.kubelet.addNode({ name, allocatable: gpuNode, labels: gpuLabel });
});

afterAll(async () => {
  await world?.stop();
});

const gpuLabel = { 'svc3.dev/gpu-passthrough': 'enabled' };
const gpuNode = { 'svc3.dev/gpu-passthrough': '1' };
const settings = { gpuPassthroughEnabled: true };

/** An operator that dies at its n-th write, in the way the fault says. */
async function operatorThatDies(
  at: number,
  fault: Fault,
): Promise<{ operator: TestOperator; died: Promise<void> }> {
  let count = 0;
  let die = (): void => undefined;
  const died = new Promise<void>((resolve) => {
    die = resolve;
  });
  const faulty = withFaults(world.client, () => {
    count += 1;
    if (count < at) return 'none';
    faulty.crash();
    die();
    return count === at ? fault : 'lostRequest';
  });
  return { operator: await startVmOperator(faulty.client, settings), died };
}

async function podsOf(name: string): Promise<string[]> {
  const { items } = await world.client.list(pods, { namespace: space.name });
  return items
    .filter((pod) => pod.metadata.ownerReferences?.some((owner) => owner.name === name) === true)
    .map(({ metadata }) => metadata.name ?? '');
}

describe('an operator that dies', () => {
  const faults = ['lostAnswer', 'lostRequest'] as const;
  // The finalizer, the pod, a status, an event: a start that is quick has no more.
  const deaths = [1, 2, 3, 4].flatMap((at) => faults.map((fault) => ({ at, fault })));

  test.each(deaths)(
    'at write $at ($fault) is followed by one that finishes its work',
    async ({ at, fault }) => {
      const name = `vm-${at}-${fault.toLowerCase()}`;
      const { operator, died } = await operatorThatDies(at, fault);
      await space.deploy(name, { gpuPassthrough: 'Enabled' });
      await died;
      await operator.stop();
      const next = await startVmOperator(world.client, settings);
      await space.untilReady(name);
      expect(await podsOf(name)).toEqual([`svc3-vm-${name}`]);
      expect((await space.vm(name)).status?.effective).toMatchObject({ gpuPassthrough: 'Enabled', cpu: 1 });
      await space.remove(name);
      await next.stop();
    },
  );

  test('between pod and status keeps the settings that the pod was made from', async () => {
    const { operator, died } = await operatorThatDies(3, 'lostRequest');
    await space.deploy('adopted', { memory: '300Mi' });
    await died;
    await operator.stop();
    expect((await space.vm('adopted')).status?.conditions).toBeUndefined();
    const uid = (await space.pod('adopted'))?.metadata.uid;
    const next = await startVmOperator(world.client, settings);
    await space.untilReady('adopted');
    expect((await space.vm('adopted')).status?.effective?.memory).toBe('300Mi');
    expect((await space.pod('adopted'))?.metadata.uid).toBe(uid);
    await space.remove('adopted');
    await next.stop();
  });
});

describe('an operator that dies while it deletes a VM', () => {
  // The pod, then the finalizer.
  test.each([
    [1, 'lostAnswer'],
    [1, 'lostRequest'],
    [2, 'lostAnswer'],
    [2, 'lostRequest'],
  ] as const)('at write %i (%s) is followed by one that ends it', async (at, fault) => {
    const name = `ends-${at}-${fault.toLowerCase()}`;
    const first = await startVmOperator(world.client, settings);
    await space.deploy(name);
    await space.untilReady(name);
    await first.stop();
    await space.delete(name);
    const { operator, died } = await operatorThatDies(at, fault);
    await died;
    await operator.stop();
    const next = await startVmOperator(world.client, settings);
    await space.untilGone(name);
    await next.stop();
  });
});

describe('two operators at once', () => {
  test('give every VM one pod and no node two GPU VMs', async () => {
    const writers = await Promise.all([
      startVmOperator(world.client, settings),
      startVmOperator(world.client, settings),
    ]);
    const names = Array.from({ length: 8 }, (_, i) => `duel-${i}`);
    await Promise.all(names.map((name) => space.deploy(name, { gpuPassthrough: 'Enabled' })));
    /** As they were read last. */
    let ready: Vm[] = [];
    const countReady = async () => {
      const all = await Promise.all(names.map((name) => space.vm(name)));
      ready = all.filter(({ status }) =>
        status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True'),
      );
      return ready.length;
    };
    await expect.poll(countReady, slow).toBe(3);
    expect(new Set(ready.map(({ status }) => status?.node)).size).toBe(3);
    // The others come one after the other as room is made, and never two on a node.
    for (let left = names.length; left > 3; left--) {
      const [first] = ready;
      await space.remove(first?.metadata.name ?? '');
      names.splice(names.indexOf(first?.metadata.name ?? ''), 1);
      await expect.poll(countReady, slow).toBe(3);
    }
    const { items } = await world.client.list(pods, { namespace: space.name });
    const used = items.map((pod) => pod.spec.nodeName).filter((node) => node !== undefined);
    expect(new Set(used).size).toBe(used.length);
    await Promise.all(names.map((name) => space.remove(name)));
    await Promise.all(writers.map((writer) => writer.stop()));
  });
});
