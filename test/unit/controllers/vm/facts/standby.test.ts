import { expect, test } from 'vitest';
import type { Vm } from '../../../../../src/api/vm.ts';
import { waitsForGuest } from '../../../../../src/controllers/vm/facts/standby.ts';
import { condition } from '../../image/builders.ts';
import { aVm } from '../builders.ts';

const pool = { pool: 'ci' } as const;
const refused = { podName: 'svc3-vm-web', conditions: [condition('Scheduled', 'False', 'PodRefused')] };

test.each<[string, Vm, boolean]>([
  ['one that is new', aVm({ spec: pool }), true],
  ['one whose own pod was refused', aVm({ spec: pool, status: refused }), true],
  ['none that has chosen a guest', aVm({ spec: pool, status: { podName: 'svc3-pool-1' } }), false],
  ['none that has a pod', aVm({ spec: pool, status: { podName: 'svc3-vm-web', conditions: [] } }), false],
  // They get no guest that waits: woken first, they would keep it from those that do.
  ['none that has run', aVm({ spec: pool, status: { ...refused, powerState: 'Stopped' } }), false],
  ['none that is to be stopped', aVm({ spec: { ...pool, powerState: 'Stopped' }, status: refused }), false],
  [
    'none that is being deleted',
    aVm({ spec: pool, metadata: { deletionTimestamp: '2026-11-01T10:00:30Z' } }),
    false,
  ],
])('of the VMs of a pool %s is woken for a guest that waits', (_, vm, isWoken) => {
  expect(waitsForGuest(vm)).toBe(isWoken);
});
