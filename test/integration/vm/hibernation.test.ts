import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import { images, nodes, pods, vms } from '../../../src/api/resources.ts';
import { storageClasses } from '../../support/resources.ts';
import type { PowerRequest, RunnerState } from '../../../src/api/runner.ts';
import type { VmSettings } from '../../../src/controllers/vm/settings.ts';
import { bindClaim } from '../../support/claims.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { powerRequest } from '../../../src/wire/power.ts';
import { runnerState } from '../../unit/controllers/vm/builders.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

/** The runner of the one VM. What becomes of its guest: test/integration/runner/hibernation.test.ts, test/life/drain.test.ts. */
const runner = { state: runnerState(), verbs: [] as PowerRequest[] };

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;

function become(state: Partial<RunnerState>): RunnerState {
  runner.state = runnerState({ guestStarted: true, ...state });
  world.kubelet.behave(() => ({ kind: state.powerState === 'Running' ? 'run' : 'unready' }));
  return runner.state;
}

const start = (given: Partial<VmSettings> = {}): Promise<TestOperator> =>
  startVmOperator(world.client, { storageClassName: 'sleeping', ...given }, () => ({
    openRunner: () => ({
      state: async () => runner.state,
      power: async (request) => {
        runner.verbs.push(request);
        const { revertRequest } = { ...runner.state, ...request };
        if (request.action !== 'suspend') return become({ powerState: 'Running', revertRequest });
        return become({ powerState: 'Suspended', suspendKind: request.suspendTo ?? 'Memory' });
      },
      claim: () => Promise.reject(new Error('not asked for')),
      eject: () => Promise.reject(new Error('not asked for')),
      ports: () => Promise.reject(new Error('not asked for')),
      resize: () => Promise.reject(new Error('not asked for')),
      fingerprint: () => 'print',
    }),
  }));

async function request(spec: object): Promise<void> {
  await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: { spec } });
}

const statusOf = async () => (await space.vm('vm')).status;

