import { describe, expect, test } from 'vitest';
import type { VmStatus } from '../../../../../src/api/vm.ts';
import { readyReasons } from '../../../../../src/api/reasons.ts';
import { eventsBetween } from '../../../../../src/controllers/vm/status/statusevents.ts';
import { aCondition, effective } from '../builders.ts';

const withCondition = (...given: Parameters<typeof aCondition>): VmStatus => ({
  conditions: [aCondition(...given)],
});

describe('a condition', () => {
  test.each([
    'AskingRegistry',
    'Claiming',
    'PullingImage',
    'Prepared',
    'Booting',
    'GuestNotReady',
    'NotRunning',
    'Starting',
    'Stopping',
    'Suspending',
    'Resuming',
    'Restarting',
    'Reverting',
    'Pending',
    'Terminating',
    'Progressing',
    'StartedFromMemory',
    'MemoryUsed',
    ...readyReasons,
  ])('of reason %s, a step of an ordinary life, has no event', (reason) => {
    for (const status of ['True', 'False'] as const)
      expect(eventsBetween(undefined, withCondition('Ready', { status, reason }))).toEqual([]);
  });

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
