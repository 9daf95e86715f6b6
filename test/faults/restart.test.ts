/** What `exec` asks for happens once, however the spec stands: a restart, and the start or stop of a guest that has shut itself down. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import type { PowerRequest, RunnerState } from '../../src/api/runner.ts';
import { inProcess } from '../integration/cli/inprocess.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { runnerState } from '../unit/controllers/vm/builders.ts';

const { svc3 } = inProcess();

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let api: TestApi;
const runner = { state: runnerState(), verbs: [] as string[] };

function become(state: Partial<RunnerState>): RunnerState {
  const { startRequest, restartRequest } = runner.state;
  runner.state = runnerState({ startRequest, restartRequest, guestStarted: true, ...state });
  world.kubelet.behave(() => ({ kind: runner.state.powerState === 'Running' ? 'run' : 'unready' }));
  return runner.state;
}

const down = {
  powerState: 'Stopped',
  reason: 'GuestShutdown',
  message: 'the guest has shut itself down',
} as const;

/** As src/runner/supervisor.ts does. */
function carryOut({ action, startRequest, restartRequest }: PowerRequest): RunnerState {
  runner.verbs.push(action);
  if (action === 'stop') return become({ powerState: 'Stopped', reason: 'Requested' });
  return become({
    startRequest: startRequest ?? runner.state.startRequest,
    restartRequest: restartRequest ?? runner.state.restartRequest,
  });
}

const startOperator = () =>
  startVmOperator(world.client, {}, () => ({
    openRunner: () => ({
      state: async () => runner.state,
      power: async (request) => carryOut(request),
      resize: () => Promise.reject(new Error('not asked for')),
      eject: () => Promise.reject(new Error('not asked for')),
      ports: () => Promise.reject(new Error('not asked for')),
      fingerprint: () => 'print',
    }),
  }));

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
  runner.verbs = [];
  become(down);
  await space.until('vm', 'Ready', { status: 'False', reason: 'GuestStopped' });
}

async function isDone(requested: string): Promise<void> {
  await expect.poll(async () => (await space.vm('vm')).status?.restartRequest, slow).toBe(requested);
}

describe('a restart', { timeout: 180_000 }, () => {
  test.each<[string, () => Promise<unknown>]>([
    ['HTTP', async () => expect(await http('restart')).toMatchObject({ status: 200 })],
    [
      'svc3 on kube-apiserver',
      async () => expect(await cli('vm', 'restart', 'vm')).toMatchObject({ code: 0 }),
    ],
    ['kubectl', async () => (await patch({ restartRequest: 'by hand' }), isDone('by hand'))],
  ])('by %s happens once, in the same pod, and the spec says Running all the while', async (_, restart) => {
    await space.untilReady('vm');
    const pod = await space.pod('vm');
    runner.verbs = [];
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
    runner.verbs = [];
    expect(await http('start')).toMatchObject({ status: 200 });
    await isDone('meanwhile');
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
    expect([runner.verbs, (await space.vm('vm')).spec.powerState]).toEqual([[], 'Stopped']);
    expect(await http('start')).toMatchObject({ status: 200 });
    await space.untilReady('vm');
  });
});
