import { expect, test } from 'vitest';
import type { Vm, VmStatus } from '../../../../src/api/vm.ts';
import { priorityOf } from '../../../../src/controllers/vm/priority.ts';
import { aPod, aVm } from './builders.ts';

const running: VmStatus = { observedGeneration: 1, conditions: [], podName: 'svc3-vm-web' };

function priority(vm: Vm | undefined, given: { hasPod?: boolean; arePodsKnown?: boolean } = {}) {
  const { hasPod = false, arePodsKnown = true } = given;
  return priorityOf(
    'team/web',
    { vms: { get: () => vm }, pods: { hasSynced: () => arePodsKnown } },
    { pod: (name) => (hasPod && name === 'svc3-vm-web' ? aPod() : undefined) },
  );
}

test('a VM that has its pod comes after those that have none', () => {
  expect(priority(aVm({ status: running }), { hasPod: true })).toBe('low');
  expect(priority(aVm({ status: running }), { hasPod: false })).toBe('normal');
  expect(priority(aVm(), { hasPod: false })).toBe('normal');
});

test('one that has no status but what its kind fills in comes after them as well, once it has its pod', () => {
  const status = { observedGeneration: 0 };
  expect(priority(aVm({ status }), { hasPod: true })).toBe('low');
  expect(priority(aVm({ status }), { hasPod: false })).toBe('normal');
});

test('until the pods are known, its status says whether it has one', () => {
  expect(priority(aVm({ status: running }), { arePodsKnown: false })).toBe('low');
  expect(priority(aVm(), { arePodsKnown: false })).toBe('normal');
});

test.each([
  ['whose spec is another', aVm({ status: { ...running, observedGeneration: 0 } })],
  [
    'that is being deleted',
    aVm({ status: running, metadata: { deletionTimestamp: '2026-11-01T10:00:00Z' } }),
  ],
  [
    'that claims a guest',
    aVm({
      status: {
        ...running,
        conditions: [
          {
            type: 'Ready',
            status: 'False',
            reason: 'Claiming',
            message: '',
            lastTransitionTime: '2026-11-01T10:00:00Z',
          },
        ],
      },
    }),
  ],
  ['that is gone', undefined],
])('one %s has its turn like those without a pod', (_, vm) => {
  expect(priority(vm, { hasPod: true })).toBe('normal');
  expect(priority(vm, { arePodsKnown: false })).toBe('normal');
});
