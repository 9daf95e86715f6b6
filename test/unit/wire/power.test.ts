import { describe, expect, test } from 'vitest';
import type { Vm, VmStatus } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { powerDone, powerRequest } from '../../../src/wire/power.ts';
import { powerCommands, type PowerCommand } from '../../../src/wire/powercommands.ts';
import { storedMeta } from '../../support/storedmeta.ts';

type State = 'Running' | 'Stopped' | 'Suspended' | 'Failed' | 'Pending';
const booted = [
  { type: 'Booted', status: 'True', reason: 'Test', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' },
] as const;

function aVm(state: State, requested: 'Running' | 'Stopped' | 'Suspended', status: VmStatus = {}): Vm {
  const observed = state === 'Pending' ? {} : { powerState: state, conditions: [...booted] };
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: storedMeta({ name: 'demo', namespace: 'team' }),
    spec: { image: 'debian', powerState: requested },
    status: { ...observed, ...status },
  };
}

function outcome(vm: Vm, command: PowerCommand): string {
  try {
    return powerRequest(vm, command).powerState;
  } catch (error) {
    return error instanceof Svc3Error ? error.reason : String(error);
  }
}

describe('a command', () => {
  test.each<[State, Readonly<Record<PowerCommand, string>>]>([
    [
      'Running',
      {
        start: 'Conflict',
        stop: 'Stopped',
        resume: 'Conflict',
        suspend: 'Suspended',
        restart: 'Running',
        revert: 'Running',
      },
    ],
    [
      'Stopped',
      {
        start: 'Running',
        stop: 'Conflict',
        resume: 'Conflict',
        suspend: 'Conflict',
        restart: 'Conflict',
        revert: 'Running',
      },
    ],
    [
      'Suspended',
      {
        start: 'Conflict',
        stop: 'Stopped',
        resume: 'Running',
        suspend: 'Conflict',
        restart: 'Conflict',
        revert: 'Running',
      },
    ],
    [
      'Failed',
      {
        start: 'Running',
        stop: 'Stopped',
        resume: 'Conflict',
        suspend: 'Conflict',
        restart: 'Running',
        revert: 'Running',
      },
    ],
    [
      'Pending',
      {
        start: 'Conflict',
        stop: 'Conflict',
        resume: 'Conflict',
        suspend: 'Conflict',
        restart: 'Conflict',
        revert: 'Conflict',
      },
    ],
  ])('for a VM that is %s', (state, expected) => {
    const requested = state === 'Stopped' || state === 'Suspended' ? state : 'Running';
    const outcomes = powerCommands.map((command) => [command, outcome(aVm(state, requested), command)]);
    expect(Object.fromEntries(outcomes)).toEqual(expected);
  });

  test.each<[PowerCommand, State, 'Running' | 'Stopped' | 'Suspended']>([
    ['stop', 'Running', 'Stopped'],
    ['start', 'Stopped', 'Running'],
    ['suspend', 'Running', 'Suspended'],
    ['resume', 'Suspended', 'Running'],
  ])('%s may be said again while it is under way', (command, state, requested) => {
    expect(outcome(aVm(state, requested), command)).toBe(requested);
  });

  test('that does not fit names the VM, its state and the field', () => {
    expect(() => powerRequest(aVm('Running', 'Running'), 'start')).toThrow(
      'VM demo is Running, start needs it to be Stopped or Failed',
    );
  });

  test('start is another request each time, whatever the spec says', () => {
    const vm = aVm('Failed', 'Running');
    expect(powerRequest(vm, 'start').startRequest).not.toBe(powerRequest(vm, 'start').startRequest);
  });

  test('restart is another request each time, and is done when its own request is answered', () => {
    const vm = aVm('Running', 'Running', { observedGeneration: 5, restartRequest: 'r1' });
    const asked = powerRequest(vm, 'restart');
    expect(asked.restartRequest).not.toBe(powerRequest(vm, 'restart').restartRequest);
    expect(powerDone(vm, asked, 5)).toBe(false);
    expect(powerDone({ ...vm, status: { ...vm.status, ...asked } }, asked, 5)).toBe(true);
  });

  test('stop is for a guest, too, that has shut itself down while the spec says Running', () => {
    const guestStopped = [
      ...booted,
      { ...booted[0], type: 'Ready', status: 'False', reason: 'GuestStopped' } as const,
    ];
    expect(outcome(aVm('Stopped', 'Running', { conditions: guestStopped }), 'stop')).toBe('Stopped');
  });

  test.each<[PowerCommand, State, 'Running' | 'Stopped' | 'Suspended', string]>([
    ['stop', 'Stopped', 'Running', 'Stopped'],
    ['stop', 'Stopped', 'Suspended', 'Stopped'],
    ['start', 'Running', 'Stopped', 'Running'],
    ['resume', 'Running', 'Suspended', 'Running'],
    ['suspend', 'Suspended', 'Running', 'Suspended'],
    ['start', 'Running', 'Suspended', 'Conflict'],
    ['resume', 'Running', 'Stopped', 'Conflict'],
    ['suspend', 'Suspended', 'Stopped', 'Conflict'],
  ])('%s takes back what has not been done yet: a VM that is %s and is to be %s', (command, ...given) => {
    const [state, requested, expected] = given;
    expect(outcome(aVm(state, requested), command)).toBe(expected);
  });

  test('comes too late for a VM that is being deleted, whatever its state', () => {
    const vm = aVm('Running', 'Running');
    const going = { ...vm, metadata: { ...vm.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
    for (const command of powerCommands)
      expect(() => powerRequest(going, command)).toThrow(
        `VM demo is being deleted: ${command} comes too late`,
      );
  });

  test('revert is another request each time', () => {
    const vm = aVm('Running', 'Running');
    expect(powerRequest(vm, 'revert').revertRequest).not.toBe(powerRequest(vm, 'revert').revertRequest);
  });
});

describe('a request is carried out', () => {
  const stopped = { powerState: 'Stopped' } as const;
  const reconciling = { ...booted[0], type: 'Reconciling' };
  const started = { powerState: 'Running', startRequest: 's2' } as const;
  const reverted = { powerState: 'Running', revertRequest: 'r2' } as const;
  const ready = (reason: string) => ({ ...booted[0], type: 'Ready', status: 'False', reason }) as const;
  const unscheduled = { ...ready('Unschedulable'), type: 'Scheduled' } as const;
  test.each<[string, Vm, Parameters<typeof powerDone>[1], boolean]>([
    [
      'when the state is the requested one',
      aVm('Stopped', 'Stopped', { observedGeneration: 5 }),
      stopped,
      true,
    ],
    [
      'not before the operator has seen it',
      aVm('Stopped', 'Stopped', { observedGeneration: 4 }),
      stopped,
      false,
    ],
    ['not in another state', aVm('Running', 'Stopped', { observedGeneration: 5 }), stopped, false],
    [
      'or never will be, when the VM failed',
      aVm('Failed', 'Stopped', { observedGeneration: 5 }),
      stopped,
      true,
    ],
    [
      'not while the failure is being mended',
      aVm('Failed', 'Stopped', { observedGeneration: 5, conditions: [reconciling] }),
      stopped,
      false,
    ],
    [
      'when the VM that was to be stopped waits for a node, and has no guest',
      aVm('Stopped', 'Stopped', { observedGeneration: 5, conditions: [ready('InsufficientCPU')] }),
      stopped,
      true,
    ],
    [
      'or a pod that has none',
      aVm('Stopped', 'Stopped', { observedGeneration: 5, conditions: [ready('Stopping'), unscheduled] }),
      stopped,
      true,
    ],
    [
      'not while the guest that was to be stopped is on its way up',
      aVm('Stopped', 'Stopped', { observedGeneration: 5, conditions: [ready('Starting')] }),
      stopped,
      false,
    ],
    [
      'nor while its pod is',
      aVm('Stopped', 'Stopped', { observedGeneration: 5, conditions: [ready('Stopping')] }),
      stopped,
      false,
    ],
    [
      'not while the stop that was taken back is still under way',
      aVm('Running', 'Running', { observedGeneration: 5, conditions: [...booted, ready('Stopping')] }),
      started,
      false,
    ],
    [
      'when the guest runs that does not answer yet',
      aVm('Running', 'Running', { observedGeneration: 5, conditions: [...booted, ready('GuestNotReady')] }),
      started,
      true,
    ],
    [
      'not by the failure from before the start',
      aVm('Failed', 'Running', { observedGeneration: 5, startRequest: 's1' }),
      started,
      false,
    ],
    [
      'when the start has failed again',
      aVm('Failed', 'Running', { observedGeneration: 5, startRequest: 's2' }),
      started,
      true,
    ],
    [
      'when this revert is done',
      aVm('Running', 'Running', { observedGeneration: 5, revertRequest: 'r2' }),
      reverted,
      true,
    ],
    [
      'not when another revert was done',
      aVm('Running', 'Running', { observedGeneration: 5, revertRequest: 'r1' }),
      reverted,
      false,
    ],
  ])('%s', (_, vm, request, expected) => {
    expect(powerDone(vm, request, 5)).toBe(expected);
  });
});
