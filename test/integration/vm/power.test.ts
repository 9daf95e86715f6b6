import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import type { PowerRequest, RunnerState } from '../../../src/api/runner.ts';
import { checkVerb } from '../../../src/runner/powerstate.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

/** The runner of the one VM: its state, and what it was asked to do. */
const runner = { state: {} as Partial<RunnerState>, verbs: [] as string[] };

const iso = 'registry.example.com/debian-installer:12';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;

function become(state: Partial<RunnerState>): RunnerState {
  runner.state = { ...runner.state, ...state };
  world.kubelet.behave(() => ({ kind: runner.state.powerState === 'Running' ? 'run' : 'unready' }));
  return {
    version: 1,
    vmUid: '',
    powerState: 'Running',
    guestReachable: true,
    retrying: false,
    restarts: 0,
    vncConsole: false,
    iso: false,
    revision: 0,
    ...runner.state,
  };
}

function carryOut({ action, revertRequest, stopped }: PowerRequest): RunnerState {
  checkVerb(action, runner.state.powerState ?? 'Running');
  runner.verbs.push(action);
  const requested = { reason: 'Requested', message: undefined };
  switch (action) {
    case 'stop':
      return become({ powerState: 'Stopped', ...requested });
    case 'suspend':
      return become({ powerState: 'Suspended', ...requested });
    case 'revert':
      return become({
        powerState: stopped === true ? 'Stopped' : 'Running',
        revertRequest,
        reason: undefined,
      });
    default:
      return become({ powerState: 'Running', reason: undefined });
  }
}

const start = (): Promise<TestOperator> =>
  startVmOperator(world.client, {}, () => ({
    openRunner: () => ({
      state: async () => become({}),
      power: async (request) => carryOut(request),
      claim: () => Promise.reject(new Error('not asked for')),
      eject: async () => {
        runner.verbs.push('eject');
        return become({ iso: false });
      },
      ports: () => Promise.reject(new Error('not asked for')),
      resize: async (bytes) => {
        runner.verbs.push(`resize ${bytes}`);
        become({ diskSize: bytes });
        return { diskSize: bytes, message: 'the disk has grown; grow its file system in the guest' };
      },
      fingerprint: () => 'print',
    }),
  }));

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('power');
  await world.kubelet.addNode({ name: 'n1' });
  become({ powerState: 'Running', diskSize: 2 ** 30 });
  operator = await start();
  await space.deploy('vm', { iso });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

async function request(spec: object): Promise<void> {
  runner.verbs = [];
  await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: { spec } });
}

async function untilIt(is: string, expectedVerbs: string[]): Promise<void> {
  await expect
    .poll(async () => {
      const { metadata, status } = await space.vm('vm');
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      const isCurrent = ready?.observedGeneration === metadata.generation;
      return isCurrent ? `${status?.powerState} ${ready?.reason}` : 'not seen yet';
    }, slow)
    .toBe(is);
  expect(runner.verbs).toEqual(expectedVerbs);
}

describe('the requested power state is carried out by the runner', () => {
  test('runs after the start, without a verb', async () => {
    await untilIt('Running Running', []);
    expect((await space.vm('vm')).status?.runner).toMatchObject({
      address: '127.0.0.1',
      fingerprint: 'print',
    });
  });

  test('stop', async () => {
    await request({ powerState: 'Stopped' });
    await untilIt('Stopped Stopped', ['stop']);
    await expect.poll(() => space.events('vm'), slow).toContain('Stopped');
    expect((await space.vm('vm')).status?.diskSize).toBe('1Gi');
  });

  test('suspending what does not run is refused, and says so', async () => {
    await request({ powerState: 'Suspended' });
    await untilIt('Stopped PowerStateUnsupported', []);
    expect(await space.condition('vm', 'Stalled')).toMatchObject({
      status: 'True',
      message: 'spec.powerState: a VM that does not run cannot be suspended',
    });
  });

  test('start', async () => {
    await request({ powerState: 'Running' });
    await untilIt('Running Running', ['start']);
  });

  test('suspend and resume', async () => {
    await request({ powerState: 'Suspended' });
    await untilIt('Suspended Suspended', ['suspend']);
    await request({ powerState: 'Running' });
    await untilIt('Running Running', ['resume']);
  });

  test('revert, once for each request', async () => {
    await request({ revertRequest: 'first' });
    await untilIt('Running Running', ['revert']);
    expect((await space.vm('vm')).status?.revertRequest).toBe('first');
  });

  test('a guest that shuts itself down stays off until it is requested again', async () => {
    runner.verbs = [];
    become({ powerState: 'Stopped', reason: 'GuestShutdown', message: 'the guest has shut itself down' });
    await untilIt('Stopped GuestStopped', []);
    await expect.poll(() => space.events('vm'), slow).toContain('GuestStopped');
    // Nobody asks for it by something else.
    await request({ metadata: [{ name: 'a', value: 'b' }] });
    await untilIt('Stopped GuestStopped', []);
    await request({ powerState: 'Stopped' });
    // Its runner keeps that it is to be off; the guest is off anyway.
    await expect.poll(() => runner.verbs, slow).toEqual(['stop']);
    await untilIt('Stopped Stopped', ['stop']);
    await request({ powerState: 'Running' });
    await untilIt('Running Running', ['start']);
  });

  test('a verb survives the death of the operator', async () => {
    await operator.stop();
    await request({ powerState: 'Stopped' });
    operator = await start();
    await untilIt('Stopped Stopped', ['stop']);
    await operator.stop();
    operator = await start();
    await request({ powerState: 'Running' });
    await untilIt('Running Running', ['start']);
  });

  test('a medium that is no longer named is taken out of the drive', async () => {
    // A runner tells of its medium when it is asked: a medium does not come by itself.
    become({ iso: true });
    await request({ powerState: 'Stopped' });
    await untilIt('Stopped Stopped', ['stop']);
    await request({ powerState: 'Running' });
    await untilIt('Running Running', ['start']);
    await request({ iso: '' });
    await expect.poll(() => runner.verbs, slow).toEqual(['eject']);
    await untilIt('Running Running', ['eject']);
  });

  test('a disk grows', async () => {
    await request({ disk: { size: '2Gi' } });
    await expect.poll(() => runner.verbs, slow).toEqual([`resize ${2 ** 31}`]);
    await untilIt('Running Running', [`resize ${2 ** 31}`]);
    const status = async () => (await space.vm('vm')).status;
    await expect.poll(status, slow).toMatchObject({
      diskSize: '2Gi',
      diskGrowth: 'the disk has grown; grow its file system in the guest',
    });
    // An operator that has not asked for it says the same.
    await operator.stop();
    operator = await start();
    await request({ disk: { size: '2048Mi' } });
    await untilIt('Running Running', []);
    await expect.poll(status, slow).toMatchObject({ diskGrowth: expect.stringContaining('in the guest') });
  });
});
