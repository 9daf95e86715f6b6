import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import type { PowerRequest, RunnerState } from '../../../../../src/api/runner.ts';
import type { Vm, VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import {
  pollMs,
  RunnerLinks,
  silenceMs,
  suspendedPollMs,
} from '../../../../../src/controllers/vm/runner/runnerlinks.ts';
import { bootSettings } from '../../../../../src/controllers/vm/pod/bootsettings.ts';
import { aCondition, aPod, aVm, effective, runnerState, runningStatus } from '../builders.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { vmSettings } from '../../../../support/operator.ts';

/** A runner whose state the test sets; calls are answered when the test says so. */
function aRunner(initial: Partial<RunnerState> = {}) {
  let clock = 1_000_000;
  const runner = {
    state: runnerState(initial),
    calls: [] as string[],
    changed: vi.fn(),
    pins: [] as (string | undefined)[],
    vmUids: [] as string[],
    /** Of its certificate; undefined as long as nobody is there. */
    print: 'print' as string | undefined,
    /** Of whatever is asked. */
    fault: undefined as Error | undefined,
    /** Of all but the question how it is. */
    refusal: undefined as Error | undefined,
    /** Of the guest; the one of the pod for it cannot be opened. */
    takenPort: undefined as number | undefined,
    /** A verb waits for a copy of the disk, until whoever asked for it hangs up. */
    copies: false,
    pass(ms: number) {
      clock += ms;
    },
  };
  const answer = async (call: string, then: () => void = () => undefined): Promise<RunnerState> => {
    runner.calls.push(call);
    if (runner.fault !== undefined) throw runner.fault;
    if (runner.refusal !== undefined && call !== 'state') throw runner.refusal;
    then();
    return runner.state;
  };
  const heldUp = (call: string, signal: AbortSignal | undefined): Promise<never> => {
    runner.calls.push(call);
    const gone = new Svc3Error('ServiceUnavailable', 'the connection to the runner was lost');
    return new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(gone)));
  };
  const links = new RunnerLinks(
    ({ pin, vmUid }) => {
      runner.pins.push(pin);
      runner.vmUids.push(vmUid);
      return {
        state: () => answer('state'),
        power: ({ action, settings }: PowerRequest, signal?: AbortSignal) => {
          if (runner.copies) return heldUp(action, signal);
          return answer(action, () => {
            runner.state.settingsVersion = settings?.version ?? runner.state.settingsVersion;
            const after = {
              start: 'Running',
              restart: 'Running',
              resume: 'Running',
              revert: 'Running',
              stop: 'Stopped',
              suspend: 'Suspended',
            } as const;
            runner.state = { ...runner.state, powerState: after[action], reason: 'Requested' };
          });
        },
        resize: async (bytes: number, signal?: AbortSignal) => {
          if (runner.copies) return heldUp(`resize ${bytes}`, signal);
          await answer(`resize ${bytes}`, () => Object.assign(runner.state, { diskSize: bytes }));
          return { diskSize: bytes, message: 'the disk has grown' };
        },
        eject: () => answer('eject', () => Object.assign(runner.state, { iso: false })),
        claim: () => answer('claim', () => Object.assign(runner.state, { powerState: 'Running' })),
        ports: ({ ports }) =>
          answer('ports', () => {
            const open = ports.filter(({ guestPort }) => guestPort !== runner.takenPort);
            const portsMessage = open.length < ports.length ? 'a port is in use' : undefined;
            Object.assign(runner.state, { ports: open, portsMessage });
          }),
        fingerprint: () => runner.print,
      };
    },
    runner.changed,
    () => clock,
    vmSettings(),
  );
  return { links, runner };
}

const pod = (ready: boolean) => aPod({ nodeName: 'n1', status: runningStatus(ready) });
const reported = {
  powerState: 'Running' as const,
  runner: { podUid: 'pod-uid', fingerprint: 'print' },
  conditions: [aCondition('Ready')],
};

async function answered(runner: ReturnType<typeof aRunner>['runner'], times: number): Promise<void> {
  await vi.waitFor(() => expect(runner.changed).toHaveBeenCalledTimes(times));
}

