import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import type { PowerAction, RunnerState, WarmStartReason } from '../../../../../src/api/runner.ts';
import type { Vm, VmStatus } from '../../../../../src/api/vm.ts';
import { isPodReady } from '../../../../../src/controllers/vm/facts/podstate.ts';
import { statusOf } from '../../../../../src/controllers/vm/status/draftedstatus.ts';
import { pendingDraft } from '../../../../../src/controllers/vm/status/pending.ts';
import { reportPod } from '../../../../../src/controllers/vm/status/report.ts';
import {
  condition,
  type ConditionDrafts,
  type StatusDraft,
} from '../../../../../src/controllers/vm/status/statusdraft.ts';
import { eventsBetween } from '../../../../../src/controllers/vm/status/statusevents.ts';
import { aCondition, aPod, aVm, effective, runnerState, runningStatus } from '../builders.ts';

const withCondition = (...given: Parameters<typeof aCondition>): VmStatus => ({
  conditions: [aCondition(...given)],
});

const asIt = { podReady: false, fingerprint: undefined, verb: undefined, isPending: false, error: undefined };
const warmStart = (fromMemory: boolean, reason: WarmStartReason) => ({ fromMemory, reason, message: 'why' });

/** A VM whose passes report one after the other, as the controller does. */
function aLife() {
  let vm = aVm();
  /** The next status; returns the reason of Ready, and the events as `type reason`. */
  const tell = (draft: StatusDraft): string[] => {
    const status = statusOf(vm, draft, new Date('2026-11-01T10:00:30Z'));
    const events = eventsBetween(vm.status, status);
    vm = { ...vm, status };
    const ready = status.conditions?.find(({ type }) => type === 'Ready');
    return [ready?.reason ?? '', ...events.map(({ type, reason }) => `${type} ${reason}`)];
  };
  const report = (pod: Pod, said: Partial<RunnerState> | undefined, verb?: PowerAction): StatusDraft => {
    const state = said === undefined ? undefined : runnerState(said);
    const runner = { ...asIt, podReady: isPodReady(pod), state, verb };
    return reportPod({ vm, pod, node: undefined, runner, effective, warnings: [] });
  };
  return {
    /** It is asked for something else from now on. */
    asks: (spec: Partial<Vm['spec']>) => void (vm = { ...vm, spec: { ...vm.spec, ...spec } }),
    waits: (conditions: Partial<ConditionDrafts>) => tell(pendingDraft(vm, conditions)),
    /** Its pod lives, and its runner says this. */
    lives: (pod: Pod, said: Partial<RunnerState> | undefined, verb?: PowerAction) =>
      tell(report(pod, said, verb)),
    /** The same where it is being deleted, and its disk is still being saved. */
    isHeld: (pod: Pod, said: Partial<RunnerState>) => {
      const { fields, conditions } = report(pod, said);
      const ready = condition('False', 'Terminating', 'it waits until its disk is saved');
      return tell({ fields, conditions: { ...conditions, ready }, reconciling: true });
    },
  };
}

const booting = aPod({ nodeName: 'n1', status: runningStatus(false) });
const running = aPod({ nodeName: 'n1', status: runningStatus(true) });
const up = { powerState: 'Running', guestReady: true } as const;
const down = { powerState: 'Stopped', reason: 'Requested' } as const;

