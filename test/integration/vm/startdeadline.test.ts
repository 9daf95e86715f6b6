import { afterAll, beforeAll, expect, test } from 'vitest';
import { events, vmConfigs, vms } from '../../../src/api/resources.ts';
import { vmState } from '../../../src/wire/vm.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { runnerState } from '../../unit/controllers/vm/builders.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
/**
 * What the runner of every VM pod answers. It cannot show what a real one says of cards that are busy and of a guest that has run;
 * test/integration/runner/gpu.test.ts and crash.test.ts beside it do.
 */
let answer: Parameters<typeof runnerState>[0] = {};

const busy = 'a GPU of the node is in use: failed to open /dev/vfio/2: Device or resource busy';

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('deadline');
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startVmOperator(world.client, {}, () => ({
    openRunner: () => ({
      state: () => Promise.resolve(runnerState(answer)),
      power: () => Promise.resolve(runnerState(answer)),
      resize: () => Promise.reject(new Error('not asked for')),
      eject: () => Promise.reject(new Error('not asked for')),
      claim: () => Promise.reject(new Error('not asked for')),
      ports: () => Promise.reject(new Error('not asked for')),
      fingerprint: () => undefined,
    }),
  }));
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const failing = { powerState: 'Failed', reason: 'GpuBusy', message: busy, retrying: true } as const;

/** As the API does for callers that may not delete. */
const bringForward = (name: string) =>
  world.client.patch(
    vms,
    { name, namespace: space.name },
    { type: 'merge', body: { spec: { startDeadlineSeconds: 1 } } },
  );

test('a VM that fails before it has ever run is deleted at its start deadline, with the reason', async () => {
  answer = failing;
  world.kubelet.behave(() => ({ kind: 'unready' }));
  await space.deploy('never', { startDeadlineSeconds: 600 });
  await space.until('never', 'Booted', { status: 'False', reason: 'GPUUnavailable', message: busy });
  const vm = await space.vm('never');
  expect(vm.status?.powerState).toBeUndefined();
  expect(vmState(vm)).toBe('Pending');
  await expect.poll(() => space.events('never'), slow).toContain('GPUUnavailable');
  await bringForward('never');
  await expect.poll(() => space.isThere('never'), slow).toBe(false);
  await expect.poll(() => space.pod('never'), slow).toBeUndefined();
  const notes = async () =>
    (await world.client.list(events, { namespace: space.name })).items
      .filter(({ reason }) => reason === 'StartDeadlineExceeded')
      .map(({ note }) => note);
  await expect.poll(notes, slow).toEqual([`the VM did not boot within 1 seconds and is deleted: ${busy}`]);
});

test('a VM that no node takes is deleted at the start deadline that its VMConfig says', async () => {
  const spec = { image: 'registry.example.com/debian:12', cpu: 256, startDeadlineSeconds: 1 };
  await world.client.create(vmConfigs, { metadata: { name: 'large', namespace: space.name }, spec });
  await world.client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name: 'unplaced', namespace: space.name },
    spec: { config: 'large', powerState: 'Running' },
  });
  await expect.poll(() => space.isThere('unplaced'), slow).toBe(false);
  await expect.poll(() => space.events('unplaced'), slow).toContain('StartDeadlineExceeded');
});

test('a VM that has run once and fails later stays, whatever its start deadline', async () => {
  answer = {};
  world.kubelet.behave(() => ({ kind: 'run' }));
  await space.deploy('once', { startDeadlineSeconds: 600 });
  await space.untilReady('once');
  answer = failing;
  world.kubelet.behave(() => ({ kind: 'unready' }));
  world.kubelet.again();
  await space.until('once', 'Booted', { status: 'False', reason: 'GPUUnavailable' });
  await bringForward('once');
  const generation = (await space.vm('once')).metadata.generation ?? 0;
  await expect.poll(async () => (await space.vm('once')).status?.observedGeneration, slow).toBe(generation);
  expect(vmState(await space.vm('once'))).toBe('Failed');
  await space.remove('once');
});