describe('the talk with a runner', () => {
  test('a pod without an address or a running container is not called', () => {
    const { links, runner } = aRunner();
    expect(links.observe('k', aVm(), aPod({ nodeName: 'n1' }))).toBeUndefined();
    expect(runner.calls).toEqual([]);
  });

  test('a new runner is asked once, and its answer wakes the VM', async () => {
    const { links, runner } = aRunner();
    expect(links.observe('team/web', aVm(), pod(false))).toMatchObject({ state: undefined });
    links.observe('team/web', aVm(), pod(false));
    await answered(runner, 1);
    expect(runner.changed).toHaveBeenCalledWith('team/web');
    expect(links.observe('team/web', aVm(), pod(false))).toMatchObject({
      state: { powerState: 'Running' },
      fingerprint: 'print',
    });
    expect(runner.calls).toEqual(['state']);
  });

  test('after a restart of the operator a VM that is as requested is not asked, and its pin is kept', () => {
    const { links, runner } = aRunner();
    links.observe('k', aVm({ status: reported }), pod(true));
    expect(runner.calls).toEqual([]);
    expect(runner.pins).toEqual(['print']);
  });

  test('the pin of another pod is not taken', () => {
    const { links, runner } = aRunner();
    const status = { ...reported, runner: { podUid: 'before', fingerprint: 'print' } };
    links.observe('k', aVm({ status }), pod(true));
    expect(runner.pins).toEqual([undefined]);
  });

  test('a pod whose readiness flips is asked at once', async () => {
    const { links, runner } = aRunner();
    const vm = aVm({ status: reported });
    links.observe('k', vm, pod(true));
    runner.state = runnerState({ powerState: 'Stopped', reason: 'GuestShutdown' });
    links.observe('k', vm, pod(false));
    await answered(runner, 1);
    expect(links.observe('k', vm, pod(false))).toMatchObject({
      state: { powerState: 'Stopped' },
      podReady: false,
    });
  });

  test('a requested state becomes one verb, carried out once', async () => {
    const { links, runner } = aRunner();
    const vm = aVm({ spec: { powerState: 'Stopped' }, metadata: { generation: 2 }, status: reported });
    links.observe('k', vm, pod(true));
    await answered(runner, 1);
    expect(links.observe('k', vm, pod(true))).toMatchObject({ verb: 'stop' });
    links.observe('k', vm, pod(true));
    await answered(runner, 2);
    expect(links.observe('k', vm, pod(true))).toMatchObject({
      verb: undefined,
      state: { powerState: 'Stopped' },
    });
    expect(runner.calls).toEqual(['state', 'stop']);
  });

  test('a verb that waits is taken back with the power state that it was asked for, and with no other change', async () => {
    const { links, runner } = aRunner();
    const to = (spec: Partial<VmSpec>) => aVm({ spec, metadata: { generation: 2 }, status: reported });
    const stopped = to({ powerState: 'Stopped' });
    links.observe('k', stopped, pod(true));
    await answered(runner, 1);
    runner.copies = true;
    links.observe('k', stopped, pod(true));
    await vi.waitFor(() => expect(runner.calls).toEqual(['state', 'stop']));
    links.observe('k', to({ powerState: 'Stopped', restartRequest: 'now' }), pod(true));
    expect(links.observe('k', stopped, pod(true))).toMatchObject({ verb: 'stop' });
    links.observe('k', to({ powerState: 'Running' }), pod(true));
    await answered(runner, 2);
    const { verb, error } = links.observe('k', to({ powerState: 'Running' }), pod(true)) ?? {};
    expect([verb, error, runner.calls]).toEqual([undefined, undefined, ['state', 'stop', 'state']]);
  });

  test('a growth of the disk that waits for a copy of it is given up for another power state', async () => {
    const { links, runner } = aRunner({ diskSize: 2 ** 30 });
    const to = (powerState: VmSpec['powerState']) =>
      aVm({ spec: { powerState, disk: { size: '2Gi' } }, metadata: { generation: 2 }, status: reported });
    links.observe('k', to('Running'), pod(true));
    await answered(runner, 1);
    runner.copies = true;
    links.observe('k', to('Running'), pod(true));
    await vi.waitFor(() => expect(runner.calls).toEqual(['state', `resize ${2 ** 31}`]));
    links.observe('k', to('Suspended'), pod(true));
    await answered(runner, 2);
    runner.copies = false;
    // It may have begun, and is not told of with the words of an earlier one.
    expect(links.observe('k', to('Suspended'), pod(true))?.growth).toEqual({
      diskSize: 2 ** 31,
      message: "the disk has grown; whether the guest's file system has is not known",
    });
    await answered(runner, 3);
    expect(runner.calls).toEqual(['state', `resize ${2 ** 31}`, 'state', 'suspend']);
  });

  test('and for a medium that is taken out', async () => {
    const { links, runner } = aRunner({ diskSize: 2 ** 30, iso: true });
    const spec = { disk: { size: '2Gi' }, iso: 'debian' } as const;
    const vm = aVm({ spec, metadata: { generation: 2 }, status: reported });
    links.observe('k', vm, pod(true));
    await answered(runner, 1);
    runner.copies = true;
    links.observe('k', vm, pod(true));
    await vi.waitFor(() => expect(runner.calls).toEqual(['state', `resize ${2 ** 31}`]));
    const without = aVm({ spec: { ...spec, iso: '' }, metadata: { generation: 3 }, status: reported });
    links.observe('k', without, pod(true));
    await answered(runner, 2);
    links.observe('k', without, pod(true));
    await answered(runner, 3);
    expect(runner.calls).toEqual(['state', `resize ${2 ** 31}`, 'state', 'eject']);
  });

  describe('a port that cannot be opened', () => {
    const opening = (...guestPorts: number[]) =>
      aVm({
        spec: {
          disk: { size: '2Gi' },
          ports: guestPorts.map((guestPort) => ({ guestPort, protocol: 'TCP' as const })),
        },
        metadata: { generation: guestPorts.length + 1 },
        status: { ...reported, effective },
      });
    const grows = `resize ${2 ** 31}`;

    test.each([
      ['since it is in the state', 'a port is in use'],
      ['as it says now', undefined],
    ])('keeps no disk from growing, and is tried again: %s', async (_what, portsMessage) => {
      const { links, runner } = aRunner({ diskSize: 2 ** 30, ports: [], portsMessage });
      runner.takenPort = 80;
      const vm = opening(80);
      for (const calls of [['state'], ['ports'], [grows, 'state']]) {
        const count = runner.calls.length;
        links.observe('k', vm, pod(true));
        await vi.waitFor(() => expect(runner.calls.slice(count)).toEqual(calls));
        await vi.waitFor(() => expect(runner.changed).toHaveBeenCalledTimes(Math.min(3, count + 1)));
      }
      links.observe('k', vm, pod(true));
      expect(runner.calls).toHaveLength(4);
      runner.pass(pollMs);
      links.observe('k', vm, pod(true));
      await vi.waitFor(() => expect(runner.calls).toEqual(['state', 'ports', grows, 'state', 'ports']));
    });

    test('ends no growth that waits for a copy of the disk, which another port does', async () => {
      const { links, runner } = aRunner({ diskSize: 2 ** 30, ports: [] });
      runner.takenPort = 80;
      links.observe('k', opening(80), pod(true));
      await answered(runner, 1);
      links.observe('k', opening(80), pod(true));
      await answered(runner, 2);
      runner.copies = true;
      links.observe('k', opening(80), pod(true));
      links.observe('k', opening(80), pod(true));
      await vi.waitFor(() => expect(runner.calls).toEqual(['state', 'ports', grows]));
      expect(links.observe('k', opening(80), pod(true))).toMatchObject({ isPending: true });
      await nextTurn();
      expect(runner.calls).toHaveLength(3);
      links.observe('k', opening(80, 443), pod(true));
      await answered(runner, 3);
      links.observe('k', opening(80, 443), pod(true));
      await answered(runner, 4);
      expect(runner.calls).toEqual(['state', 'ports', grows, 'state', 'ports']);
    });
  });

  test('a verb that was taken back too late is told of until it has ended, also by an operator that has started since', async () => {
    const { links, runner } = aRunner({ busy: 'stop' });
    const running = aVm({ spec: { powerState: 'Running' }, metadata: { generation: 2 }, status: reported });
    links.observe('k', running, pod(true));
    await answered(runner, 1);
    expect(links.observe('k', running, pod(true))).toMatchObject({ verb: 'stop', isPending: true });
    runner.state = runnerState({ powerState: 'Stopped', reason: 'Requested' });
    runner.pass(60_000);
    links.observe('k', running, pod(true));
    await answered(runner, 2);
    links.observe('k', running, pod(true));
    await vi.waitFor(() => expect(runner.calls).toEqual(['state', 'state', 'start']));
  });

  test('a revert is asked for once it waits for no image any more', async () => {
    const { links, runner } = aRunner();
    const vm = aVm({ spec: { revertRequest: 'b' }, metadata: { generation: 2 }, status: reported });
    const held = { revertHold: { needsGuest: false } };
    links.observe('k', vm, pod(true), held);
    await answered(runner, 1);
    links.observe('k', vm, pod(true), held);
    runner.pass(60_000);
    links.observe('k', vm, pod(true), held);
    await answered(runner, 2);
    links.observe('k', vm, pod(true));
    await answered(runner, 3);
    expect(runner.calls).toEqual(['state', 'state', 'revert']);
  });

  describe('of a guest that the end of its pod would suspend', () => {
    const renewed = aVm({
      spec: { restartRequest: 'now' },
      metadata: { generation: 2 },
      status: { ...reported, effective },
    });
    const boot = { isHeld: true, isStoppedFirst: true };

    test('a restart in another pod begins with its shutdown', async () => {
      const { links, runner } = aRunner();
      links.observe('k', renewed, pod(true), boot);
      await answered(runner, 1);
      links.observe('k', renewed, pod(true), boot);
      await answered(runner, 2);
      links.observe('k', renewed, pod(true), boot);
      expect(runner.calls).toEqual(['state', 'stop']);
    });

    test('is shut down once before its pod is deleted', async () => {
      const { links, runner } = aRunner();
      expect(links.shutDown('k', aVm(), pod(true))).toBe(false);
      expect(links.shutDown('k', aVm(), pod(true))).toBe(false);
      await answered(runner, 1);
      expect(links.shutDown('k', aVm(), pod(true))).toBe(true);
      expect(runner.calls).toEqual(['stop']);
    });

    test('is shut down for good whatever it is to be by then', async () => {
      const { links, runner } = aRunner();
      runner.copies = true;
      links.shutDown('k', aVm({ spec: { powerState: 'Stopped' } }), pod(true));
      await vi.waitFor(() => expect(runner.calls).toEqual(['stop']));
      expect(links.observe('k', aVm({ status: reported }), pod(true))).toMatchObject({ verb: 'stop' });
      await nextTurn();
      expect(links.shutDown('k', aVm(), pod(true))).toBe(false);
    });

    test('is asked once more at the end of its pod where it was not shut down before', async () => {
      const ending = pod(true);
      ending.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
      for (const [fault, calls] of [
        [new Error('a copy of its disk took too long'), ['stop', 'stop']],
        [undefined, ['stop']],
      ] as const) {
        const { links, runner } = aRunner();
        runner.fault = fault;
        links.shutDown('k', aVm(), pod(true));
        await answered(runner, 1);
        expect(links.shutDown('k', aVm(), pod(true))).toBe(true);
        links.shutDown('k', aVm(), ending);
        await answered(runner, calls.length);
        expect(links.shutDown('k', aVm(), ending)).toBe(true);
        expect(runner.calls).toEqual(calls);
      }
    });

    test('is not waited for where its runner does not answer', async () => {
      const { links, runner } = aRunner();
      runner.fault = new Svc3Error('ServiceUnavailable', 'the runner does not answer');
      expect(links.shutDown('k', aVm(), pod(true))).toBe(false);
      await answered(runner, 1);
      expect(links.shutDown('k', aVm(), pod(true))).toBe(true);
      expect(links.shutDown('k', aVm(), aPod({ nodeName: 'n1' }))).toBe(true);
    });
  });

  test('after a restart of the operator the runner of a VM that is suspended on its disk is asked', async () => {
    const { links, runner } = aRunner({ powerState: 'Suspended', suspendKind: 'Disk' });
    const status = {
      ...reported,
      powerState: 'Suspended' as const,
      suspendedTo: 'Disk' as const,
      conditions: [aCondition('Ready', { reason: 'Suspended' })],
    };
    links.observe('k', aVm({ spec: { powerState: 'Suspended' }, status }), pod(false));
    await answered(runner, 1);
    expect(runner.calls).toEqual(['state']);
  });

  describe('of a VM that is suspended in memory', () => {
    const status = {
      ...reported,
      powerState: 'Suspended' as const,
      suspendedTo: 'Memory' as const,
      conditions: [aCondition('Ready', { reason: 'Suspended' })],
    };
    const vm = aVm({ spec: { powerState: 'Suspended' }, status });

    test('its runner is asked seldom: no readiness tells that the guest is lost', async () => {
      const { links, runner } = aRunner({ powerState: 'Suspended' });
      links.observe('k', vm, pod(false));
      await answered(runner, 1);
      runner.pass(suspendedPollMs - 1);
      expect(links.observe('k', vm, pod(false))).toMatchObject({ isPending: false });
      expect(runner.calls).toEqual(['state']);
      runner.state = runnerState({ powerState: 'Stopped', reason: 'SuspendedStateLost' });
      runner.pass(1);
      links.observe('k', vm, pod(false));
      await answered(runner, 2);
      expect(links.observe('k', vm, pod(false))).toMatchObject({ state: { powerState: 'Stopped' } });
    });

    test('a runner that could not be asked is asked again as seldom', async () => {
      const { links, runner } = aRunner({ powerState: 'Suspended' });
      runner.fault = new Svc3Error('ServiceUnavailable', 'the runner does not answer');
      links.observe('k', vm, pod(false));
      await answered(runner, 1);
      runner.pass(suspendedPollMs - 1);
      links.observe('k', vm, pod(false));
      expect(runner.calls).toEqual(['state']);
      runner.pass(1);
      links.observe('k', vm, pod(false));
      await answered(runner, 2);
    });
  });

  test('a runner that does not listen yet is asked again, and its silence is told when it lasts', async () => {
    const { links, runner } = aRunner();
    const vm = aVm({ status: {} });
    runner.fault = new Svc3Error('ServiceUnavailable', 'the runner does not answer');
    links.observe('k', vm, pod(false));
    await answered(runner, 1);
    expect(links.observe('k', vm, pod(false))?.error).toBeUndefined();
    runner.pass(silenceMs);
    expect(links.observe('k', vm, pod(false))?.error).toBe('the runner does not answer');
    await answered(runner, 2);
    runner.fault = undefined;
    runner.pass(pollMs);
    links.observe('k', vm, pod(false));
    await answered(runner, 3);
    expect(links.observe('k', vm, pod(false))).toMatchObject({ error: undefined, state: runner.state });
  });

  test('a verb that failed is told and tried again after a backoff', async () => {
    const { links, runner } = aRunner();
    const vm = aVm({ spec: { powerState: 'Suspended' }, metadata: { generation: 2 }, status: reported });
    links.observe('k', vm, pod(true));
    await answered(runner, 1);
    runner.fault = new Svc3Error('Conflict', 'the VM is being exported');
    links.observe('k', vm, pod(true));
    await answered(runner, 2);
    expect(links.observe('k', vm, pod(true))).toMatchObject({
      error: 'the VM is being exported',
      verb: undefined,
    });
    expect(runner.calls).toEqual(['state', 'suspend', 'state']);
    runner.pass(pollMs);
    runner.fault = undefined;
    links.observe('k', vm, pod(true));
    await answered(runner, 3);
    expect(runner.calls).toEqual(['state', 'suspend', 'state', 'suspend']);
  });

  test.each<[string, Partial<RunnerState>, Partial<VmSpec>, Partial<RunnerState>]>([
    ['eject', { iso: true }, {}, { iso: false }],
    ['resume', { powerState: 'Suspended' }, {}, { powerState: 'Running' }],
    ['stop', {}, { powerState: 'Stopped' }, { powerState: 'Stopped', reason: 'Requested' }],
  ])(
    'what was carried out although its answer was lost is not asked for again: %s',
    async (call, before, spec, after) => {
      const { links, runner } = aRunner(before);
      const vm = aVm({ spec, metadata: { generation: 2 }, status: reported });
      links.observe('k', vm, pod(true));
      await answered(runner, 1);
      runner.fault = new Svc3Error('Timeout', 'no answer');
      links.observe('k', vm, pod(true));
      await answered(runner, 2);
      runner.state = runnerState({ ...after, revision: 2 });
      runner.fault = undefined;
      runner.refusal = new Svc3Error('Conflict', 'it is so already');
      runner.pass(pollMs);
      links.observe('k', vm, pod(true));
      await answered(runner, 3);
      expect(links.observe('k', vm, pod(true))).toMatchObject({ state: after, isPending: false });
      runner.pass(pollMs);
      links.observe('k', vm, pod(true));
      await answered(runner, 4);
      expect(runner.calls).toEqual(['state', call, call, 'state', 'state']);
      expect(links.observe('k', vm, pod(true))?.error).toBeUndefined();
    },
  );

  describe('a guest that could not be started for its CD', () => {
    const missing = { powerState: 'Failed', reason: 'IsoMissing', iso: true } as const;
    const crashed = (observedGeneration: number) => [
      aCondition('Ready', { status: 'False', reason: 'Crashed', observedGeneration }),
    ];

    test.each([
      ['that is taken out', 1],
      ['that was taken out when the status was written', 2],
    ])('is started once without the one %s', async (_what, observedGeneration) => {
      const { links, runner } = aRunner(missing);
      const status = { ...reported, conditions: crashed(observedGeneration) };
      const vm = aVm({ spec: { iso: '' }, metadata: { generation: 2 }, status });
      links.observe('k', vm, pod(false));
      await answered(runner, 1);
      expect(links.observe('k', vm, pod(false))).toMatchObject({ verb: 'start' });
      await answered(runner, 2);
      expect(links.observe('k', vm, pod(false))).toMatchObject({
        state: { powerState: 'Running', iso: false },
      });
      expect(runner.calls).toEqual(['state', 'eject', 'start']);
    });

    test('is not started with the CD that it is to have', async () => {
      const { links, runner } = aRunner(missing);
      const status = { ...reported, conditions: crashed(2) };
      const vm = aVm({ spec: { iso: 'debian' }, metadata: { generation: 2 }, status });
      links.observe('k', vm, pod(false));
      await answered(runner, 1);
      links.observe('k', vm, pod(false));
      expect(runner.calls).toEqual(['state']);
    });
  });

  test('a disk that is to be larger grows once', async () => {
    const { links, runner } = aRunner({ diskSize: 2 ** 30 });
    const vm = aVm({ spec: { disk: { size: '2Gi' } }, metadata: { generation: 2 }, status: reported });
    links.observe('k', vm, pod(true));
    await answered(runner, 1);
    links.observe('k', vm, pod(true));
    await answered(runner, 2);
    links.observe('k', vm, pod(true));
    expect(runner.calls).toEqual(['state', `resize ${2 ** 31}`, 'state']);
    expect(links.observe('k', vm, pod(true))?.growth).toMatchObject({ diskSize: 2 ** 31 });
  });

  test('a size that the runner refuses is asked for once', async () => {
    const { links, runner } = aRunner({ diskSize: 2 ** 30 });
    const vm = aVm({ spec: { disk: { size: '2Gi' } }, metadata: { generation: 1 }, status: reported });
    links.observe('k', aVm({ ...vm, metadata: { generation: 2 } }), pod(true));
    await answered(runner, 1);
    runner.fault = new Svc3Error('Invalid', 'the disk can only grow');
    links.observe('k', vm, pod(true));
    await answered(runner, 2);
    runner.pass(pollMs);
    links.observe('k', vm, pod(true));
    expect(runner.calls.filter((call) => call.startsWith('resize'))).toHaveLength(1);
  });

  test.each([
    ['the VM names none any more', {}, true],
    ['the VM wants none, whatever its configuration names', { config: 'installer', iso: '' }, true],
    ['the VM names one', { iso: 'debian' }, false],
    ['its configuration may name one', { config: 'installer' }, false],
  ])('the medium is taken out of the drive, once: %s', async (_sentence, spec, isTakenOut) => {
    const { links, runner } = aRunner({ iso: true });
    const vm = aVm({ spec, metadata: { generation: 2 }, status: reported });
    links.observe('k', vm, pod(true));
    await answered(runner, 1);
    links.observe('k', vm, pod(true));
    if (isTakenOut) await answered(runner, 2);
    links.observe('k', vm, pod(true));
    expect(runner.calls).toEqual(isTakenOut ? ['state', 'eject'] : ['state']);
  });

  describe('what applies at once, of a VM whose status says all else', () => {
    const conditions = [{ ...aCondition('Ready'), observedGeneration: 2 }];
    const done = { ...reported, conditions };
    const current = (spec: Partial<VmSpec>, status: VmStatus = {}) =>
      aVm({ spec, metadata: { generation: 2 }, status: { ...done, ...status } });
    const withMedium = () => {
      const made = pod(true);
      return { ...made, spec: { ...made.spec, volumes: [{ name: 'iso' }] } };
    };
    const larger = { disk: { size: '2Gi' } };
    const opened = { ports: [{ guestPort: 80, protocol: 'TCP' as const }] };
    const cases: [string, Partial<RunnerState>, Vm, Pod, string][] = [
      [
        'a larger disk',
        { diskSize: 2 ** 30 },
        current(larger, { diskSize: '1Gi' }),
        pod(true),
        `resize ${2 ** 31}`,
      ],
      ['a medium that is taken out', { iso: true }, current({}), withMedium(), 'eject'],
      ['a port', { ports: [] }, current(opened, { effective }), pod(true), 'ports'],
    ];

    test.each(cases)(
      'is asked for by an operator that has written the status and ended: %s',
      async (_what, state, vm, made, call) => {
        const { links, runner } = aRunner(state);
        expect(links.observe('k', vm, made)).toMatchObject({ isPending: true });
        await answered(runner, 1);
        expect(links.observe('k', vm, made)).toMatchObject({ isPending: true });
        await vi.waitFor(() => expect(runner.calls).toContain(call));
        await vi.waitFor(() => expect(links.observe('k', vm, made)).toMatchObject({ isPending: false }));
      },
    );

    test.each(cases)(
      'is asked for again after a while where that failed: %s',
      async (_what, state, vm, made, call) => {
        const { links, runner } = aRunner(state);
        links.observe('k', vm, made);
        await answered(runner, 1);
        runner.fault = new Svc3Error('ServiceUnavailable', "the VM's storage is full");
        links.observe('k', vm, made);
        await answered(runner, 2);
        for (let pass = 0; pass < 3; pass += 1)
          expect(links.observe('k', vm, made)).toMatchObject({ isPending: true });
        expect(runner.calls).toEqual(['state', call]);
        runner.fault = undefined;
        runner.pass(pollMs);
        links.observe('k', vm, made);
        await answered(runner, 3);
        expect(runner.calls.slice(2, 3)).toEqual([call]);
      },
    );

    test('is asked for again where the question failed', async () => {
      const { links, runner } = aRunner({ diskSize: 2 ** 30 });
      const vm = current(larger, { diskSize: '1Gi' });
      runner.fault = new Svc3Error('Timeout', 'no answer');
      links.observe('k', vm, pod(true));
      await answered(runner, 1);
      expect(links.observe('k', vm, pod(true))).toMatchObject({ state: undefined, isPending: true });
      runner.pass(pollMs);
      links.observe('k', vm, pod(true));
      await answered(runner, 2);
      expect(runner.calls).toEqual(['state', 'state']);
    });

    test.each([
      ['a disk that has grown', current(larger, { diskSize: '2Gi' }), pod(true)],
      [
        'a disk that was made so',
        aVm({ spec: larger, metadata: { generation: 1 }, status: reported }),
        pod(true),
      ],
      ['a medium that it wants', current({ iso: 'debian' }), withMedium()],
    ])('is not asked for where it is so: %s', (_what, vm, made) => {
      const { links, runner } = aRunner();
      expect(links.observe('k', vm, made)).toMatchObject({ isPending: false });
      expect(runner.calls).toEqual([]);
    });

    test('is asked for again where the disk is in no state to grow', async () => {
      const { links, runner } = aRunner({ diskSize: 2 ** 30 });
      const vm = current(larger, { diskSize: '1Gi' });
      links.observe('k', vm, pod(true));
      await answered(runner, 1);
      runner.fault = new Svc3Error('Conflict', 'it can only grow once it goes on');
      links.observe('k', vm, pod(true));
      await answered(runner, 2);
      expect(links.observe('k', vm, pod(true))).toMatchObject({
        isPending: true,
        growth: { message: 'it can only grow once it goes on' },
      });
      expect(runner.calls).toEqual(['state', `resize ${2 ** 31}`, 'state']);
      runner.fault = undefined;
      runner.pass(pollMs);
      links.observe('k', vm, pod(true));
      await answered(runner, 3);
      expect(links.observe('k', vm, pod(true))?.growth).toMatchObject({ diskSize: 2 ** 31 });
    });
  });

  test('a pod at another address is called there, with its pin, and not where it was', async () => {
    const opened: { address: string; pin: string | undefined; signal: AbortSignal }[] = [];
    const links = new RunnerLinks(
      (target) => {
        opened.push(target);
        return {
          state: () => new Promise(() => undefined),
          power: () => Promise.reject(new Error('not asked for')),
          resize: () => Promise.reject(new Error('not asked for')),
          eject: () => Promise.reject(new Error('not asked for')),
          claim: () => Promise.reject(new Error('not asked for')),
          ports: () => Promise.reject(new Error('not asked for')),
          fingerprint: () => 'print',
        };
      },
      () => undefined,
      () => 1_000_000,
      vmSettings(),
    );
    const at = (podIP: string) => aPod({ nodeName: 'n1', status: { ...runningStatus(false), podIP } });
    links.observe('k', aVm(), at('10.0.0.1'));
    links.observe('k', aVm(), at('10.0.0.1'));
    links.observe('k', aVm(), at('10.0.0.2'));
    expect(opened.map(({ address, pin }) => [address, pin])).toEqual([
      ['10.0.0.1', undefined],
      ['10.0.0.2', 'print'],
    ]);
    expect(opened.map(({ signal }) => signal.aborted)).toEqual([true, false]);
    links.forget('vm-uid');
    expect(opened.at(-1)?.signal.aborted).toBe(true);
  });

  describe('of a VM that is as requested, whose runner was started anew in the same pod', () => {
    const firstStart = '2026-11-01T10:00:01Z';
    const at = (startedAt: string, podIP = '10.0.0.1'): Pod => {
      const status = runningStatus(true);
      const [runner] = status.containerStatuses ?? [];
      const containerStatuses = [{ ...runner!, state: { running: { startedAt } } }];
      return aPod({ nodeName: 'n1', status: { ...status, podIP, containerStatuses } });
    };
    const met = (more: object = {}) =>
      aVm({
        status: {
          ...reported,
          runner: { ...reported.runner, address: '10.0.0.1', startedAt: firstStart, ...more },
        },
      });
    const other = new Svc3Error('Forbidden', 'the runner at 10.0.0.1 shows another certificate than before');
    const words =
      'the runner of pod team/svc3-vm-web shows another certificate than before: its volume was lost (node wiped, or etcd restored); delete the pod for another one';

    test('it is met once more, and from then on nobody asks', async () => {
      const { links, runner } = aRunner();
      links.observe('k', met(), at(firstStart));
      expect(runner.calls).toEqual([]);
      links.observe('k', met(), at('2026-11-01T11:00:00Z'));
      await answered(runner, 1);
      for (const vm of [met(), met({ startedAt: '2026-11-01T11:00:00Z' })])
        expect(links.observe('k', vm, at('2026-11-01T11:00:00Z'))).toMatchObject({
          startedAt: '2026-11-01T11:00:00Z',
          isPending: false,
        });
      expect(runner.calls).toEqual(['state']);
    });

    test('it is met where no operator saw it start, and where it has another address', async () => {
      for (const pod of [at('2026-11-01T11:00:00Z'), at(firstStart, '10.0.0.2')]) {
        const { links, runner } = aRunner();
        links.observe('k', met(), pod);
        await answered(runner, 1);
        expect(runner.calls).toEqual(['state']);
      }
    });

    test('it is asked again where it does not listen yet, for as long as a runner may take to begin', async () => {
      const { links, runner } = aRunner();
      const again = at('2026-11-01T11:00:00Z');
      runner.fault = new Svc3Error('ServiceUnavailable', 'the runner does not answer');
      links.observe('k', met(), again);
      await answered(runner, 1);
      expect(links.observe('k', met(), again)?.isPending).toBe(true);
      runner.pass(pollMs);
      links.observe('k', met(), again);
      await answered(runner, 2);
      runner.pass(silenceMs - pollMs);
      expect(links.observe('k', met(), again)?.isPending).toBe(false);
      expect(runner.calls).toEqual(['state', 'state']);
    });

    test('it is not met where its status is of an operator that did not write when it was started', () => {
      const { links, runner } = aRunner();
      links.observe('k', met({ startedAt: undefined }), at(firstStart));
      expect(runner.calls).toEqual([]);
    });

    test('another certificate is told of when it lasts, and the runner is asked how it is, and nothing else', async () => {
      const { links, runner } = aRunner();
      runner.fault = other;
      const again = at('2026-11-01T11:00:00Z');
      const stopped = aVm({
        spec: { powerState: 'Stopped' },
        metadata: { generation: 2 },
        status: met().status!,
      });
      links.observe('k', met(), again);
      await answered(runner, 1);
      expect(links.observe('k', met(), again)).toMatchObject({
        state: undefined,
        startedAt: undefined,
        isRefused: false,
        isPending: true,
        error: undefined,
      });
      runner.pass(silenceMs);
      expect(links.observe('k', stopped, again)).toMatchObject({
        isRefused: true,
        isPending: true,
        error: words,
      });
      await answered(runner, 2);
      expect(runner.calls).toEqual(['state', 'state']);
    });

    test('a pod whose address was another one’s for a while is believed again', async () => {
      const { links, runner } = aRunner();
      runner.fault = other;
      const again = at('2026-11-01T11:00:00Z');
      links.observe('k', met(), again);
      await answered(runner, 1);
      runner.fault = undefined;
      runner.pass(pollMs);
      links.observe('k', met(), again);
      await answered(runner, 2);
      runner.pass(silenceMs);
      expect(links.observe('k', met(), again)).toMatchObject({
        isRefused: false,
        isPending: false,
        error: undefined,
        startedAt: '2026-11-01T11:00:00Z',
      });
    });

    test('what it said before is not believed of the one that shows another certificate', async () => {
      const { links, runner } = aRunner();
      links.observe('k', aVm(), pod(false));
      await answered(runner, 1);
      runner.fault = other;
      links.observe('k', aVm(), pod(true));
      await answered(runner, 2);
      expect(links.observe('k', aVm(), pod(true))).toMatchObject({ state: undefined, verb: undefined });
    });
  });

  test('a new pod is another runner', async () => {
    const { links, runner } = aRunner();
    links.observe('k', aVm(), pod(false));
    await answered(runner, 1);
    const other = aPod({ nodeName: 'n1', status: runningStatus(false), metadata: { uid: 'other' } });
    expect(links.observe('k', aVm(), other)).toMatchObject({ state: undefined });
    await answered(runner, 2);
  });
});

