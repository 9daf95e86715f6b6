/** The start deadline deletes VMs that never ran, and no other: whatever our status and our caches say meanwhile. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { RunnerState } from '../../src/api/runner.ts';
import { vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { startDeadline } from '../../src/controllers/vm/facts/startdeadline.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { holdWatches } from '../support/heldwatches.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { runnerState } from '../unit/controllers/vm/builders.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator | undefined;
/** What the runner of every VM pod answers. It cannot show what a real one says of a guest that has run; test/integration/runner/crash.test.ts does. */
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

function setDeadline(name: string, startDeadlineSeconds: number): Promise<Vm> {
  const body = { spec: { startDeadlineSeconds } };
  return world.client.patch(vms, { name, namespace: space.name }, { type: 'merge', body });
}

/** A VM whose pod is made, and whose operator dies before anything runs in it. */
async function deployAndLeave(name: string): Promise<void> {
  await startOperator();
  await space.deploy(name, { startDeadlineSeconds: 600 });
  await expect.poll(() => space.pod(name), slow).toBeDefined();
  // Its time begins with the first report.
  await expect.poll(async () => (await space.vm(name)).status?.conditions, slow).toBeDefined();
  await operator?.stop();
  // Not before: the VM would be deleted where all this takes longer.
  await setDeadline(name, deadlineSeconds);
}

async function untilOver(name: string): Promise<void> {
  const vm = await space.vm(name);
  const over = startDeadline({ ...vm, spec: { ...vm.spec, startDeadlineSeconds: deadlineSeconds } });
  expect(over).toBeDefined();
  await expect.poll(() => Date.now() > (over ?? Infinity), slow).toBe(true);
}

async function untilPodReady(name: string): Promise<void> {
  const ready = async () =>
    (await space.pod(name))?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
  await expect.poll(ready, slow).toBe('True');
}

/** The operator has looked at it as it is in this generation. */
async function untilObserved(name: string, generation: number | undefined): Promise<void> {
  await expect.poll(async () => (await space.vm(name)).status?.observedGeneration, slow).toBe(generation);
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
    await space.deploy('unheard', { startDeadlineSeconds: 600 });
    await space.until('unheard', 'Ready', { status: 'False', reason: 'Starting' });
    watches.hold('pods');
    world.kubelet.behave(() => ({ kind: 'run' }));
    await untilPodReady('unheard');
    await untilOver('unheard');
    const uid = (await space.pod('unheard'))?.metadata.uid;
    // Its event brings the operator to look at it: it is over at once.
    const { metadata } = await setDeadline('unheard', deadlineSeconds);
    await untilObserved('unheard', metadata.generation);
    await expectKept('unheard', uid);
    expect(await space.condition('unheard', 'Ready')).toMatchObject({ reason: 'Starting' });
    watches.release();
    await space.untilReady('unheard');
    await expectKept('unheard', uid);
    await space.remove('unheard');
  });

  test('is kept where somebody has just given it more time', async () => {
    // Between what the caches say and what kube-apiserver is asked.
    let gives = false;
    const request: KubeClient['request'] = async (asked) => {
      if (gives && asked.method === 'GET' && asked.path.endsWith('/vms/longer'))
        await setDeadline('longer', 600);
      return world.client.request(asked);
    };
    await startOperator({ ...world.client, request });
    await space.deploy('longer', { startDeadlineSeconds: 600 });
    await space.until('longer', 'Ready', { status: 'False', reason: 'Starting' });
    const uid = (await space.pod('longer'))?.metadata.uid;
    await untilOver('longer');
    gives = true;
    const { metadata } = await setDeadline('longer', deadlineSeconds);
    await untilObserved('longer', (metadata.generation ?? 0) + 1);
    await expectKept('longer', uid);
    await space.remove('longer');
  });

  test('has its whole time where no operator ran until then, and is deleted after it', async () => {
    const { metadata } = await space.deploy('untried', { startDeadlineSeconds: deadlineSeconds });
    const made = Date.parse(metadata.creationTimestamp ?? '');
    await expect.poll(() => Date.now() > made + deadlineSeconds * 1000, slow).toBe(true);
    await startOperator();
    await expect.poll(() => space.events('untried'), slow).toContain('Scheduled');
    await expect.poll(() => space.isThere('untried'), slow).toBe(false);
    await expect.poll(() => space.events('untried'), slow).toContain('StartDeadlineExceeded');
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