describe('an ordinary life', () => {
  test('tells of a start the node and the boot, and nothing of the steps between', () => {
    const { waits, lives } = aLife();
    expect(waits({ scheduled: condition('False', 'AskingRegistry', 'which image') })).toEqual([
      'AskingRegistry',
    ]);
    expect(lives(aPod(), undefined)).toEqual(['Starting', 'Normal Scheduled']);
    expect(lives(booting, { powerState: 'Stopped', reason: 'Starting' })).toEqual(['Starting']);
    expect(lives(booting, { powerState: 'Running', guestReady: false })).toEqual([
      'GuestNotReady',
      'Normal Booted',
    ]);
    expect(lives(running, up)).toEqual(['Running']);
    expect(lives(running, { ...up, readiness: 'NotAnswering' })).toEqual(['GuestNotAnswering']);
  });

  test('tells of a guest of a pool where it is and that it runs', () => {
    const { waits, lives } = aLife();
    expect(waits({})).toEqual(['Pending']);
    expect(waits({ ready: condition('False', 'Claiming', 'the guest is being claimed') })).toEqual([
      'Claiming',
    ]);
    expect(lives(running, up)).toEqual(['Running', 'Normal Booted']);
  });

  test('tells of a verb what has become of the VM, and not that it is under way', () => {
    const { asks, lives } = aLife();
    lives(running, up);
    asks({ powerState: 'Stopped' });
    expect(lives(running, up, 'stop')).toEqual(['Stopping']);
    expect(lives(booting, down)).toEqual(['Stopped', 'Normal Stopped']);
    asks({ powerState: 'Running' });
    expect(lives(booting, down, 'start')).toEqual(['Starting']);
    expect(lives(running, up)).toEqual(['Running', 'Normal Booted']);
    asks({ powerState: 'Suspended' });
    expect(lives(running, up, 'suspend')).toEqual(['Suspending']);
    expect(lives(booting, { powerState: 'Suspended' })).toEqual(['Suspended', 'Normal Suspended']);
    asks({ powerState: 'Running' });
    expect(lives(booting, { powerState: 'Suspended' }, 'resume')).toEqual(['Resuming']);
    expect(lives(running, up)).toEqual(['Running']);
    expect(lives(running, up, 'restart')).toEqual(['Restarting']);
    expect(lives(running, up, 'revert')).toEqual(['Reverting']);
    expect(lives(running, up)).toEqual(['Running']);
  });

  test('tells nothing of a guest that goes on from its memory, or boots since that is used up', () => {
    const { lives } = aLife();
    lives(running, up);
    expect(lives(running, { ...up, warmStart: warmStart(true, 'StartedFromMemory') })).toEqual(['Running']);
    expect(lives(running, { ...up, warmStart: warmStart(false, 'MemoryUsed') })).toEqual(['Running']);
  });

  test('tells nothing of a deletion that waits for an image of the disk', () => {
    const { isHeld, lives } = aLife();
    lives(running, up);
    expect(isHeld(running, up)).toEqual(['Terminating']);
  });
});

test('what goes wrong in a life is told as often as it begins', () => {
  const { lives } = aLife();
  lives(running, up);
  const crashed = { powerState: 'Failed', retrying: true, restarts: 1, message: 'it died' } as const;
  expect(lives(booting, crashed)).toEqual(['Crashed', 'Warning Crashed', 'Warning QEMUFailed']);
  expect(lives(booting, crashed)).toEqual(['Crashed']);
  expect(lives(running, up)).toEqual(['Running', 'Normal Booted']);
  expect(lives(booting, crashed)).toEqual(['Crashed', 'Warning Crashed', 'Warning QEMUFailed']);
});

describe('a condition', () => {
  test.each([
    ['Scheduled', 'True', 'Scheduled', 'Normal'],
    ['Scheduled', 'False', 'Unschedulable', 'Warning'],
    ['Stalled', 'True', 'ImagePullDenied', 'Warning'],
    ['WarmStart', 'True', 'IdentityShared', 'Warning'],
  ] as const)('%s=%s of reason %s is told as %s', (type, status, reason, kind) => {
    const after = withCondition(type, { status, reason, message: 'why' });
    expect(eventsBetween(undefined, after)).toEqual([{ type: kind, reason, message: 'why' }]);
    expect(eventsBetween(after, after)).toEqual([]);
  });

  test('is not told where it only says that kube-scheduler has yet to decide', () => {
    const waits = {
      status: 'False',
      reason: 'AwaitingScheduler',
      message: 'waiting for kube-scheduler',
    } as const;
    for (const type of ['Scheduled', 'Prepared'])
      expect(eventsBetween(undefined, withCondition(type, waits))).toEqual([]);
  });

  test('is told again where its status is another, though the reason is not', () => {
    const [before, after] = (['True', 'False'] as const).map((status) =>
      withCondition('PortsMapped', { status, reason: 'PortTaken', message: 'why' }),
    );
    expect(eventsBetween(before, after!)).toMatchObject([{ type: 'Warning', reason: 'PortTaken' }]);
  });

  test('of the same reason as another is told once', () => {
    const told = { status: 'False', reason: 'ImagePullDenied', message: 'why' } as const;
    const after = { conditions: [aCondition('Prepared', told), aCondition('Stalled', { ...told })] };
    expect(eventsBetween(undefined, after)).toHaveLength(1);
  });
});