describe('the claim of a guest that waited', () => {
  const vm = aVm({ spec: { pool: 'ci' } });

  test('is told once, on a connection that names the pod, and answers with what the runner says', async () => {
    const { links, runner } = aRunner();
    expect(links.claim('k', vm, pod(true), effective)).toEqual({ kind: 'asking', message: undefined });
    links.claim('k', vm, pod(true), effective);
    await answered(runner, 1);
    expect(runner.calls).toEqual(['claim']);
    expect(runner.vmUids).toEqual(['vm-uid', 'pod-uid', 'vm-uid']);
    expect(links.claim('k', vm, pod(true), effective)).toMatchObject({
      kind: 'claimed',
      runner: { state: { powerState: 'Running' }, fingerprint: 'print' },
    });
    expect(runner.calls).toEqual(['claim']);
  });

  test('is followed until the runner has told the guest whose it is: what failed of that is in no event', async () => {
    const { links, runner } = aRunner({ introducing: true });
    const vm = aVm({ status: reported });
    links.claim('k', vm, pod(true), effective);
    await answered(runner, 1);
    expect(links.observe('k', vm, pod(true))).toMatchObject({ isPending: true });
    runner.pass(pollMs);
    const warmStart = { fromMemory: false, reason: 'HookFailed', message: 'exit code 1' };
    runner.state = runnerState({ warmStart });
    links.observe('k', vm, pod(true));
    await answered(runner, 2);
    runner.pass(pollMs);
    expect(links.observe('k', vm, pod(true))).toMatchObject({ isPending: false, state: { warmStart } });
    expect(runner.calls).toEqual(['claim', 'state']);
  });

  test('that a runner refuses for good is not tried again', async () => {
    const { links, runner } = aRunner();
    runner.fault = new Svc3Error('Conflict', 'of another VM');
    links.claim('k', vm, pod(true), effective);
    await answered(runner, 1);
    expect(links.claim('k', vm, pod(true), effective)).toEqual({ kind: 'refused', message: 'of another VM' });
    runner.pass(10_000);
    links.claim('k', vm, pod(true), effective);
    expect(runner.calls).toEqual(['claim']);
  });

  test('that does not get through is tried again after a while', async () => {
    const { links, runner } = aRunner();
    runner.fault = new Svc3Error('ServiceUnavailable', 'no contact');
    links.claim('k', vm, pod(true), effective);
    await answered(runner, 1);
    expect(links.claim('k', vm, pod(true), effective)).toEqual({ kind: 'asking', message: 'no contact' });
    expect(runner.calls).toEqual(['claim']);
    runner.fault = undefined;
    runner.pass(2_000);
    links.claim('k', vm, pod(true), effective);
    await answered(runner, 2);
    expect(links.claim('k', vm, pod(true), effective)).toMatchObject({ kind: 'claimed' });
  });

  describe('of which nobody is met', () => {
    /** A try that fails, so long after the one before. Returns for how long there has been nobody. */
    async function tried({ links, runner }: ReturnType<typeof aRunner>, afterMs: number) {
      runner.fault = new Svc3Error('ServiceUnavailable', 'no contact');
      runner.pass(afterMs);
      const before = runner.changed.mock.calls.length;
      links.claim('k', vm, pod(true), effective);
      expect(links.unmetMs(vm, pod(true))).toBeUndefined();
      await answered(runner, before + 1);
      return links.unmetMs(vm, pod(true));
    }

    test('says for how long it has been tried, which is no time that nobody has tried', async () => {
      const talk = aRunner();
      talk.runner.print = undefined;
      expect(await tried(talk, 0)).toBe(0);
      expect(await tried(talk, pollMs)).toBe(pollMs);
      talk.runner.pass(3_600_000);
      expect(talk.links.unmetMs(vm, pod(true))).toBe(pollMs);
      expect(
        talk.links.unmetMs(vm, { ...pod(true), metadata: storedMeta({ name: 'other' }) }),
      ).toBeUndefined();
    });

    test('says nothing of that once somebody was met, who may have been told', async () => {
      const talk = aRunner();
      talk.runner.print = undefined;
      expect(await tried(talk, 0)).toBe(0);
      talk.runner.print = 'print';
      expect(await tried(talk, pollMs)).toBeUndefined();
      talk.runner.print = undefined;
      expect(await tried(talk, pollMs)).toBeUndefined();
    });
  });
});

