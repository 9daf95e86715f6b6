import { storedMeta } from '../../../../support/storedmeta.ts';
import { expect, test } from 'vitest';
import type { VmStatus } from '../../../../../src/api/vm.ts';
import type { Observed, PodPlan } from '../../../../../src/controllers/vm/decide.ts';
import { planStatus } from '../../../../../src/controllers/vm/status/planstatus.ts';
import { aCondition, aPod, aVm, effective } from '../builders.ts';

type Given = Extract<PodPlan, { kind: 'conflict' | 'wait' | 'replace' }>;

const nothing: Observed = {
  vm: aVm(),
  pod: undefined,
  surplus: undefined,
  settings: undefined,
  node: undefined,
  claim: undefined,
  pullSecretVersion: undefined,
  pullsWith: '',
  isNodeLost: false,
  unprepared: undefined,
  unsaved: [],
  isSavedFirst: false,
  saveWaitMs: 0,
  now: 0,
};

function said(plan: Given, given: Partial<Observed> = {}): string[] | undefined {
  const status = planStatus({ ...nothing, ...given }, plan);
  if (status === undefined) return undefined;
  return Object.entries(status.conditions).map(
    ([type, { status: is, reason, message }]) => `${type}=${is}/${reason}: ${message}`,
  );
}

const pod = aPod({ nodeName: 'n1' });
const settings = { kind: 'resolved', effective, warnings: [] } as const;
const replace = { kind: 'replace', pod, node: 'n1', message: 'why' } as const;
const isRefused = aVm({
  status: { conditions: [aCondition('Scheduled', { status: 'False', reason: 'PodRefused' })] },
});
const lost = {
  metadata: storedMeta({ name: 'n1' }),
  status: { conditions: [{ type: 'Ready', status: 'Unknown' as const }] },
};

test.each<[sentence: string, plan: Given, given: Partial<Observed>, expected: string[] | undefined]>([
  [
    'a pod in the way',
    { kind: 'conflict', message: 'why' },
    {},
    ['ready=False/PodConflict: why', 'scheduled=False/PodConflict: why'],
  ],
  [
    'a pod that its node rejected',
    { ...replace, reason: 'RejectedByNode' },
    {},
    ['ready=False/RejectedByNode: why', 'scheduled=False/RejectedByNode: why'],
  ],
  [
    'a pod that its node does not prepare',
    { ...replace, reason: 'PodNotPrepared' },
    {},
    ['ready=False/PodNotPrepared: why', 'scheduled=False/PodNotPrepared: why'],
  ],
  [
    'a pod that is ended since nobody could tell its guest whose it is',
    { ...replace, reason: 'Unreached' },
    {},
    ['ready=False/Starting: why'],
  ],
  ['nothing of a pod that is made again at once', { ...replace, reason: 'PullRetry' }, {}, undefined],
  [
    'a pod that is ended for changes, which wait no longer',
    { ...replace, reason: 'Restarting' },
    {
      vm: aVm({
        status: {
          effective: { ...effective, onEviction: 'Suspend' },
          conditions: [aCondition('Ready'), aCondition('RestartRequired')],
        },
      }),
    },
    ['ready=False/Restarting: why'],
  ],
  [
    'a pod that goes because the memory of its guest is on the claim',
    { kind: 'wait', pod, settings },
    {
      vm: aVm({
        spec: { powerState: 'Suspended' },
        status: { powerState: 'Suspended', suspendedTo: 'Disk' },
      }),
    },
    ['ready=True/Suspended: the VM is suspended on its disk'],
  ],
  [
    'a pod that is on its way out',
    { kind: 'wait', pod, settings },
    {},
    ['ready=False/Starting: pod svc3-vm-web is being deleted'],
  ],
  [
    'nothing in place of the refusal that led there',
    { kind: 'wait', pod, settings },
    { vm: isRefused },
    undefined,
  ],
])('%s', (_sentence, plan, given, expected) => {
  expect(said(plan, given)).toEqual(expected);
});

test('a pod that is ended for changes leaves no memory', () => {
  const status: VmStatus = {
    effective: { ...effective, disk: { storage: 'Persistent' }, onEviction: 'Suspend' },
    powerState: 'Running',
    memoryHost: { accelerator: 'tcg' },
  };
  const planned = (plan: Given) => planStatus({ ...nothing, vm: aVm({ status }) }, plan)?.fields;
  expect(planned({ kind: 'wait', pod, settings })).toMatchObject({ memoryHost: { accelerator: 'tcg' } });
  expect(planned({ ...replace, reason: 'Restarting' })).not.toHaveProperty('memoryHost');
});

test('a pod that is on its way out on a lost node may still run', () => {
  const plan = { kind: 'wait', pod, settings } as const;
  expect(said(plan, { pod, node: lost, isNodeLost: true })?.[0]).toMatch(
    /^ready=Unknown\/NodeLost: node n1 does not answer/,
  );
});
