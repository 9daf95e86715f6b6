/** The start deadline deletes VMs that never ran, and no other: whatever our status and our caches say meanwhile. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { RunnerState } from '../../src/api/runner.ts';
import { pods, vms } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { holdWatches } from '../support/heldwatches.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { runnerState } from '../unit/controllers/vm/builders.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator | undefined;
/** What the runner of every VM pod answers. */
let answer: () => Promise<RunnerState>;

const deadlineSeconds = 3;

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('deadline');
  await world.kubelet.addNode({ name: 'n1' });
});

beforeEach(() => {
  answer = () => Promise.resolve(runnerState());
  world.kubelet.behave(() => ({ kind: 'pending' }));
});

afterEach(() => operator?.stop());
afterAll(() => world?.stop());

async function startOperator(client: KubeClient = world.client): Promise<void> {
  operator = await startVmOperator(client, {}, () => ({
    openRunner: () => ({
      state: () => answer(),
      power: () => answer(),
      resize: () => Promise.reject(new Error('not asked for')),
      eject: () => Promise.reject(new Error('not asked for')),
      claim: () => Promise.reject(new Error('not asked for')),
      ports: () => Promise.reject(new Error('not asked for')),
      fingerprint: () => undefined,
    }),
  }));
}

/** A VM whose pod is made, and whose operator dies before anything runs in it. */
async function deployAndLeave(name: string): Promise<void> {
  await startOperator();
  await space.deploy(name, { startDeadlineSeconds: deadlineSeconds });
  await expect.poll(() => space.pod(name), slow).toBeDefined();
  await operator?.stop();
}

async function untilOver(name: string): Promise<void> {
  const { creationTimestamp = '' } = (await space.vm(name)).metadata;
  const over = Date.parse(creationTimestamp) + deadlineSeconds * 1000;
  await expect.poll(() => Date.now() > over, slow).toBe(true);
}

async function untilPodReady(name: string): Promise<void> {
  const ready = async () =>
    (await space.pod(name))?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  await expect.poll(ready, slow).toBe('True');
}

async function expectKept(name: string, pod: string | undefined): Promise<void> {
  expect(await space.isThere(name)).toBe(true);
  expect((await space.pod(name))?.metadata.uid).toBe(pod);
  expect((await space.pod(name))?.metadata.deletionTimestamp).toBeUndefined();
  expect(await space.events(name)).not.toContain('StartDeadlineExceeded');
}