describe('after a start among hundreds of VMs that run', () => {
  /** Runners that answer when the test says so. */
  function manyRunners() {
    const talk = { asked: [] as string[], answers: [] as PromiseWithResolvers<RunnerState>[] };
    const refuse = () => Promise.reject(new Error('nobody asked for that'));
    const links = new RunnerLinks(
      ({ vmUid }) => ({
        state() {
          talk.asked.push(vmUid);
          const answer = Promise.withResolvers<RunnerState>();
          talk.answers.push(answer);
          return answer.promise;
        },
        power: refuse,
        resize: refuse,
        eject: refuse,
        claim: refuse,
        ports: refuse,
        fingerprint: () => undefined,
      }),
      () => undefined,
      () => 1_000_000,
      vmSettings(),
    );
    return { links, talk };
  }
  const met = { ...reported, runner: { podUid: 'pod-uid' } };
  const aRunning = (uid: string, namespace: string) =>
    aVm({ status: met, metadata: { name: uid, uid, namespace } });

  test('their runners are met a few at a time, and a VM that needs something is asked at once', async () => {
    const { links, talk } = manyRunners();
    const uids = Array.from({ length: 100 }, (_, i) => `vm-${i}`);
    for (const uid of uids) links.observe(uid, aRunning(uid, 'team'), pod(true));
    await vi.waitFor(() => expect(talk.asked).toHaveLength(16));
    links.observe('late', aVm({ metadata: { uid: 'late' } }), pod(false));
    await vi.waitFor(() => expect(talk.asked).toHaveLength(17));
    expect(talk.asked.at(-1)).toBe('late');
    links.forget('vm-50');
    while (talk.answers.length > 0) {
      const now = talk.answers;
      talk.answers = [];
      for (const answer of now) answer.resolve(runnerState());
      await vi.waitFor(() => expect(talk.answers.length > 0 || talk.asked.length >= 100).toBe(true));
    }
    expect(talk.asked).toHaveLength(100);
    expect(new Set(talk.asked)).toEqual(new Set([...uids.filter((uid) => uid !== 'vm-50'), 'late']));
  });

  test('a namespace whose runners do not answer keeps no other one waiting', async () => {
    const { links, talk } = manyRunners();
    for (let i = 0; i < 100; i += 1) links.observe(`a/${i}`, aRunning(`silent-${i}`, 'silent'), pod(true));
    await vi.waitFor(() => expect(talk.asked).toHaveLength(16));
    for (const team of ['b', 'c']) links.observe(`${team}/vm`, aRunning(team, team), pod(true));
    await vi.waitFor(() => expect(talk.asked.slice(16)).toEqual(['b', 'c']));
  });
});

