import { describe, expect, test } from 'vitest';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import type { EffectiveSettings, PowerState, VmStatus } from '../../../../../src/api/vm.ts';
import { isBoot, powerStep } from '../../../../../src/controllers/vm/runner/power.ts';
import { aCondition, aVm, effective, runnerState } from '../builders.ts';

interface Row {
  sentence: string;
  requested: PowerState;
  state: Partial<RunnerState>;
  revert?: string;
  start?: string;
  restart?: string;
  status?: VmStatus;
  step: object;
}

const none = { kind: 'none' };
const verb = (action: string) => ({ kind: 'verb', request: { action } });
const reported = (reason: string, observedGeneration: number, powerState?: 'Stopped'): VmStatus => ({
  conditions: [aCondition('Ready', { reason, observedGeneration })],
  ...(powerState === undefined ? {} : { powerState }),
});

/** Of a guest that is paused and goes on by itself. */
const fullDisk: Partial<RunnerState> = { powerState: 'Failed', reason: 'DiskFull', retrying: true };

const rows: Row[] = [
  { sentence: 'running as requested', requested: 'Running', state: {}, step: none },
  {
    sentence: 'stopped as requested',
    requested: 'Stopped',
    state: { powerState: 'Stopped', reason: 'Requested' },
    step: none,
  },
  {
    sentence: 'suspended as requested',
    requested: 'Suspended',
    state: { powerState: 'Suspended' },
    step: none,
  },
  { sentence: 'a running VM is stopped', requested: 'Stopped', state: {}, step: verb('stop') },
  {
    sentence: 'a suspended VM is stopped',
    requested: 'Stopped',
    state: { powerState: 'Suspended' },
    step: verb('stop'),
  },
  {
    sentence: 'a crashed VM is stopped',
    requested: 'Stopped',
    state: { powerState: 'Failed' },
    step: verb('stop'),
  },
  { sentence: 'a running VM is suspended', requested: 'Suspended', state: {}, step: verb('suspend') },
  {
    sentence: 'a stopped VM cannot be suspended',
    requested: 'Suspended',
    state: { powerState: 'Stopped' },
    step: { kind: 'unsupported', message: 'spec.powerState: a VM that does not run cannot be suspended' },
  },
  {
    sentence: 'a suspended VM is resumed',
    requested: 'Running',
    state: { powerState: 'Suspended' },
    step: verb('resume'),
  },
  {
    sentence: 'a VM that was stopped on request is started',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'Requested' },
    step: verb('start'),
  },
  { sentence: 'a runner at work is left alone', requested: 'Stopped', state: { busy: 'start' }, step: none },
  {
    sentence: 'a runner that boots by itself is left alone',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'Starting' },
    step: none,
  },
  {
    sentence: 'a guest that shut itself down stays off',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    status: reported('Running', 1),
    step: { kind: 'guestStopped' },
  },
  {
    sentence: 'a guest that was reported off stays off',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    status: reported('GuestStopped', 2),
    step: { kind: 'guestStopped' },
  },
  {
    sentence: 'it stays off whatever else of the spec was written since',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    status: reported('GuestStopped', 1),
    step: { kind: 'guestStopped' },
  },
  {
    sentence: 'its runner is told once that it is to be off',
    requested: 'Stopped',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    step: verb('stop'),
  },
  {
    sentence: 'it is started when it had been stopped as requested meanwhile',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    status: reported('Stopped', 2, 'Stopped'),
    step: verb('start'),
  },
  {
    sentence: 'a crash that the runner repairs is left to it',
    requested: 'Running',
    state: { powerState: 'Failed', retrying: true },
    step: none,
  },
  {
    sentence: 'a crash beyond its restarts is told',
    requested: 'Running',
    state: { powerState: 'Failed' },
    step: { kind: 'failed' },
  },
  {
    sentence: 'a crash beyond its restarts is tried again when the spec was written again since',
    requested: 'Running',
    state: { powerState: 'Failed' },
    status: reported('Crashed', 1),
    step: verb('start'),
  },
  ...(
    [
      ['a crash beyond its restarts', { powerState: 'Failed' }],
      ['a crash that the runner would repair later', { powerState: 'Failed', retrying: true }],
      ['a guest that shut itself down', { powerState: 'Stopped', reason: 'GuestShutdown' }],
    ] as const
  ).map(([what, state]) => ({
    sentence: `${what} is started when that is asked for`,
    requested: 'Running' as const,
    state: { ...state, startRequest: 'a' },
    start: 'b',
    status: reported('Crashed', 2),
    step: { kind: 'verb', request: { action: 'start', startRequest: 'b' } },
  })),
  {
    sentence: 'what was asked for once is done once',
    requested: 'Running',
    state: { powerState: 'Failed', startRequest: 'b' },
    start: 'b',
    status: reported('Crashed', 2),
    step: { kind: 'failed' },
  },
  {
    sentence: 'a start that was asked for while the guest ran does not start it when it goes down',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    start: 'b',
    status: { ...reported('Running', 2), startRequest: 'b' },
    step: { kind: 'guestStopped' },
  },
  {
    sentence: 'a start that is asked for does not start what is to be stopped',
    requested: 'Stopped',
    state: { powerState: 'Stopped' },
    start: 'b',
    step: none,
  },
  {
    sentence: 'a guest that shut itself down while it was being stopped stays off',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    status: reported('Stopping', 2, 'Stopped'),
    step: { kind: 'guestStopped' },
  },
  {
    sentence:
      'a guest that shut itself down as soon as it was started stays off, also when its runner is back after a reboot of its node',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    status: reported('Starting', 2, 'Stopped'),
    step: { kind: 'guestStopped' },
  },
  {
    sentence: 'a guest that shut itself down before anything was reported stays off',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'GuestShutdown' },
    step: { kind: 'guestStopped' },
  },
  {
    sentence: 'a runner that ends by itself is left alone',
    requested: 'Running',
    state: { powerState: 'Stopped', reason: 'ShuttingDown' },
    step: none,
  },
  {
    sentence: 'a running guest is restarted when that is asked for',
    requested: 'Running',
    state: { restartRequest: 'a' },
    restart: 'b',
    step: { kind: 'verb', request: { action: 'restart', restartRequest: 'b' } },
  },
  {
    sentence: 'a restart that the runner has carried out is done',
    requested: 'Running',
    state: { restartRequest: 'b' },
    restart: 'b',
    step: none,
  },
  {
    sentence: 'a restart that was reported as answered is done',
    requested: 'Running',
    state: {},
    restart: 'b',
    status: { restartRequest: 'b' },
    step: none,
  },
  {
    sentence: 'a restart of a guest that has crashed starts it, and is done by that',
    requested: 'Running',
    state: { powerState: 'Failed', retrying: true },
    start: 'a',
    restart: 'b',
    step: { kind: 'verb', request: { action: 'start', startRequest: 'a', restartRequest: 'b' } },
  },
  {
    sentence: 'a guest that a full disk has paused is ended and started anew where a restart is asked for',
    requested: 'Running',
    state: fullDisk,
    start: 'a',
    restart: 'b',
    step: { kind: 'verb', request: { action: 'restart', restartRequest: 'b' } },
  },
  {
    sentence: 'a guest that a full disk has paused goes on by itself where a restart was carried out',
    requested: 'Running',
    state: { ...fullDisk, restartRequest: 'b' },
    start: 'a',
    restart: 'b',
    step: none,
  },
  {
    sentence: 'a guest that a full disk has paused goes on by itself where a start is asked for',
    requested: 'Running',
    state: fullDisk,
    start: 'a',
    step: none,
  },
  {
    sentence: 'a restart does not start what is to be stopped',
    requested: 'Stopped',
    state: { powerState: 'Stopped' },
    restart: 'b',
    step: none,
  },
  {
    sentence: 'a new revert request comes first',
    requested: 'Running',
    state: { revertRequest: 'a' },
    revert: 'b',
    status: { conditions: [] },
    step: { kind: 'verb', request: { action: 'revert', revertRequest: 'b' } },
  },
  {
    sentence: 'a revert of a VM that is to be stopped leaves it stopped',
    requested: 'Stopped',
    state: {},
    revert: 'b',
    status: { conditions: [] },
    step: { kind: 'verb', request: { action: 'revert', revertRequest: 'b', stopped: true } },
  },
  {
    sentence: 'the same revert request is done once',
    requested: 'Running',
    state: { revertRequest: 'b' },
    revert: 'b',
    step: none,
  },
  ...['a', undefined].map((known) => ({
    sentence: `a revert that was reported as done is done, also on a disk that was restored from before it: ${known}`,
    requested: 'Running' as const,
    state: known === undefined ? {} : { revertRequest: known },
    revert: 'b',
    status: { revertRequest: 'b' },
    step: none,
  })),
  ...['a', undefined].map((known) => ({
    sentence: `a revert that the VM was made with is not carried out on the disk that it names: ${known}`,
    requested: 'Running' as const,
    state: known === undefined ? {} : { revertRequest: known },
    revert: 'b',
    status: { observedGeneration: 0 },
    step: none,
  })),
  {
    sentence: 'a restart that the VM was made with is the concern of the first boot',
    requested: 'Running',
    state: {},
    restart: 'b',
    step: { kind: 'verb', request: { action: 'restart', restartRequest: 'b' } },
  },
];

