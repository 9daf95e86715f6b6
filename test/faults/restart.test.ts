/** What `exec` asks for happens once, however the spec stands: a restart, and the start or stop of a guest that has shut itself down. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { RunnerStandIn } from '../support/runnerstandin.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

const { svc3 } = inProcess();

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let api: TestApi;
const runner = new RunnerStandIn(() => world.kubelet);

const down = {
  powerState: 'Stopped',
  reason: 'GuestShutdown',
  message: 'the guest has shut itself down',
} as const;

const startOperator = () => startVmOperator(world.client, {}, runner.parts);

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('restart');
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startOperator();
  api = await startTestApi(world.client);
  await space.deploy('vm');
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await world?.stop();
});

const http = (command: string) =>
  api.call('POST', `/api/v1/namespaces/${space.name}/vms/vm/exec`, {
    token: world.controlPlane.adminToken,
    body: { command },
  });
const cli = (...words: string[]) =>
  svc3(words, { env: { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name } });
const patch = (spec: object) =>
  world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: { spec } });

async function powerOff(): Promise<void> {
  await space.untilReady('vm');
  runner.forget();
  runner.become(down);
  await space.until('vm', 'Ready', { status: 'False', reason: 'GuestStopped' });
}

async function untilDone(requested: string): Promise<void> {
  await expect.poll(async () => (await space.vm('vm')).status?.restartRequest, slow).toBe(requested);
}

describe('a restart', { timeout: 180_000 }, () => {
  test.each<[string, () => Promise<unknown>]>([
    ['HTTP', async () => expect(await http('restart')).toMatchObject({ status: 200 })],
    [
      'svc3 on kube-apiserver',
      async () => expect(await cli('vm', 'restart', 'vm')).toMatchObject({ code: 0 }),
    ],
    ['kubectl', async () => (await patch({ restartRequest: 'by hand' }), untilDone('by hand'))],
  ])('by %s happens once, in the same pod, and the spec says Running all the while', async (_, restart) => {
    await space.untilReady('vm');
    const pod = await space.pod('vm');
    runner.forget();
    await restart();
    expect(runner.verbs).toEqual(['restart']);
    await space.untilReady('vm');
    expect((await space.pod('vm'))?.metadata.uid).toBe(pod?.metadata.uid);
    expect((await space.vm('vm')).spec.powerState).toBe('Running');
    await operator.stop();
    operator = await startOperator();
    // A tool that applies the spec takes the request out again: that asks for nothing.
    await patch({ restartRequest: null });
    const { generation = 0 } = (await space.vm('vm')).metadata;
    await space.until('vm', 'Ready', { status: 'True', observedGeneration: generation });
    expect(runner.verbs).toEqual(['restart']);
  });

  test('that is asked for while the VM is stopped is no second start', async () => {
    expect(await http('stop')).toMatchObject({ status: 200 });
    await patch({ restartRequest: 'meanwhile' });
    expect(await http('restart')).toMatchObject({
      status: 409,
      json: {
        message: expect.stringContaining('VM vm is Stopped, restart needs it to be Running or Failed'),
      },
    });
    runner.forget();
    expect(await http('start')).toMatchObject({ status: 200 });
    await untilDone('meanwhile');
    await space.untilReady('vm');
    expect(runner.verbs).toEqual(['start']);
  });
});

describe('a guest that has shut itself down', { timeout: 180_000 }, () => {
  test.each<[string, () => Promise<unknown>]>([
    ['start by HTTP', async () => expect(await http('start')).toMatchObject({ status: 200 })],
    ['svc3 vm start', async () => expect(await cli('vm', 'start', 'vm')).toMatchObject({ code: 0 })],
    ['a startRequest by kubectl', () => patch({ startRequest: 'by hand' })],
    ['a restartRequest by kubectl', () => patch({ restartRequest: 'to start it' })],
  ])('is started by %s', async (_, start) => {
    await powerOff();
    await start();
    await space.untilReady('vm');
    expect(runner.verbs).toEqual(['start']);
  });

  test.each<[string, () => Promise<unknown>]>([
    ['HTTP', async () => expect(await http('stop')).toMatchObject({ status: 200 })],
    ['svc3 vm stop', async () => expect(await cli('vm', 'stop', 'vm')).toMatchObject({ code: 0 })],
  ])('is left off by stop over %s, whatever becomes of its pod', async (_, stop) => {
    await powerOff();
    await stop();
    await space.until('vm', 'Ready', { status: 'True', reason: 'Stopped' });
    // Its runner keeps that it is to be off.
    await expect.poll(() => runner.verbs, slow).toEqual(['stop']);
    expect((await space.vm('vm')).spec.powerState).toBe('Stopped');
    expect(await http('start')).toMatchObject({ status: 200 });
    await space.untilReady('vm');
  });
});
