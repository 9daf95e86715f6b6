import { describe, expect, test } from 'vitest';
import type { Node, PersistentVolumeClaim, Pod, PodStatus } from '../../../../../src/api/core.ts';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import type { VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import { hasStarted, type Started } from '../../../../../src/controllers/vm/facts/started.ts';
import { aPod, aVm, effective, runnerState, runningStatus } from '../builders.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';

interface Row {
  sentence: string;
  spec?: Partial<VmSpec>;
  status?: VmStatus;
  pod?: Pod;
  node?: Node;
  claim?: PersistentVolumeClaim;
  runner?: RunnerState;
  started: Started;
}

const bound = (status: PodStatus) => aPod({ nodeName: 'n1', status });
const container = (given: object): PodStatus => ({
  containerStatuses: [{ name: 'runner', ready: false, restartCount: 0, image: '', imageID: '', ...given }],
});
const pulling = container({ state: { waiting: { reason: 'ImagePullBackOff' } }, started: false });
const unready = bound(runningStatus(false));
const startTime = '2026-11-01T10:00:01Z';
const readySince = (lastTransitionTime: string): PodStatus => ({
  startTime,
  ...pulling,
  conditions: [{ type: 'Ready', status: 'False', lastTransitionTime }],
});
const failed = (given: Partial<RunnerState>) =>
  runnerState({ powerState: 'Failed', reason: 'GpuBusy', ...given });
const lost: Node = {
  metadata: storedMeta({ name: 'n1' }),
  status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
};
const claimOf = (
  uid: string,
  phase: 'Pending' | 'Bound',
  labels: Record<string, string> = {},
): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: storedMeta({
    name: 'svc3-vm-web',
    labels,
    annotations: { 'svc3.dev/vm-uid': uid },
  }),
  status: { phase },
});
const ofNamesake = (phase: 'Pending' | 'Bound' = 'Bound') =>
  claimOf('before', phase, { 'svc3.dev/vm': 'web' });
const persistent = { storage: 'Persistent' } as const;
const foreign = [{ apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'web', uid: 'before', controller: true }];

const rows: Row[] = [
  { sentence: 'without a pod nothing has run', started: 'no' },
  { sentence: 'a power state is only written of guests', status: { powerState: 'Stopped' }, started: 'yes' },
  { sentence: 'a pod that nobody has looked at yet', pod: aPod(), started: 'no' },
  { sentence: 'a pod that pulls its image', pod: bound(pulling), started: 'no' },
  { sentence: 'such a pod on a lost node may run', pod: bound(pulling), node: lost, started: 'unknown' },
  { sentence: 'a ready pod is a running guest', pod: bound(runningStatus(true)), started: 'yes' },
  {
    sentence: "a ready pod of the VM's namesake says nothing",
    pod: aPod({ status: runningStatus(true), metadata: { ownerReferences: foreign } }),
    started: 'no',
  },
  {
    sentence: 'a pod whose readiness has flipped since its start was ready',
    pod: bound(readySince('2026-11-01T10:00:31Z')),
    started: 'yes',
  },
  {
    sentence: 'a pod that was never ready since its start was not',
    pod: bound(readySince(startTime)),
    started: 'no',
  },
  {
    sentence: 'a container that has run before is known to its runner alone',
    pod: bound(
      container({
        restartCount: 1,
        image: '',
        imageID: '',
        state: { waiting: { reason: 'CrashLoopBackOff' } },
      }),
    ),
    started: 'unknown',
  },
  {
    sentence: 'so is one that has ended',
    pod: bound(container({ lastState: { terminated: { exitCode: 1 } } })),
    started: 'unknown',
  },
  { sentence: 'a runner that did not answer', pod: unready, started: 'unknown' },
  {
    sentence: 'a pod that runs without a word of its container',
    pod: bound({ phase: 'Running' }),
    started: 'unknown',
  },
  { sentence: 'a runner whose guest runs', pod: unready, runner: runnerState(), started: 'yes' },
  {
    sentence: 'a runner that keeps its guest stopped, as asked',
    pod: unready,
    runner: runnerState({ powerState: 'Stopped', reason: 'Requested' }),
    started: 'yes',
  },
  {
    sentence: 'a runner that begins',
    pod: unready,
    runner: runnerState({ powerState: 'Stopped', reason: 'Starting', guestStarted: false }),
    started: 'no',
  },
  {
    sentence: 'a runner that begins on a disk whose guest has run',
    pod: unready,
    runner: runnerState({ powerState: 'Stopped', reason: 'Starting', guestStarted: true }),
    started: 'yes',
  },
  {
    sentence: 'a runner that could never start QEMU',
    pod: unready,
    runner: failed({ guestStarted: false }),
    started: 'no',
  },
  {
    sentence: 'a runner that could not start QEMU again',
    pod: unready,
    runner: failed({ guestStarted: true }),
    started: 'yes',
  },
  {
    sentence: 'an older runner that could never start QEMU',
    pod: unready,
    runner: failed({}),
    started: 'no',
  },
  {
    sentence: 'an older runner whose QEMU has died',
    pod: unready,
    runner: failed({ restarts: 1 }),
    started: 'yes',
  },
  {
    sentence: 'an older runner that was itself restarted',
    pod: bound({
      ...runningStatus(false),
      ...container({ restartCount: 1, image: '', imageID: '', state: { running: { startedAt: startTime } } }),
    }),
    runner: failed({}),
    started: 'unknown',
  },
  {
    sentence: 'a bound volume may hold what an earlier pod has written',
    claim: claimOf('vm-uid', 'Bound'),
    started: 'unknown',
  },
  {
    sentence: 'unless the runner on it says that nothing has run',
    pod: unready,
    claim: claimOf('vm-uid', 'Bound'),
    runner: failed({ guestStarted: false }),
    started: 'no',
  },
  {
    sentence: 'which an older runner does not know',
    pod: unready,
    claim: claimOf('vm-uid', 'Bound'),
    runner: failed({}),
    started: 'unknown',
  },
  {
    sentence: 'a volume that was never bound holds nothing',
    claim: claimOf('vm-uid', 'Pending'),
    started: 'no',
  },
  { sentence: "another VM's volume says nothing", claim: claimOf('before', 'Bound'), started: 'no' },
  {
    sentence: 'that of a VM of the same name may be its own, from before it was restored',
    spec: { disk: persistent },
    claim: ofNamesake(),
    started: 'unknown',
  },
  {
    sentence: 'also where its VMConfig says that it has one',
    status: { effective: { ...effective, disk: persistent } },
    claim: ofNamesake(),
    started: 'unknown',
  },
  { sentence: 'unless it has none', claim: ofNamesake(), started: 'no' },
  {
    sentence: 'unless it names that claim: it has not got it yet',
    spec: { disk: { ...persistent, claimName: 'svc3-vm-web' } },
    claim: ofNamesake(),
    started: 'no',
  },
  {
    sentence: 'unless nothing was ever written there',
    spec: { disk: persistent },
    claim: ofNamesake('Pending'),
    started: 'no',
  },
  {
    sentence: 'unless the VM of that name is another',
    spec: { disk: persistent },
    claim: claimOf('before', 'Bound', { 'svc3.dev/vm': 'db' }),
    started: 'no',
  },
];

describe('whether a guest has ever run', () => {
  test.each(rows)('$sentence: $started', ({ spec = {}, status, pod, node, claim, runner, started }) => {
    const vm = aVm({ spec, ...(status === undefined ? {} : { status }) });
    expect(hasStarted({ vm, pod, node, claim, runner })).toBe(started);
  });
});
