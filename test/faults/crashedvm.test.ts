/** A VM that has crashed beyond its restarts: it is said that nothing goes on by itself, and start, stop and save mend it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { withFaults, type Write } from '../support/faultclient.ts';
import { RunnerStandIn } from '../support/runnerstandin.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

const { svc3 } = inProcess();
/** QEMU was killed six times. */
const crashed = {
  powerState: 'Failed',
  reason: 'QemuCrashed',
  message: 'QEMU was killed by SIGKILL',
  restarts: 6,
  guestStarted: true,
} as const;

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let api: TestApi;
let writes: Write[];
const runner = new RunnerStandIn(() => world.kubelet);

const startOperator = () => {
  const counted = withFaults(world.client, () => 'none');
  writes = counted.writes;
  return startVmOperator(counted.client, {}, runner.parts);
};

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('crashed');
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startOperator();
  api = await startTestApi(world.client);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await world?.stop();
});

const http = (path: string, body: object) =>
  api.call('POST', `/api/v1/namespaces/${space.name}/vms/vm/${path}`, {
    token: world.controlPlane.adminToken,
    body,
  });
const cli = (...words: string[]) =>
  svc3(words, { env: { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name } });

const conditions = async () =>
  ((await space.vm('vm')).status?.conditions ?? []).map(({ type, status }) => `${type}=${status}`);

async function crash(): Promise<void> {
  runner.forget();
  runner.become(crashed);
  await expect.poll(async () => (await space.vm('vm')).status?.powerState, slow).toBe('Failed');
  await space.until('vm', 'Stalled', { status: 'True', reason: 'RestartLimitExceeded' });
}

describe('a VM whose restarts are used up', { timeout: 180_000 }, () => {
  test('is Stalled and not Reconciling, with the last words of QEMU, also after a restart of the operator', async () => {
    await space.deploy('vm');
    await space.untilReady('vm');
    await crash();
    expect(await conditions()).toEqual(expect.arrayContaining(['Ready=False', 'Stalled=True']));
    expect(await conditions()).not.toContain('Reconciling=True');
    expect(await space.condition('vm', 'Stalled')).toMatchObject({
      message: 'QEMU was killed by SIGKILL; it is not started again by itself',
    });
    await expect.poll(() => space.events('vm'), slow).toContain('RestartLimitExceeded');
    await operator.stop();
    operator = await startOperator();
    // A VM made now has been through the same queue behind it.
    await space.deploy('nowhere', { tag: 'none', tagRequired: true });
    await space.until('nowhere', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
    expect(writes.filter(({ name }) => name === 'vm')).toEqual([]);
  });

  test.each<[string, () => Promise<unknown>]>([
    ['HTTP', async () => expect(await http('exec', { command: 'start' })).toMatchObject({ status: 200 })],
    ['svc3 on kube-apiserver', async () => expect(await cli('vm', 'start', 'vm')).toMatchObject({ code: 0 })],
  ])('is started by %s, once, though its spec says Running all the while', async (_face, start) => {
    await crash();
    await start();
    expect(runner.verbs).toEqual(['start']);
    await space.untilReady('vm');
    expect(await conditions()).not.toContain('Stalled=True');
    expect((await space.vm('vm')).spec.powerState).toBe('Running');
    await crash();
    expect(runner.verbs).toEqual([]);
  });

  test('starts what it was asked for while no operator was there, and only once', async () => {
    await operator.stop();
    runner.forget();
    const patch = { type: 'merge' as const, body: { spec: { startRequest: 'by hand' } } };
    await world.client.patch(vms, { name: 'vm', namespace: space.name }, patch);
    operator = await startOperator();
    await space.untilReady('vm');
    await operator.stop();
    operator = await startOperator();
    await crash();
    expect(runner.verbs).toEqual([]);
  });

  test('can be saved', async () => {
    const saved = await http('save', { imageName: 'saved' });
    expect([saved.status, saved.json.name]).toEqual([202, 'saved']);
    const { code, stderr } = await cli('vm', 'save', 'vm', 'saved-too', '--no-wait');
    expect([code, stderr]).toEqual([0, expect.any(String)]);
  });

  test('is stopped, and started again', async () => {
    expect(await http('exec', { command: 'stop' })).toMatchObject({ status: 200 });
    expect(runner.verbs).toEqual(['stop']);
    await space.until('vm', 'Ready', { status: 'True' });
    expect(await http('exec', { command: 'start' })).toMatchObject({ status: 200 });
    await space.untilReady('vm');
  });
});

describe('a guest that has shut itself down', { timeout: 180_000 }, () => {
  test('is started by who asks for it, though its spec says Running all the while', async () => {
    runner.forget();
    runner.become({ powerState: 'Stopped', reason: 'GuestShutdown' });
    await space.until('vm', 'Ready', { status: 'False', reason: 'GuestStopped' });
    expect(await http('exec', { command: 'start' })).toMatchObject({ status: 200 });
    expect(runner.verbs).toEqual(['start']);
    await space.untilReady('vm');
  });
});