describe('powerStep', () => {
  test.each(rows)('$sentence', ({ requested, state, revert, start, restart, status, step }) => {
    const vm = aVm({
      metadata: { generation: 2 },
      spec: {
        powerState: requested,
        ...(revert === undefined ? {} : { revertRequest: revert }),
        ...(start === undefined ? {} : { startRequest: start }),
        ...(restart === undefined ? {} : { restartRequest: restart }),
      },
      ...(status === undefined ? {} : { status }),
    });
    expect(powerStep(vm, runnerState(state))).toEqual(step);
  });
});

describe('a revert that is held for images', () => {
  const asked = (powerState: PowerState) =>
    aVm({ spec: { powerState, revertRequest: 'b' }, status: { effective } });
  const onDisk = { powerState: 'Suspended', suspendKind: 'Disk' } as const;

  test.each<[string, PowerState, Partial<RunnerState>, needsGuest: boolean, object]>([
    ['leaves a guest that runs as it is', 'Running', {}, false, none],
    [
      'does not start one that is off',
      'Running',
      { powerState: 'Stopped', reason: 'Requested' },
      false,
      none,
    ],
    ['does not have one go on', 'Running', { powerState: 'Suspended', suspendKind: 'Memory' }, false, none],
    ['has one go on whose memory is on its disk', 'Running', onDisk, false, verb('resume')],
    ['has one go on that is to be suspended after that', 'Suspended', onDisk, false, verb('resume')],
    ['does not suspend one that runs before that', 'Suspended', {}, false, none],
    ['nor one whose memory is saved', 'Suspended', {}, true, none],
    ['shuts down one whose memory is on its disk', 'Stopped', onDisk, false, verb('stop')],
    ['does not start one that has crashed', 'Running', { powerState: 'Failed', restarts: 6 }, false, none],
    ['shuts down one that is to be off', 'Stopped', {}, false, verb('stop')],
    ['leaves one off that is', 'Stopped', { powerState: 'Stopped', reason: 'Requested' }, false, none],
    ['has one go on whose memory is saved', 'Running', { powerState: 'Suspended' }, true, verb('resume')],
    [
      'starts one whose memory is saved',
      'Running',
      { powerState: 'Stopped', reason: 'Requested' },
      true,
      verb('start'),
    ],
    [
      'starts one whose memory is saved, and that has shut itself down',
      'Running',
      { powerState: 'Stopped', reason: 'GuestShutdown' },
      true,
      verb('start'),
    ],
    ['leaves one that runs and whose memory is saved as it is', 'Running', {}, true, none],
  ])('%s', (_, powerState, state, needsGuest, step) => {
    expect(powerStep(asked(powerState), runnerState(state), { needsGuest })).toEqual(step);
  });

  test('holds nothing else', () => {
    const vm = aVm({ spec: { powerState: 'Running', restartRequest: 'a' }, status: { effective } });
    const restart = { kind: 'verb', request: { action: 'restart', restartRequest: 'a' } };
    expect(powerStep(vm, runnerState({}), { needsGuest: false })).toEqual(restart);
  });
});