describe('a VM past its start deadline', () => {
  test('is kept where it became ready while no operator was there', async () => {
    await deployAndLeave('outage');
    world.kubelet.behave(() => ({ kind: 'run' }));
    await untilPodReady('outage');
    await untilOver('outage');
    const uid = (await space.pod('outage'))?.metadata.uid;
    expect((await space.vm('outage')).status?.powerState).toBeUndefined();
    await startOperator();
    await space.untilReady('outage');
    await expectKept('outage', uid);
    await space.remove('outage');
  });

  test('is kept where its pod has been ready and is not any more', async () => {
    await deployAndLeave('flipped');
    world.kubelet.behave(() => ({ kind: 'run' }));
    await untilPodReady('flipped');
    // The time of a condition has seconds.
    await untilOver('flipped');
    world.kubelet.behave(() => ({ kind: 'unready' }));
    await expect
      .poll(async () => (await space.pod('flipped'))?.status?.containerStatuses?.[0]?.ready, slow)
      .toBe(false);
    answer = () => Promise.reject(new Error('nobody is there'));
    const uid = (await space.pod('flipped'))?.metadata.uid;
    await startOperator();
    await space.until('flipped', 'Ready', { status: 'Unknown', reason: 'RunnerUnreachable' });
    await expectKept('flipped', uid);
    await space.remove('flipped');
  });

  test('is kept where its runner says that the guest runs, though the pod is not ready', async () => {
    await deployAndLeave('probed');
    world.kubelet.behave(() => ({ kind: 'unready' }));
    await untilOver('probed');
    const uid = (await space.pod('probed'))?.metadata.uid;
    await startOperator();
    await expect.poll(async () => (await space.vm('probed')).status?.powerState, slow).toBe('Running');
    await expectKept('probed', uid);
    await space.remove('probed');
  });

  test('is kept while its runner cannot be asked, and deleted once it says that nothing has run', async () => {
    await deployAndLeave('silent');
    world.kubelet.behave(() => ({ kind: 'unready' }));
    await untilOver('silent');
    let asked = 0;
    answer = () => {
      asked += 1;
      return Promise.reject(new Error('nobody is there'));
    };
    const uid = (await space.pod('silent'))?.metadata.uid;
    await startOperator();
    await expect.poll(() => asked, slow).toBeGreaterThan(2);
    await expectKept('silent', uid);
    answer = () =>
      Promise.resolve(
        runnerState({ powerState: 'Failed', reason: 'GpuBusy', retrying: true, guestStarted: false }),
      );
    await expect.poll(() => space.isThere('silent'), slow).toBe(false);
    await expect.poll(() => space.events('silent'), slow).toContain('StartDeadlineExceeded');
    await expect.poll(() => space.pod('silent'), slow).toBeUndefined();
  });

  test('is kept where the operator has not heard yet that its pod is ready', async () => {
    const watches = holdWatches(world.client);
    await startOperator(watches.client);
    await space.deploy('unheard', { startDeadlineSeconds: deadlineSeconds });
    await space.until('unheard', 'Ready', { status: 'False', reason: 'Starting' });
    watches.hold('pods');
    world.kubelet.behave(() => ({ kind: 'run' }));
    await untilPodReady('unheard');
    await untilOver('unheard');
    const uid = (await space.pod('unheard'))?.metadata.uid;
    // Its event brings the operator to look at it.
    const labelled = { type: 'merge' as const, body: { metadata: { labels: { seen: '1' } } } };
    await world.client.patch(vms, { name: 'unheard', namespace: space.name }, labelled);
    await expect.poll(async () => (await space.vm('unheard')).metadata.labels, slow).toEqual({ seen: '1' });
    // Whoever fits nowhere is told so without a pod.
    await space.deploy('nowhere', { tag: 'none', tagRequired: true });
    await space.until('nowhere', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    await expectKept('unheard', uid);
    watches.release();
    await space.untilReady('unheard');
    await expectKept('unheard', uid);
    await space.remove('unheard');
    await space.remove('nowhere');
  });

  test('is kept where somebody has just given it more time', async () => {
    const watches = holdWatches(world.client);
    await startOperator(watches.client);
    await space.deploy('longer', { startDeadlineSeconds: deadlineSeconds });
    await space.until('longer', 'Ready', { status: 'False', reason: 'Starting' });
    watches.hold('vms');
    await world.client.patch(
      vms,
      { name: 'longer', namespace: space.name },
      { type: 'merge', body: { spec: { startDeadlineSeconds: 600 } } },
    );
    await untilOver('longer');
    const labelled = { type: 'merge' as const, body: { metadata: { labels: { seen: '1' } } } };
    await world.client.patch(pods, { name: 'svc3-vm-longer', namespace: space.name }, labelled);
    watches.release();
    await expect
      .poll(async () => (await space.vm('longer')).status?.observedGeneration, slow)
      .toBeGreaterThan(1);
    expect(await space.isThere('longer')).toBe(true);
    await space.remove('longer');
  });

  test('is deleted where it never had a pod that ran', async () => {
    await deployAndLeave('never');
    await untilOver('never');
    await startOperator();
    await expect.poll(() => space.isThere('never'), slow).toBe(false);
    await expect.poll(() => space.pod('never'), slow).toBeUndefined();
    await expect.poll(() => space.events('never'), slow).toContain('StartDeadlineExceeded');
  });
});