describe('a boot', () => {
  const booted = (reason: string): VmStatus => withCondition('Booted', { reason, message: 'it runs' });

  test('is told once, by whatever it is known', () => {
    const told = [{ type: 'Normal', reason: 'Booted', message: 'it runs' }];
    expect(eventsBetween(undefined, booted('Answering'))).toEqual(told);
    expect(eventsBetween(booted('Answering'), booted('Probed'))).toEqual([]);
  });

  test('that is told with the node is told in one event', () => {
    const conditions = [
      aCondition('Scheduled', { reason: 'Scheduled', message: 'placed on node n1' }),
      aCondition('Booted', { reason: 'Booted', message: 'it runs' }),
    ];
    expect(eventsBetween(undefined, { conditions, warnings: ['mind'] })).toEqual([
      { type: 'Normal', reason: 'Booted', message: 'placed on node n1; it runs' },
      { type: 'Warning', reason: 'SpecWarning', message: 'mind' },
    ]);
  });
});

describe('another power state', () => {
  const off: VmStatus = {
    powerState: 'Stopped',
    conditions: [aCondition('Ready', { reason: 'Stopped', message: 'stopped as requested' })],
  };

  test('that is as requested is told', () => {
    const told = [{ type: 'Normal', reason: 'Stopped', message: 'stopped as requested' }];
    expect(eventsBetween({ powerState: 'Running' }, off)).toEqual(told);
  });

  test.each<[string, VmStatus | undefined, VmStatus]>([
    ['of a new VM', undefined, off],
    ['that was there', off, off],
    ['of a VM that runs again', { powerState: 'Stopped' }, { ...off, powerState: 'Running' }],
    ['that is no more', { powerState: 'Running' }, { conditions: off.conditions ?? [] }],
    [
      'that is on its way',
      { powerState: 'Running' },
      { ...off, ...withCondition('Ready', { reason: 'Stopping' }) },
    ],
    ['of which no condition tells', { powerState: 'Running' }, { powerState: 'Stopped' }],
  ])('%s is not', (_sentence, before, after) => {
    expect(eventsBetween(before, after)).toEqual([]);
  });
});

describe('the disk that goes with its pod', () => {
  const before: VmStatus = {
    powerState: 'Running',
    podName: 'svc3-vm-web',
    runner: { podUid: 'old', address: 'a' },
    effective,
  };
  const after: VmStatus = { powerState: 'Running', effective };
  const message = (where: string): string =>
    `the changes to the disk went with pod svc3-vm-web${where} (spec.disk.storage is Ephemeral): the VM boots fresh from its image`;

  test('is told, with the node where that is known', () => {
    const told = { type: 'Warning', reason: 'DiskReset' };
    expect(eventsBetween(before, after)).toEqual([{ ...told, message: message('') }]);
    expect(eventsBetween({ ...before, node: 'n1' }, after)).toEqual([
      { ...told, message: message(' on node n1') },
    ]);
  });

  test.each<[string, VmStatus, VmStatus]>([
    ['of a VM whose pod is the same', before, { ...after, runner: { podUid: 'old', address: 'a' } }],
    ['of a VM that never ran', { runner: { podUid: 'old', address: 'a' }, effective }, { effective }],
    ['of a VM that had no pod', { powerState: 'Running', effective }, after],
    [
      'that lies on a claim',
      before,
      { ...after, effective: { ...effective, disk: { storage: 'Persistent' } } },
    ],
    ['of a VM that has no settings', before, { powerState: 'Running' }],
  ])('is not told %s', (_sentence, one, other) => {
    expect(eventsBetween(one, other)).toEqual([]);
  });
});
