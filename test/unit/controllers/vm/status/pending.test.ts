import { describe, expect, test } from 'vitest';
import type { VmStatus } from '../../../../../src/api/vm.ts';
import { labelWarning } from '../../../../../src/controllers/vm/resolve/livewarnings.ts';
import { isAsleep } from '../../../../../src/controllers/vm/facts/hibernation.ts';
import { condition } from '../../../../../src/controllers/vm/status/statusdraft.ts';
import { asleepDraft, pendingDraft } from '../../../../../src/controllers/vm/status/pending.ts';
import { aCondition, aVm, effective } from '../builders.ts';

const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
const unschedulable = condition('False', 'Unschedulable', 'no node fits');

test('a VM without a pod keeps what is known of its disk, and loses what was of the pod', () => {
  const vm = aVm({
    status: {
      effective: persistent,
      node: 'n1',
      ip: '10.0.0.7',
      podName: 'svc3-vm-web',
      ports: { ssh: 8822 },
      diskSize: '10Gi',
      diskGrowth: { size: '20Gi' },
      revertRequest: 'r1',
      startRequest: 's1',
      warnings: ['netBoost has no effect', labelWarning('svc3-vm-web', 'denied')],
      powerState: 'Running',
    } as never,
  });
  expect(pendingDraft(vm, { scheduled: unschedulable }).fields).toEqual({
    effective: persistent,
    node: 'n1',
    diskSize: '10Gi',
    diskGrowth: { size: '20Gi' },
    revertRequest: 'r1',
    startRequest: 's1',
    warnings: ['netBoost has no effect'],
    powerState: 'Stopped',
  });
});

test('what became of a growth before says nothing of one that waits for a pod', () => {
  const grown = 'the disk and the file system of the guest have grown';
  const status = { effective: persistent, diskSize: '10Gi', diskGrowth: grown } as const;
  const fieldsOf = (size: string) => pendingDraft(aVm({ spec: { disk: { size } }, status }), {}).fields;
  expect(fieldsOf('10Gi')).toMatchObject({ diskGrowth: grown });
  expect(fieldsOf('20Gi')).not.toHaveProperty('diskGrowth');
  const asleep = aVm({ spec: { disk: { size: '20Gi' } }, status });
  expect(asleepDraft(asleep).fields).not.toHaveProperty('diskGrowth');
});

test('the revert that a VM was made with is answered, and no other', () => {
  const spec = { revertRequest: 'r1', startRequest: 's1', restartRequest: 't1' };
  for (const status of [{}, { observedGeneration: 0 }])
    expect(pendingDraft(aVm({ spec, status }), {}).fields).toEqual({ revertRequest: 'r1' });
  expect(pendingDraft(aVm({ spec, status: { conditions: [] } }), {}).fields).toEqual({});
});

test('an Ephemeral VM may go to any node', () => {
  const { fields } = pendingDraft(aVm({ status: { effective, node: 'n1' } }), {});
  expect(fields).toEqual({ effective });
});

test('a VM that never booted is not called stopped', () => {
  expect(pendingDraft(aVm(), {}).fields).toEqual({});
});

test('Ready tells what the VM waits for, the last cause first', () => {
  const prepared = condition('False', 'Pulling', 'pulling');
  const stalled = condition('True', 'DiskMissing', 'the disk is gone');
  const ready = (conditions: Parameters<typeof pendingDraft>[1]) => {
    const draft = pendingDraft(aVm(), conditions);
    return [draft.conditions.ready?.message, draft.reconciling];
  };
  expect(ready({ prepared })).toEqual(['pulling', true]);
  expect(ready({ prepared, scheduled: unschedulable })).toEqual(['no node fits', true]);
  expect(ready({ prepared, scheduled: unschedulable, stalled })).toEqual(['the disk is gone', false]);
  expect(ready({})).toEqual(['', true]);
});

test('changes go on waiting where the guest may go on from its memory, and that it is on the disk stays known', () => {
  const restartRequired = aCondition('RestartRequired', { reason: 'SpecChanged' });
  const conditions = [aCondition('Ready'), restartRequired];
  const settings = { ...persistent, onEviction: 'Suspend' } as const;
  const evicted = aVm({ status: { effective: settings, powerState: 'Running', conditions } });
  expect(pendingDraft(evicted, {}).conditions.restartRequired).toMatchObject({ reason: 'SpecChanged' });
  const shutDown = aVm({ status: { effective: persistent, conditions } });
  expect(pendingDraft(shutDown, {}).conditions).not.toHaveProperty('restartRequired');
});

test('what a guest ran on is known while it may have left a memory there, and no longer', () => {
  const memoryHost = { accelerator: 'tcg' } as const;
  const settings = { ...persistent, onEviction: 'Suspend' } as const;
  const evicted = { effective: settings, powerState: 'Running', memoryHost } as const;
  expect(pendingDraft(aVm({ status: evicted }), {}).fields).toMatchObject({ memoryHost });
  const reverted = aVm({ spec: { revertRequest: 'r1' }, status: evicted });
  expect(pendingDraft(reverted, {}).fields).not.toHaveProperty('memoryHost');
  expect(pendingDraft(reverted, {}, { isSavedFirst: true }).fields).toMatchObject({ memoryHost });
});

describe('a VM whose memory is on its claim', () => {
  const conditions = [aCondition('Ready'), aCondition('RestartRequired', { reason: 'SpecChanged' })];
  const status: VmStatus = {
    effective: persistent,
    powerState: 'Suspended',
    suspendedTo: 'Disk',
    conditions,
  };

  test('is suspended until there is a pod that may use it', () => {
    const stateOf = (more: VmStatus) => pendingDraft(aVm({ status: { ...status, ...more } }), {}).fields;
    expect(stateOf({})).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
    const used = { powerState: 'Stopped', suspendedTo: 'Disk' };
    expect(stateOf({ runner: { podUid: 'pod-uid' } })).toMatchObject(used);
    expect(stateOf({ powerState: 'Stopped' })).toMatchObject(used);
    expect(stateOf({ suspendedTo: 'Memory' })).toMatchObject({ powerState: 'Stopped' });
  });

  test('can be suspended again before there is room for it', () => {
    const { fields } = pendingDraft(aVm({ status }), { scheduled: unschedulable });
    expect(isAsleep(aVm({ spec: { powerState: 'Suspended' }, status: fields }))).toBe(true);
  });

  test('says while it is asleep which changes wait', () => {
    expect(asleepDraft(aVm({ status })).conditions).toMatchObject({
      ready: { status: 'True', reason: 'Suspended' },
      restartRequired: { status: 'True', reason: 'SpecChanged' },
    });
  });
});