describe('settings that wait for a boot', () => {
  const settings = { ...effective, systemSerial: 'A1' };
  const { version } = bootSettings(settings, vmSettings());
  const asked = (restartRequest: string) => aVm({ spec: { restartRequest } });

  test('are told with it and with nothing else, and are in force when the runner says their version', async () => {
    const { links, runner } = aRunner();
    expect(links.observe('k', aVm(), pod(true), { settings })?.booted).toBeUndefined();
    await answered(runner, 1);
    links.observe('k', aVm({ spec: { powerState: 'Suspended' } }), pod(true), { settings });
    await answered(runner, 2);
    expect(runner.state.settingsVersion).toBeUndefined();
    runner.state = runnerState();
    runner.pass(pollMs);
    links.observe('k', asked('one'), pod(true), { settings });
    await answered(runner, 3);
    links.observe('k', asked('one'), pod(true), { settings });
    await answered(runner, 4);
    expect(runner.calls.at(-1)).toBe('restart');
    expect(links.observe('k', asked('one'), pod(true), { settings })?.booted).toEqual(settings);
  });

  test('are in force where the answer to the start was lost, and where others are asked for by then', async () => {
    const { links, runner } = aRunner();
    links.observe('k', asked('one'), pod(true), { settings });
    await answered(runner, 1);
    runner.fault = new Error('cut');
    links.observe('k', asked('one'), pod(true), { settings });
    await answered(runner, 2);
    runner.fault = undefined;
    runner.state = runnerState({ settingsVersion: version, restartRequest: 'one' });
    runner.pass(pollMs);
    const later = { ...settings, systemSerial: 'A2' };
    links.observe('k', asked('one'), pod(false), { settings: later });
    await answered(runner, 3);
    expect(links.observe('k', asked('one'), pod(false), { settings: later })?.booted).toEqual(settings);
  });

  test.each([
    ['has just started', {}],
    ['waits for answers of guests otherwise than the one before', { readinessSeconds: 7 }],
  ])('are known again by an operator that %s', async (_what, before) => {
    const told = bootSettings(settings, vmSettings(before));
    const { links, runner } = aRunner({ settingsVersion: told.version });
    links.observe('k', aVm(), pod(true), { settings });
    await answered(runner, 1);
    expect(links.observe('k', aVm(), pod(true), { settings })?.booted).toEqual(settings);
  });
});