beforeAll(async () => {
  world = await vmWorld();
  for (const name of ['n1', 'n2']) await world.kubelet.addNode({ name });
  space = await world.namespace('hibernation');
  await world.client.create(storageClasses, {
    metadata: { name: 'sleeping' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'Immediate',
  });
  become({ powerState: 'Running' });
  operator = await start();
  await space.deploy('vm', { disk: { storage: 'Persistent', size: '1Gi' }, suspendTo: 'Disk' });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

test('a VM that is suspended on its disk has no pod, and goes on in another', async () => {
  await space.until('vm', 'Scheduled', { status: 'False' });
  await bindClaim(world.client, space.name, 'svc3-vm-vm');
  await space.untilReady('vm');
  await request({ powerState: 'Suspended' });
  await expect.poll(() => space.pod('vm'), slow).toBeUndefined();
  expect(runner.verbs).toEqual([{ action: 'suspend', suspendTo: 'Disk' }]);
  await expect.poll(statusOf, slow).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
  await expect.poll(statusOf, slow).not.toHaveProperty('podName');
  expect(await space.condition('vm', 'Ready')).toMatchObject({ status: 'True', reason: 'Suspended' });

  // An operator that knows nothing of it makes no pod either.
  await operator.stop();
  operator = await start();
  await request({ metadata: [{ name: 'a', value: 'b' }] });
  await expect
    .poll(async () => (await statusOf())?.observedGeneration, slow)
    .toBe((await space.vm('vm')).metadata.generation);
  expect(await space.pod('vm')).toBeUndefined();

  // Its guest goes on as what it was, and has what was asked for meanwhile when it is started next.
  become({ powerState: 'Running' });
  await request({ powerState: 'Running', cpu: 2 });
  await space.untilReady('vm');
  await space.until('vm', 'RestartRequired', { status: 'True', message: expect.stringContaining('cpu') });
  expect((await statusOf())?.effective?.cpu).not.toBe(2);
  await expect.poll(statusOf, slow).toMatchObject({ powerState: 'Running', podName: 'svc3-vm-vm' });
  expect(await statusOf()).not.toHaveProperty('suspendedTo');
});

test('an operator that dies before it has ended the pod ends it when it is back', async () => {
  await operator.stop();
  runner.verbs = [];
  become({ powerState: 'Suspended', suspendKind: 'Disk' });
  await request({ powerState: 'Suspended' });
  operator = await start();
  await expect.poll(() => space.pod('vm'), slow).toBeUndefined();
  expect(runner.verbs).toEqual([]);
  await expect.poll(statusOf, slow).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
});

test('a VM that sleeps while its disk is promised to an image goes on for that before it is reverted', async () => {
  const saved = { name: 'saved', namespace: space.name };
  await world.client.create(images, { metadata: saved, spec: { source: { vm: { name: 'vm' } } } } as Image);
  await request({ powerState: 'Running', revertRequest: 'one' });
  await space.until('vm', 'Ready', {
    reason: 'Reverting',
    message: expect.stringContaining('the revert waits until image saved is saved'),
  });
  // No runner copies the disk of a guest that sleeps.
  await expect.poll(statusOf, slow).toMatchObject({ powerState: 'Running' });
  expect(runner.verbs).toEqual([{ action: 'resume' }]);
  // It is what it was before a change that waits since: with another size it would boot.
  expect((await space.pod('vm'))?.metadata.annotations?.['svc3.dev/runner-spec']).toContain('"cpu":1');
  await space.until('vm', 'RestartRequired', { status: 'True', message: expect.stringContaining('cpu') });
  await world.client.delete(images, saved);
  await space.untilReady('vm');
  expect(runner.verbs).toEqual([{ action: 'resume' }, { action: 'revert', revertRequest: 'one' }]);
  expect(await statusOf()).toMatchObject({ revertRequest: 'one' });
  await space.remove('vm');
  await space.untilGone('vm');
});

test('a guest whose node is gone goes on where its memory fits, though there is more room elsewhere', async () => {
  const allocatable = { 'svc3.dev/kvm': '110' };
  const annotations = (model: string) => ({
    'svc3.dev/hardware': JSON.stringify({ version: 1, cpu: { model, flags: ['avx', 'sse'] } }),
  });
  for (const name of ['n1', 'n2']) await world.kubelet.removeNode(name);
  await world.kubelet.addNode({ name: 'first', annotations: annotations('Old CPU'), allocatable });
  become({ powerState: 'Running' });
  await space.deploy('sleeper', { disk: { storage: 'Persistent', size: '1Gi' }, suspendTo: 'Disk' });
  const status = async () => (await space.vm('sleeper')).status;
  await space.until('sleeper', 'Scheduled', { status: 'False' });
  await bindClaim(world.client, space.name, 'svc3-vm-sleeper');
  await space.untilReady('sleeper');
  const memoryHost = { accelerator: 'kvm', cpuModel: 'Old CPU', cpuFlags: 'avx sse' };
  await expect.poll(status, slow).toMatchObject({ memoryHost });
  const ask = (powerState: string) =>
    world.client.patch(
      vms,
      { name: 'sleeper', namespace: space.name },
      { type: 'merge', body: { spec: { powerState } } },
    );
  const large = { ...allocatable, cpu: '64', memory: '256Gi' };
  await world.kubelet.addNode({ name: 'larger', annotations: annotations('New CPU'), allocatable: large });
  await world.kubelet.addNode({ name: 'alike', annotations: annotations('Old CPU'), allocatable });
  await ask('Suspended');
  await expect.poll(() => space.pod('sleeper'), slow).toBeUndefined();
  await expect.poll(status, slow).toMatchObject({ suspendedTo: 'Disk', memoryHost });
  await world.kubelet.removeNode('first');
  become({ powerState: 'Running' });
  await ask('Running');
  await expect.poll(status, slow).toMatchObject({ powerState: 'Running', node: 'alike', memoryHost });
});

test('a guest whose memory is on its claim goes on where the VM is sent to, as what it was', async () => {
  const key = { name: 'sleeper', namespace: space.name };
  const status = async () => (await space.vm('sleeper')).status;
  const change = (spec: object) => world.client.patch(vms, key, { type: 'merge', body: { spec } });
  await change({ nodeName: 'alike' });
  await space.until('sleeper', 'RestartRequired', { status: 'True' });
  await change({ powerState: 'Suspended' });
  await expect.poll(() => space.pod('sleeper'), slow).toBeUndefined();
  await expect.poll(status, slow).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
  become({ powerState: 'Running' });
  // It cannot be there.
  await change({ nodeName: 'gone', cpu: 2, powerState: 'Running' });
  await space.until('sleeper', 'Scheduled', {
    status: 'False',
    message: expect.stringContaining('the requested node name'),
  });
  await change({ nodeName: 'larger' });
  await expect
    .poll(status, slow)
    .toMatchObject({ powerState: 'Running', node: 'larger', effective: { nodeName: 'larger' } });
  await space.until('sleeper', 'RestartRequired', {
    status: 'True',
    message: 'spec.cpu apply when the guest is started next',
  });
});

describe('a guest that was up when its pod was ended by others', () => {
  const key = () => ({ name: 'evicted', namespace: space.name });
  const status = async () => (await space.vm('evicted')).status;
  const change = (spec: object) => world.client.patch(vms, key(), { type: 'merge', body: { spec } });
  const cordon = async (unschedulable: boolean) => {
    for (const name of ['larger', 'alike'])
      await world.client.patch(nodes, { name }, { type: 'merge', body: { spec: { unschedulable } } });
  };
  /** There is no room for it. */
  const evict = async () => {
    await cordon(true);
    await world.client.delete(pods, { name: 'svc3-vm-evicted', namespace: space.name });
    await expect.poll(() => space.pod('evicted'), slow).toBeUndefined();
    await space.until('evicted', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
  };
  const waits = 'spec.cpu apply when the guest is started next';

  test('goes on as what it was, though it was changed meanwhile', async () => {
    await space.remove('sleeper');
    become({ powerState: 'Running' });
    await space.deploy('evicted', { disk: { storage: 'Persistent', size: '1Gi' }, onEviction: 'Suspend' });
    await space.until('evicted', 'Scheduled', { status: 'False' });
    await bindClaim(world.client, space.name, 'svc3-vm-evicted');
    await space.untilReady('evicted');
    await evict();
    expect(await space.condition('evicted', 'RestartRequired')).toEqual({});
    await change({ cpu: 2 });
    await space.until('evicted', 'RestartRequired', { status: 'True', message: waits });
    await cordon(false);
    await space.untilReady('evicted');
    expect(await status()).toMatchObject({ powerState: 'Running', effective: { cpu: 1 } });
    await space.until('evicted', 'RestartRequired', { status: 'True', message: waits });
  });

  test('boots with its changes where it finds no place and a restart is asked for', async () => {
    await evict();
    await space.until('evicted', 'RestartRequired', { status: 'True', message: waits });
    await change({ restartRequest: 'boot' });
    await expect.poll(() => space.condition('evicted', 'RestartRequired'), slow).toEqual({});
    await cordon(false);
    await space.untilReady('evicted');
    await expect
      .poll(status, slow)
      .toMatchObject({ powerState: 'Running', effective: { cpu: 2 }, restartRequest: 'boot' });
  });
});

test('a VM that finds no room to go on can be suspended again', async () => {
  const status = async () => (await space.vm('evicted')).status;
  const change = (spec: object) =>
    world.client.patch(vms, { name: 'evicted', namespace: space.name }, { type: 'merge', body: { spec } });
  await change({ powerState: 'Suspended', suspendTo: 'Disk' });
  await expect.poll(() => space.pod('evicted'), slow).toBeUndefined();
  await expect.poll(status, slow).not.toHaveProperty('podName');
  await change({ nodeName: 'gone', powerState: 'Running' });
  await space.until('evicted', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
  await change({ powerState: 'Suspended' });
  await space.until('evicted', 'Ready', { status: 'True', reason: 'Suspended' });
  expect(await status()).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
});

describe('a VM that is to go on and whose pod does not start can be suspended again', () => {
  const status = async () => (await space.vm('evicted')).status;
  const change = (spec: object) =>
    world.client.patch(vms, { name: 'evicted', namespace: space.name }, { type: 'merge', body: { spec } });

  test.each([
    ['no node takes it', 'gone', 'Scheduled', 'Unschedulable'],
    ['its image is not pulled', 'larger', 'Prepared', 'ImagePullFailed'],
  ])('where %s', async (_what, nodeName, type, reason) => {
    await operator.stop();
    operator = await start({ whenFull: 'Pod' });
    world.kubelet.behave(() => ({ kind: 'waiting', reason: 'ImagePullBackOff', message: 'denied' }));
    await change({ nodeName, powerState: 'Running' });
    await space.until('evicted', type, { status: 'False', reason });
    expect(await space.pod('evicted')).toBeDefined();
    expect(await status()).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
    expect(powerRequest(await space.vm('evicted'), 'suspend')).toEqual({ powerState: 'Suspended' });
    await change({ powerState: 'Suspended' });
    await expect.poll(() => space.pod('evicted'), slow).toBeUndefined();
    await space.until('evicted', 'Ready', { status: 'True', reason: 'Suspended' });
    expect(await status()).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
  });
});