test.each([
  ['start', true],
  ['restart', true],
  ['stop', false],
  ['suspend', false],
  ['resume', false],
  ['revert', false],
] as const)('the verb %s boots the guest with the settings as they are by then: %s', (action, expected) => {
  expect(isBoot({ kind: 'verb', request: { action } })).toBe(expected);
  expect(isBoot({ kind: 'failed' })).toBe(false);
});

describe('suspending to the disk', () => {
  const persistent = { ...effective, disk: { storage: 'Persistent' as const, size: '1Gi' } };
  const step = (state: Partial<RunnerState>, settings: EffectiveSettings = persistent, suspendTo = 'Disk') =>
    powerStep(
      aVm({
        spec: { powerState: 'Suspended', suspendTo: suspendTo as 'Disk' },
        status: { effective: settings },
      }),
      runnerState(state),
    );
  const toDisk = { kind: 'verb', request: { action: 'suspend', suspendTo: 'Disk' } };

  test('is asked of a guest that runs', () => {
    expect(step({})).toEqual(toDisk);
  });

  test('is asked of a guest that is suspended in memory', () => {
    expect(step({ powerState: 'Suspended', suspendKind: 'Memory' })).toEqual(toDisk);
  });

  test('is over when the runner says so', () => {
    expect(step({ powerState: 'Suspended', suspendKind: 'Disk' })).toEqual(none);
  });

  test('is not undone where the memory is to be in the pod', () => {
    expect(step({ powerState: 'Suspended', suspendKind: 'Disk' }, persistent, 'Memory')).toEqual(none);
  });

  test('follows the VMConfig where the VM says nothing', () => {
    const vm = aVm({
      spec: { config: 'c', powerState: 'Suspended' },
      status: { effective: { ...persistent, suspendTo: 'Disk' } },
    });
    expect(powerStep(vm, runnerState({}))).toEqual(toDisk);
  });

  test.each([
    ['an Ephemeral disk', effective, 'the memory of a guest can only be on the claim of a Persistent disk'],
    [
      'a GPU',
      { ...persistent, gpuPassthrough: 'Enabled' as const },
      'the memory of a guest with a GPU cannot be written to a disk',
    ],
  ])('is refused with %s', (_what, settings, message) => {
    expect(step({}, settings)).toEqual({ kind: 'unsupported', message: `spec.suspendTo: ${message}` });
  });
});

test.each<[string, Partial<RunnerState>]>([
  ['whose guest is off', { powerState: 'Stopped', reason: 'Requested' }],
  ['whose guest shut itself down', { powerState: 'Stopped', reason: 'GuestShutdown' }],
  ['that has crashed', { powerState: 'Failed' }],
  ['that is suspended', { powerState: 'Suspended' }],
])('a VM that is being deleted is not started any more: one %s', (_, state) => {
  const vm = aVm({
    spec: { startRequest: 'a', revertRequest: 'b' },
    metadata: { deletionTimestamp: '2026-11-01T10:00:30Z', generation: 2 },
    status: reported('Crashed', 1),
  });
  expect(powerStep(vm, runnerState(state))).toEqual(none);
});
