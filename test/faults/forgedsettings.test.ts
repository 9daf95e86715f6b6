/** A pod that somebody wrote for a VM, with settings of their own in the annotation that the operator reads after its death. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pods } from '../../src/api/resources.ts';
import { buildPod } from '../../src/controllers/vm/pod/pod.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { effective, podInput } from '../unit/controllers/vm/builders.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator | undefined;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('forged');
  await world.kubelet.addNode({ name: 'n1' });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const image = effective.image;
/** Several fit on the node. */
const withoutPorts = { node: 'n1', accelerator: 'tcg', ports: {}, requestsEphemeralStorage: true } as const;

/** A VM whose pod an editor of the namespace makes before the operator does. */
async function forge(name: string, annotation: string): Promise<void> {
  const vm = await space.deploy(name, { image });
  const pod = buildPod(podInput({ vm, effective, placement: withoutPorts }));
  const annotations = { ...pod.metadata.annotations, 'svc3.dev/effective': annotation };
  await world.client.create(pods, { ...pod, metadata: { ...pod.metadata, annotations } });
}

test('settings that cannot be read or do not follow from the VM are told as PodConflict, and nothing is done with them', async () => {
  await forge('garbled', '{"cpu":');
  await forge('empty', '{}');
  await forge(
    'greedy',
    JSON.stringify({ ...effective, ports: [{ nodePort: 22, guestPort: 22, protocol: 'TCP' }] }),
  );
  await forge(
    'privileged',
    JSON.stringify({ ...effective, gpuPassthrough: 'Enabled', vncConsole: 'Disabled' }),
  );
  const names = ['garbled', 'empty', 'greedy', 'privileged'];
  const before = await Promise.all(names.map((name) => space.pod(name)));
  operator = await startVmOperator(world.client);
  for (const name of names) {
    await space.until(name, 'Scheduled', {
      status: 'False',
      reason: 'PodConflict',
      message: expect.stringContaining(`pod svc3-vm-${name} is not as svc3 makes it`),
    });
    expect((await space.vm(name)).status?.effective).toBeUndefined();
  }
  const after = await Promise.all(names.map((name) => space.pod(name)));
  expect(after.map((pod) => pod?.metadata.uid)).toEqual(before.map((pod) => pod?.metadata.uid));
});

test('once the pod is deleted, as the condition says, the VM runs with its own settings', async () => {
  await world.client.delete(pods, { name: 'svc3-vm-greedy', namespace: space.name });
  await space.untilReady('greedy');
  expect((await space.vm('greedy')).status?.effective).not.toHaveProperty('ports');
});

test('a pod that the operator has made and died is adopted', async () => {
  await operator?.stop();
  const vm = await space.deploy('own', { image });
  await world.client.create(pods, buildPod(podInput({ vm, effective })));
  operator = await startVmOperator(world.client);
  await space.untilReady('own');
  await expect.poll(async () => (await space.vm('own')).status?.effective, slow).toEqual(effective);
});
