import { describe, expect, test } from 'vitest';
import type { Node, Pod, PodStatus } from '../../../../../src/api/core.ts';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import type { EffectiveSettings, VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import type { RunnerObservation } from '../../../../../src/controllers/vm/runner/runners.ts';
import { type PodReport, reportPod } from '../../../../../src/controllers/vm/status/report.ts';
import { differsOnlyInProgress, statusOf } from '../../../../../src/controllers/vm/status/draftedstatus.ts';
import { pendingDraft } from '../../../../../src/controllers/vm/status/pending.ts';
import { isAsleep } from '../../../../../src/controllers/vm/facts/hibernation.ts';
import { conditionsIn } from '../../../../../src/controllers/vm/status/statusdraft.ts';
import { eventsBetween } from '../../../../../src/controllers/vm/status/statusevents.ts';
import { aCondition, aPod, aVm, effective, runnerState, runningStatus } from '../builders.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';

const waiting = (reason: string, message: string) => ({
  phase: 'Pending' as const,
  containerStatuses: [
    {
      name: 'runner',
      ready: false,
      restartCount: 0,
      image: '',
      imageID: '',
      state: { waiting: { reason, message } },
    },
  ],
});

const crashed = {
  phase: 'Running' as const,
  podIP: '10.0.0.1',
  containerStatuses: [
    {
      name: 'runner',
      ready: false,
      restartCount: 3,
      image: '',
      imageID: '',
      state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 40s' } },
      lastState: { terminated: { exitCode: 1, reason: 'Error', message: 'line\nno space left\n' } },
    },
  ],
};

function observed(given: Partial<RunnerObservation> = {}): RunnerObservation {
  return {
    state: undefined,
    podReady: false,
    fingerprint: undefined,
    verb: undefined,
    isPending: false,
    error: undefined,
    ...given,
  };
}

const otherCertificate =
  'the runner of pod team/svc3-vm-web shows another certificate than before: its volume was lost (node wiped, or etcd restored); delete the pod for another one';
const refusedStatus: VmStatus = {
  powerState: 'Running',
  runner: { podUid: 'pod-uid' },
  conditions: [
    aCondition('Ready', { status: 'Unknown', reason: 'RunnerUnreachable', message: otherCertificate }),
  ],
};

const stopped = (reason: string) => runnerState({ powerState: 'Stopped', reason, message: 'why it is off' });
const failed = (reason: string, given: Partial<RunnerState> = {}) =>
  runnerState({ powerState: 'Failed', reason, message: `told: ${reason}`, ...given });

const lostNode: Node = {
  metadata: storedMeta({ name: 'n1' }),
  status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
};

interface Row {
  sentence: string;
  pod?: Pod;
  node?: Node;
  spec?: Partial<VmSpec>;
  status?: VmStatus;
  runner?: RunnerObservation;
  /** `Type=Status/Reason`, in the order ready, scheduled, prepared, booted, stalled. */
  rows: string[];
  power?: string;
  message?: string;
}

const bound = (status: Pod['status']) =>
  aPod({ nodeName: 'n1', ...(status === undefined ? {} : { status }) });
const running = bound(runningStatus(true));
const unready = bound(runningStatus(false));
const ready = 'ready=True/Running';
const booted = 'booted=True/Booted';
const answered = runnerState({ guestReachable: true, guestReady: true, readiness: 'Answering' });
const starting = 'ready=False/Starting';
const scheduled = 'scheduled=True/Scheduled';
const prepared = 'prepared=True/Prepared';
const pulling = 'prepared=False/PullingImage';

const notBound = (reason: string, message: string) => ({
  type: 'PodScheduled',
  status: 'False',
  reason,
  message,
});
const unprovisioned =
  'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "svc3-vm-web"';

/** A pod that is left to kube-scheduler, and what that has said of it. */
function unpinned(conditions: NonNullable<PodStatus['conditions']>, nominatedNodeName?: string): Pod {
  const { affinity: _affinity, ...spec } = aPod().spec;
  const nominated = nominatedNodeName === undefined ? {} : { nominatedNodeName };
  return { ...aPod({ status: { conditions, ...nominated } }), spec };
}

const table: Row[] = [
  {
    sentence: 'a pod that was just made',
    pod: aPod(),
    rows: [starting, scheduled, pulling, 'booted=False/Booting'],
  },
  {
    sentence: 'a pod that kube-scheduler has not looked at yet',
    pod: unpinned([]),
    rows: [starting, 'scheduled=False/AwaitingScheduler', pulling, 'booted=False/Booting'],
  },
  {
    sentence: 'a pod that is left to kube-scheduler and that no node takes',
    pod: unpinned([notBound('Unschedulable', 'Insufficient cpu')]),
    rows: [starting, 'scheduled=False/Unschedulable', 'prepared=False/Unschedulable', 'booted=False/Booting'],
  },
  ...['SchedulerError', 'SchedulingGated'].map((reason) => ({
    sentence: `a pod that is left to kube-scheduler, and not refused by ${reason}`,
    pod: unpinned([notBound(reason, 'not yet')]),
    rows: [
      starting,
      'scheduled=False/AwaitingScheduler',
      'prepared=False/AwaitingScheduler',
      'booted=False/Booting',
    ],
  })),
  {
    sentence: 'a pod that is left to kube-scheduler, which makes room for it',
    pod: unpinned([notBound('Unschedulable', 'Insufficient cpu')], 'n1'),
    rows: [
      starting,
      'scheduled=False/AwaitingScheduler',
      'prepared=False/AwaitingScheduler',
      'booted=False/Booting',
    ],
  },
  {
    sentence: 'a pod whose image cannot be pulled',
    pod: bound(waiting('ImagePullBackOff', 'denied')),
    rows: [starting, scheduled, 'prepared=False/ImagePullFailed', 'booted=False/Booting'],
    message: 'denied',
  },
  {
    sentence: 'a container that cannot be created',
    pod: bound(waiting('CreateContainerConfigError', 'no such user')),
    rows: [starting, scheduled, pulling, 'booted=False/QEMUFailed'],
    message: 'CreateContainerConfigError: no such user',
  },
  {
    sentence: 'a disk whose claim is not bound',
    pod: aPod({
      status: {
        conditions: [
          { type: 'PodScheduled', status: 'False', message: 'pod has unbound PersistentVolumeClaims' },
        ],
      },
    }),
    rows: [starting, 'scheduled=False/Unschedulable', 'prepared=False/VolumePending', 'booted=False/Booting'],
  },
  {
    sentence: 'a volume that cannot be made for the node of the pod',
    pod: aPod({ status: { conditions: [notBound('SchedulerError', unprovisioned)] } }),
    rows: [starting, scheduled, 'prepared=False/VolumePending', 'booted=False/Booting'],
  },
  {
    sentence: 'a pod that kube-scheduler cannot bind pulls nothing',
    pod: aPod({ status: { conditions: [notBound('SchedulerError', 'a webhook denies it')] } }),
    rows: [starting, scheduled, 'prepared=False/Unschedulable', 'booted=False/Booting'],
  },
  {
    sentence: 'a pod for which kube-scheduler makes room on its node',
    pod: aPod({
      status: { nominatedNodeName: 'n1', conditions: [notBound('Unschedulable', 'Insufficient cpu')] },
    }),
    rows: [starting, 'scheduled=False/Unschedulable', 'prepared=False/Unschedulable', 'booted=False/Booting'],
  },
  {
    sentence: 'a pod that somebody gates',
    pod: aPod({ status: { conditions: [notBound('SchedulingGated', 'Scheduling is blocked')] } }),
    rows: [starting, 'scheduled=False/Unschedulable', 'prepared=False/Unschedulable', 'booted=False/Booting'],
  },
  {
    sentence: 'user data whose Secret is not there',
    pod: unready,
    runner: observed({ state: failed('UserDataMissing', { retrying: true }) }),
    rows: ['ready=False/UserDataMissing', scheduled, prepared, 'booted=False/UserDataMissing'],
    message: 'told: UserDataMissing',
  },
  {
    sentence: 'a guest that is paused for want of room',
    pod: unready,
    runner: observed({ state: failed('DiskFull', { retrying: true }) }),
    rows: ['ready=False/DiskFull', scheduled, prepared, 'booted=False/DiskFull'],
    message: 'told: DiskFull',
  },
  {
    sentence: 'a runner that boots its guest',
    pod: unready,
    runner: observed({ state: runnerState({ powerState: 'Stopped', reason: 'Starting' }) }),
    rows: [starting, scheduled, prepared, 'booted=False/Booting'],
  },
  {
    sentence: 'a ready pod is a running guest, without asking',
    pod: running,
    rows: [ready, scheduled, prepared, 'booted=True/Booted'],
    power: 'Running',
  },
  {
    sentence: 'a guest that answers',
    pod: running,
    runner: observed({ state: answered, podReady: true }),
    rows: [ready, scheduled, prepared, booted],
    power: 'Running',
  },
  {
    sentence: 'a guest that boots: QEMU runs, nobody can log in yet',
    pod: unready,
    runner: observed({ state: runnerState({ guestReady: false, readiness: 'Waiting' }) }),
    rows: ['ready=False/GuestNotReady', scheduled, prepared, booted],
    power: 'Running',
    message: 'the VM runs; its guest does not answer yet: SSH or guest agent',
  },
  {
    sentence: 'a guest that starts again, of which the kubelet has not heard',
    pod: aPod({ nodeName: 'n1', status: runningStatus(true) }),
    status: { powerState: 'Running' },
    runner: observed({
      state: runnerState({ guestReady: false, readiness: 'Waiting' }),
      podReady: true,
    }),
    rows: ['ready=False/GuestNotReady', scheduled, prepared, booted],
    power: 'Running',
  },
  {
    sentence: 'a guest that answers before the kubelet has heard of it',
    pod: unready,
    runner: observed({ state: answered }),
    rows: [ready, scheduled, prepared, booted],
    power: 'Running',
  },
  {
    sentence: 'a guest that has neither SSH nor agent, or never came up',
    pod: running,
    runner: observed({ state: runnerState({ guestReady: true, readiness: 'NotAnswering' }), podReady: true }),
    rows: ['ready=True/GuestNotAnswering', scheduled, prepared, booted],
    power: 'Running',
    message: 'the VM runs; its guest has not answered in time: SSH or guest agent',
  },
  {
    sentence: 'an answer from before the pod became ready is old',
    pod: running,
    runner: observed({ state: stopped('Requested'), podReady: false }),
    rows: [ready, scheduled, prepared, 'booted=True/Booted'],
    power: 'Running',
  },
  {
    sentence: 'stopped as requested',
    pod: unready,
    spec: { powerState: 'Stopped' },
    runner: observed({ state: stopped('Requested') }),
    rows: ['ready=True/Stopped', scheduled, prepared, 'booted=False/NotRunning'],
    power: 'Stopped',
  },
  {
    sentence: 'suspended as requested',
    pod: unready,
    spec: { powerState: 'Suspended' },
    runner: observed({ state: runnerState({ powerState: 'Suspended' }) }),
    rows: ['ready=True/Suspended', scheduled, prepared, 'booted=True/Booted'],
    power: 'Suspended',
  },
  ...(['start', 'stop', 'restart', 'suspend', 'resume', 'revert'] as const).map((verb) => ({
    sentence: `the verb ${verb} under way`,
    pod: running,
    runner: observed({ state: runnerState(), podReady: true, verb }),
    rows: [
      `ready=False/${{ start: 'Starting', stop: 'Stopping', restart: 'Restarting', suspend: 'Suspending', resume: 'Resuming', revert: 'Reverting' }[verb]}`,
      scheduled,
      prepared,
      'booted=True/Booted',
    ],
    power: 'Running',
  })),
  {
    sentence: 'a guest that shut itself down',
    pod: unready,
    status: { conditions: [aCondition('Ready')], powerState: 'Running' },
    runner: observed({ state: stopped('GuestShutdown') }),
    rows: ['ready=False/GuestStopped', scheduled, prepared, 'booted=False/NotRunning'],
    power: 'Stopped',
  },
  {
    sentence: 'a crash that the runner repairs',
    pod: unready,
    runner: observed({ state: failed('QemuCrashed', { retrying: true, restarts: 1 }) }),
    rows: ['ready=False/Crashed', scheduled, prepared, 'booted=False/QEMUFailed'],
    power: 'Failed',
    message: 'told: QemuCrashed',
  },
  ...(
    [
      ['DiskMissing', 'prepared=False/DiskFileMissing', 'booted=False/QEMUFailed'],
      ['ImageInvalid', 'prepared=False/DiskFileMissing', 'booted=False/QEMUFailed'],
      ['IsoMissing', 'prepared=False/DiskFileMissing', 'booted=False/QEMUFailed'],
      ['ArchitectureUnsupported', 'prepared=False/ArchitectureMismatch', 'booted=False/QEMUFailed'],
      ['AcceleratorFailed', prepared, 'booted=False/AcceleratorFailed'],
      ['GpuBusy', prepared, 'booted=False/GPUUnavailable'],
      ['GpuFailed', prepared, 'booted=False/GPUUnavailable'],
      ['OutOfMemory', prepared, 'booted=False/QEMUFailed'],
    ] as const
  ).map(([reason, preparedCondition, booted]) => ({
    sentence: `the runner's reason ${reason}`,
    pod: unready,
    status: { powerState: 'Running' as const },
    runner: observed({ state: failed(reason, { retrying: true }) }),
    rows: ['ready=False/Crashed', scheduled, preparedCondition, booted],
    power: 'Failed',
    message: `told: ${reason}`,
  })),
  {
    sentence: 'a crash beyond its restarts: nothing goes on by itself',
    pod: unready,
    status: { powerState: 'Running' },
    runner: observed({ state: failed('QemuCrashed', { restarts: 6 }) }),
    rows: [
      'ready=False/Crashed',
      scheduled,
      prepared,
      'booted=False/QEMUFailed',
      'stalled=True/RestartLimitExceeded',
    ],
    power: 'Failed',
    message: 'told: QemuCrashed',
  },
  {
    sentence: 'a crash beyond its restarts that is being mended',
    pod: unready,
    status: { powerState: 'Failed' },
    runner: observed({ state: failed('QemuCrashed', { restarts: 6 }), verb: 'start' }),
    rows: ['ready=False/Starting', scheduled, prepared, 'booted=False/QEMUFailed'],
    power: 'Failed',
  },
  {
    sentence: 'an image that has gone bad after the VM has run',
    pod: unready,
    status: { powerState: 'Running' },
    runner: observed({ state: failed('ImageInvalid') }),
    rows: [
      'ready=False/Crashed',
      scheduled,
      'prepared=False/DiskFileMissing',
      'booted=False/QEMUFailed',
      'stalled=True/DiskFileMissing',
    ],
    power: 'Failed',
    message: 'told: ImageInvalid',
  },
  {
    sentence: 'a GPU that is busy before the VM has ever run: no power state yet',
    pod: unready,
    runner: observed({ state: failed('GpuBusy', { retrying: true }) }),
    rows: ['ready=False/Crashed', scheduled, prepared, 'booted=False/GPUUnavailable'],
    message: 'told: GpuBusy',
  },
  ...(
    [
      ['DiskMissing', 'prepared=False/DiskFileMissing', 'booted=False/QEMUFailed', 'DiskFileMissing'],
      [
        'ArchitectureUnsupported',
        'prepared=False/ArchitectureMismatch',
        'booted=False/QEMUFailed',
        'ArchitectureMismatch',
      ],
      ['GpuMissing', prepared, 'booted=False/GPUUnavailable', 'GPUUnavailable'],
      ['FirmwareMissing', prepared, 'booted=False/QEMUFailed', 'QEMUFailed'],
    ] as const
  ).map(([reason, preparedCondition, booted, stalled]) => ({
    sentence: `the runner's reason ${reason} before the VM has ever run: nothing goes on by itself`,
    pod: unready,
    runner: observed({ state: failed(reason) }),
    rows: ['ready=False/Crashed', scheduled, preparedCondition, booted, `stalled=True/${stalled}`],
    message: `told: ${reason}`,
  })),
  {
    sentence: 'a runner that dies again and again',
    pod: bound(crashed),
    rows: ['ready=False/Crashed', scheduled, prepared, 'booted=False/QEMUFailed'],
    message: 'the runner ended: exit code 1: no space left',
  },
  {
    sentence: 'a runner that nobody can reach',
    pod: unready,
    runner: observed({ error: 'the runner at 10.0.0.1 does not answer' }),
    rows: ['ready=Unknown/RunnerUnreachable', scheduled, prepared, 'booted=False/Booting'],
    message: 'the runner at 10.0.0.1 does not answer',
  },
  {
    sentence: 'a runner that shows another certificate than before, of a pod that is Ready',
    pod: running,
    spec: { powerState: 'Stopped' },
    status: { powerState: 'Stopped', runner: { podUid: 'pod-uid' } },
    runner: observed({ podReady: true, isRefused: true, error: otherCertificate }),
    rows: ['ready=Unknown/RunnerUnreachable', scheduled, prepared, 'booted=False/NotRunning'],
    power: 'Stopped',
    message: otherCertificate,
  },
  {
    sentence: 'one that was told of, and has not been asked since this operator started',
    pod: running,
    status: refusedStatus,
    runner: observed(),
    rows: ['ready=Unknown/RunnerUnreachable', scheduled, prepared, booted],
    power: 'Running',
    message: otherCertificate,
  },
  {
    sentence: 'one that was told of, and shows the known certificate again',
    pod: running,
    status: refusedStatus,
    runner: observed({ state: answered, podReady: true }),
    rows: [ready, scheduled, prepared, booted],
    power: 'Running',
  },
  {
    sentence: 'the next pod of a VM of whose last one that was told',
    pod: running,
    status: { ...refusedStatus, runner: { podUid: 'before' } },
    runner: observed(),
    rows: [ready, scheduled, prepared, booted],
    power: 'Running',
  },
  {
    sentence: 'a Ready pod whose runner was unreachable for another reason before',
    pod: running,
    status: {
      ...refusedStatus,
      conditions: [
        aCondition('Ready', { status: 'Unknown', reason: 'RunnerUnreachable', message: 'silent' }),
      ],
    },
    runner: observed(),
    rows: [ready, scheduled, prepared, booted],
    power: 'Running',
  },
  {
    sentence: 'a node that does not answer and that has a runner with another certificate',
    pod: running,
    node: lostNode,
    status: refusedStatus,
    runner: observed({ podReady: true, isRefused: true, error: otherCertificate }),
    rows: ['ready=Unknown/NodeLost', scheduled, prepared, booted],
    power: 'Running',
    message: 'node n1 does not answer',
  },
  {
    sentence: 'a node that does not answer',
    pod: running,
    node: lostNode,
    rows: ['ready=Unknown/NodeLost', scheduled, prepared, 'booted=True/Booted'],
    power: 'Running',
    message: 'node n1 does not answer',
  },
  {
    sentence: 'a node that does not answer and whose pod is to be deleted',
    pod: aPod({
      nodeName: 'n1',
      status: runningStatus(true),
      metadata: { deletionTimestamp: '2026-11-01T10:05:00Z' },
    }),
    node: lostNode,
    rows: ['ready=Unknown/NodeLost', scheduled, prepared, 'booted=True/Booted'],
    power: 'Running',
    message:
      'node n1 does not answer; the VM is placed anew once its pod is gone: bring the node back, or say that it is off for good (taint node.kubernetes.io/out-of-service)',
  },
  {
    sentence: 'a request that does not exist for this VM',
    pod: unready,
    spec: { powerState: 'Suspended' },
    runner: observed({ state: stopped('Requested') }),
    rows: [
      'ready=False/PowerStateUnsupported',
      scheduled,
      prepared,
      'booted=False/NotRunning',
      'stalled=True/PowerStateUnsupported',
    ],
    power: 'Stopped',
  },
  {
    sentence: 'a revert that is still to be done',
    pod: running,
    spec: { revertRequest: 'r2' },
    status: { conditions: [] },
    runner: observed({ state: runnerState({ revertRequest: 'r1' }), podReady: true }),
    rows: ['ready=False/Reverting', scheduled, prepared, 'booted=True/Booted'],
    power: 'Running',
  },
];

const madeWith = (spec: object): Pod => {
  const pod = bound(runningStatus(true));
  const annotations = { ...pod.metadata.annotations, 'svc3.dev/runner-spec': JSON.stringify(spec) };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
};

const persistent = { ...effective, disk: { storage: 'Persistent' as const } };

describe('a VM that is to go on from its claim', () => {
  const status: VmStatus = { effective: persistent, powerState: 'Suspended', suspendedTo: 'Disk' };
  const fieldsOf = (given: Partial<Row>) =>
    draftOf({ sentence: '', rows: [], status, ...given }).draft.fields;
  const pulling = { ...waiting('ImagePullBackOff', 'denied'), podIP: '10.0.0.1' };

  test.each<[string, Pod]>([
    ['without a node', aPod()],
    ['on its node', aPod({ nodeName: 'n1' })],
    ['that has an address and pulls', aPod({ nodeName: 'n1', status: pulling })],
  ])('is suspended in a pod %s, and can be left so in the next one as well', (_what, pod) => {
    const fields = fieldsOf({ pod });
    expect(fields).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
    expect(fieldsOf({ pod, status: fields })).toMatchObject({ powerState: 'Suspended' });
    const again = aVm({ spec: { powerState: 'Suspended' }, status: fields });
    expect(isAsleep(again)).toBe(true);
    expect(pendingDraft(again, {}).fields).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
  });

  test.each<[string, Partial<Row>]>([
    ['in which it may have used its memory', { pod: aPod({ nodeName: 'n1', status: runningStatus(false) }) }],
    ['after one in which it may have', { status: { ...status, runner: { podUid: 'before' } } }],
  ])('is off in a pod %s', (_what, given) => {
    expect(fieldsOf(given)).toMatchObject({ powerState: 'Stopped', suspendedTo: 'Disk' });
  });
});

describe('where the memory of the guest is stays known', () => {
  const asleep: VmStatus = { effective: persistent, powerState: 'Suspended', suspendedTo: 'Disk' };
  const unready = aPod({ nodeName: 'n1', status: runningStatus(false) });
  const where = (given: Partial<Row>) =>
    draftOf({ sentence: '', rows: [], status: asleep, ...given }).draft.fields.suspendedTo;

  test.each<[string, Partial<Row>, string | undefined]>([
    ['while its next pod is made', {}, 'Disk'],
    [
      'while that pod is known and says nothing',
      { status: { ...asleep, runner: { podUid: 'pod-uid' } } },
      'Disk',
    ],
    ['while its runner begins', { pod: unready, runner: observed({ state: stopped('Starting') }) }, 'Disk'],
    [
      'while its runner cannot start it',
      { pod: unready, runner: observed({ state: failed('PortInUse') }) },
      'Disk',
    ],
    [
      'until it runs',
      { pod: running, runner: observed({ state: runnerState(), podReady: true }) },
      undefined,
    ],
    ['until its pod is ready', { pod: running }, undefined],
    ['until it is stopped', { pod: unready, runner: observed({ state: stopped('Requested') }) }, undefined],
  ])('%s', (_sentence, given, expected) => {
    expect(where(given)).toBe(expected);
  });
});

describe('what is asked for once', () => {
  const saying = (state: Partial<RunnerState>) => ({
    runner: observed({ state: runnerState(state), podReady: true }),
  });

  test.each<[string, Partial<Row>, string]>([
    ['a revert that the runner has carried out', saying({ revertRequest: 'b' }), 'Running'],
    ['a revert that was told of before', { status: { revertRequest: 'b' } }, 'Running'],
    ['a revert that the pod was made with', { pod: madeWith({ revertRequest: 'b' }) }, 'Running'],
    [
      'a revert that the pod was made with another of',
      { pod: madeWith({ revertRequest: 'a' }) },
      'Reverting',
    ],
    ['a revert that nobody has told of', {}, 'Reverting'],
    [
      'a revert of a disk that is older than the pod',
      { pod: madeWith({ revertRequest: 'b' }), status: { effective: persistent } },
      'Reverting',
    ],
  ])('%s is %s', (_what, given, reason) => {
    const { draft } = draftOf({
      sentence: '',
      rows: [],
      pod: running,
      spec: { revertRequest: 'b' },
      status: { conditions: [] },
      ...given,
    });
    expect(draft.conditions.ready.reason).toBe(reason);
  });

  test('is answered from the beginning where it is a revert that the VM was made with', () => {
    const given = { sentence: '', rows: [], pod: running, spec: { revertRequest: 'b' } };
    for (const state of [{}, { revertRequest: 'a' }]) {
      const { draft } = draftOf({ ...given, ...saying(state) });
      expect([draft.conditions.ready.reason, draft.fields.revertRequest]).toEqual(['Running', 'b']);
    }
  });

  test.each<[string, Partial<Row>, string]>([
    ['a restart that the runner has carried out', saying({ restartRequest: 'b' }), 'Running'],
    ['a restart that was told of before', { status: { restartRequest: 'b' } }, 'Running'],
    [
      'a restart that the first boot of the pod answers',
      { pod: madeWith({ restartRequest: 'b' }) },
      'Running',
    ],
    ['a restart that nobody has told of', {}, 'Restarting'],
    ...[{ onEviction: 'Suspend' as const }, { suspendTo: 'Disk' as const }].flatMap(
      (settings): [string, Partial<Row>, string][] => {
        const effective = { ...persistent, ...settings };
        const status = { effective, ...('suspendTo' in settings ? { suspendedTo: 'Disk' as const } : {}) };
        const given = { pod: madeWith({ restartRequest: 'b' }), status };
        const fromMemory = { warmStart: { fromMemory: true, reason: 'StartedFromMemory', message: '' } };
        return [
          ['a restart of a guest that may have gone on from its claim instead', given, 'Restarting'],
          [
            'a restart of a guest that has gone on from its claim instead',
            { ...given, ...saying(fromMemory) },
            'Restarting',
          ],
          [
            'a restart of such a guest that the runner has carried out',
            { ...given, ...saying({ ...fromMemory, restartRequest: 'b' }) },
            'Running',
          ],
          [
            'a restart of one that the runner has booted',
            { ...given, ...saying({ restartRequest: 'b' }) },
            'Running',
          ],
        ];
      },
    ),
  ])('%s is %s', (_what, given, reason) => {
    const { draft } = draftOf({
      sentence: '',
      rows: [],
      pod: running,
      spec: { restartRequest: 'b' },
      ...given,
    });
    expect(draft.conditions.ready.reason).toBe(reason);
    expect(draft.fields.restartRequest).toBe(reason === 'Running' ? 'b' : undefined);
  });
});

function draftOf({ pod = aPod(), node, spec, status, runner }: Row) {
  const vm = aVm({ ...(spec === undefined ? {} : { spec }), ...(status === undefined ? {} : { status }) });
  const inForce = status?.effective ?? effective;
  return { vm, draft: reportPod({ vm, pod, node, runner, effective: inForce, warnings: [] }) };
}

describe('what is reported of a pod', () => {
  test.each(table)('$sentence', (one) => {
    const { draft } = draftOf(one);
    const rows = Object.entries(draft.conditions).map(
      ([type, { status, reason }]) => `${type}=${status}/${reason}`,
    );
    expect(rows).toEqual(one.rows);
    expect(draft.fields.powerState).toBe(one.power);
    if (one.message !== undefined) expect(draft.conditions.ready.message).toBe(one.message);
  });

  test.each([
    [{ tcp: { port: 5432 } }, 'TCP port 5432'],
    [{ http: { port: 80, path: '/healthz' } }, 'HTTP port 80, path /healthz'],
    [{ guestAgent: {} }, 'guest agent'],
    [undefined, 'SSH or guest agent'],
  ])('of a guest that does not answer yet it is said what is asked: %o', (readiness, words) => {
    const runner = observed({ state: runnerState({ guestReady: false }) });
    const settings = { ...effective, ...(readiness === undefined ? {} : { readiness }) };
    const { conditions } = reportPod({
      vm: aVm(),
      pod: unready,
      node: undefined,
      runner,
      effective: settings,
      warnings: [],
    });
    expect(conditions.ready.message).toBe(`the VM runs; its guest does not answer yet: ${words}`);
  });

  test.each([
    [{ powerState: 'Stopped' } as const, 'Stopped' as const, 'the VM is stopped'],
    [{ powerState: 'Failed' } as const, 'Running' as const, 'QEMU ended'],
  ])('where the runner gives no words, %o has its own', (state, powerState, words) => {
    const told = { ...runnerState(state), message: undefined } as RunnerState;
    const { draft } = draftOf({
      sentence: '',
      rows: [],
      pod: unready,
      spec: { powerState },
      runner: observed({ state: told }),
    });
    expect(draft.conditions.booted?.message).toBe(words);
  });

  describe('that its node does not prepare', () => {
    const pod = bound({ conditions: [{ type: 'PodReadyToStartContainers', status: 'False' }] });
    const preparedOf = (unprepared: PodReport['unprepared'], status?: VmStatus) => {
      const vm = aVm(status === undefined ? {} : { status });
      const given = { vm, pod, node: undefined, runner: undefined, effective, warnings: [] };
      return reportPod({ ...given, unprepared }).conditions.prepared;
    };
    const usual = { status: 'False', reason: 'PullingImage', message: 'the node pulls the image' };
    const message =
      'node n1 has not prepared volumes and network of pod svc3-vm-web yet; the Events of the pod say more';
    const unprepared = { status: 'False', reason: 'PodNotPrepared', message };

    test('it is said after half a minute that nothing is pulled', () => {
      expect(preparedOf({ forMs: 29_999, isCertain: true })).toEqual(usual);
      expect(preparedOf({ forMs: 30_000, isCertain: true })).toEqual(unprepared);
    });

    test('it is said that nobody knows which where its kubelet tells of the image alone', () => {
      expect(preparedOf({ forMs: 29_999, isCertain: false })).toEqual(usual);
      expect(preparedOf({ forMs: 30_000, isCertain: false })).toEqual({
        status: 'False',
        reason: 'PullingImage',
        message:
          'node n1 pulls the image, or has not prepared volumes and network of pod svc3-vm-web yet; the Events of the pod say which',
      });
    });

    test('it goes on to be said by an operator that has just begun, of this node and no other', () => {
      const said = (node: string) => ({
        conditions: [
          aCondition('Prepared', {
            status: 'False',
            reason: 'PodNotPrepared',
            message: message.replace('n1', node),
          }),
        ],
      });
      expect(preparedOf({ forMs: 0, isCertain: true }, said('n1'))).toEqual(unprepared);
      expect(preparedOf({ forMs: 0, isCertain: true }, said('n2'))).toEqual(usual);
    });

    test('nothing else that is known of it is left out for that', () => {
      const failing = bound(waiting('ImagePullBackOff', 'no such image'));
      const given = { vm: aVm(), node: undefined, runner: undefined, effective, warnings: [] };
      const unprepared = { forMs: 60_000, isCertain: true };
      const { conditions } = reportPod({ ...given, pod: failing, unprepared });
      expect(conditions.prepared).toMatchObject({ reason: 'ImagePullFailed', message: 'no such image' });
    });
  });

  test('a guest that is off has the words of its runner', () => {
    const runner = observed({ state: stopped('GuestShutdown') });
    const { draft } = draftOf({ sentence: '', rows: [], pod: unready, runner });
    expect(draft.conditions.booted?.message).toBe('why it is off');
  });

  test('the accelerator of a pod that names another is not known', () => {
    const named = (accelerator: string) =>
      draftOf({ sentence: '', rows: [], pod: madeWith({ accelerator }) });
    expect(named('kvm').draft.fields.accelerator).toBe('kvm');
    expect(named('auto').draft.fields.accelerator).toBeUndefined();
  });

  test('the ports come from the pod', () => {
    expect(draftOf({ sentence: '', rows: [] }).draft.fields).toMatchObject({
      podName: 'svc3-vm-web',
      node: 'n1',
      ports: { ssh: 8822, screenshare: 5900 },
      accelerator: 'tcg',
    });
  });

  test('a guest that has run in this pod is not running while its runner starts it again', () => {
    const status: VmStatus = { powerState: 'Running', runner: { podUid: 'pod-uid', address: '10.0.0.1' } };
    const asked = observed({ state: runnerState({ powerState: 'Stopped', reason: 'Starting' }) });
    const powerOf = (runner?: RunnerObservation) =>
      draftOf({ sentence: '', rows: [], pod: unready, status, ...(runner === undefined ? {} : { runner }) })
        .draft.fields.powerState;
    expect([powerOf(), powerOf(asked)]).toEqual(['Running', 'Stopped']);
  });

  test('a VM that has run before keeps a power state while its new pod starts', () => {
    const { draft } = draftOf({ sentence: '', rows: [], status: { powerState: 'Running' } });
    expect(draft.fields.powerState).toBe('Stopped');
  });
});

describe('what is known of a VM', () => {
  const fieldsOf = (given: Partial<Row>) => draftOf({ sentence: '', rows: [], ...given }).draft.fields;

  test('is no more than its pod tells before anybody was asked', () => {
    expect(Object.keys(fieldsOf({})).sort()).toEqual([
      'accelerator',
      'effective',
      'node',
      'podName',
      'ports',
    ]);
  });

  test('has the internal address of its node', () => {
    const node: Node = {
      metadata: storedMeta({ name: 'n1' }),
      status: {
        addresses: [
          { type: 'ExternalIP', address: '198.51.100.1' },
          { type: 'InternalIP', address: '192.0.2.1' },
        ],
      },
    };
    expect(fieldsOf({ node }).ip).toBe('192.0.2.1');
  });

  const said = { revertRequest: 'v', startRequest: 's', restartRequest: 'r' };

  test('stays as it was told last while the runner says nothing', () => {
    const status: VmStatus = {
      powerState: 'Running',
      diskSize: '3Gi',
      diskGrowth: 'the disk has grown',
      accelerator: 'kvm',
      ...said,
    };
    const pod = aPod();
    delete pod.metadata.annotations?.['svc3.dev/runner-spec'];
    expect(fieldsOf({ pod, status })).toMatchObject({ ...status, powerState: 'Stopped' });
  });

  test('is what the runner says, before what was told', () => {
    const status: VmStatus = { diskSize: '3Gi', revertRequest: 'a', startRequest: 'b', restartRequest: 'c' };
    const state = runnerState({ powerState: 'Stopped', diskSize: 2 ** 32, ...said });
    expect(fieldsOf({ pod: unready, status, runner: observed({ state }) })).toMatchObject({
      ...said,
      diskSize: '4Gi',
    });
    const growth = { diskSize: 2 ** 31, message: '' };
    expect(fieldsOf({ pod: unready, status, runner: observed({ state, growth }) }).diskSize).toBe('4Gi');
  });

  test('of a request that is done stays so, also where the disk was restored from before it', () => {
    const state = runnerState({
      powerState: 'Stopped',
      revertRequest: 'a',
      startRequest: 'b',
      restartRequest: 'c',
    });
    const given = { pod: unready, spec: said, status: said, runner: observed({ state }) };
    expect(fieldsOf(given)).toMatchObject(said);
  });

  test.each([
    ['answered while the guest runs', 'Running', 's'],
    ['open while it is off', 'Stopped', undefined],
  ] as const)('of a start that is asked for: it is %s', (_sentence, powerState, answered) => {
    const runner = observed({ state: runnerState({ powerState }) });
    expect(fieldsOf({ pod: unready, spec: { startRequest: 's' }, runner }).startRequest).toBe(answered);
  });

  describe('how its guest was started, where the image has memory', () => {
    const told = { fromMemory: false, reason: 'CpuDiffers', message: 'another CPU' };
    const conditionsOf = (given: Partial<Row>) =>
      draftOf({ sentence: '', rows: [], ...given }).draft.conditions;

    test('is what the runner says', () => {
      const runner = observed({ state: runnerState({ powerState: 'Running', warmStart: told }) });
      const { warmStart } = conditionsOf({ pod: unready, runner });
      expect(warmStart).toEqual({ status: 'False', reason: 'CpuDiffers', message: 'another CPU' });
      expect(conditionsOf({ pod: unready })).not.toHaveProperty('warmStart');
    });

    test('is kept while the pod is the same, and forgotten with it', () => {
      const conditions = [aCondition('Ready'), aCondition('WarmStart', { reason: 'StartedFromMemory' })];
      const status = (podUid: string): VmStatus => ({ conditions, runner: { podUid, address: 'a' } });
      expect(conditionsOf({ status: status('pod-uid') }).warmStart).toMatchObject({ status: 'True' });
      expect(conditionsOf({ status: status('another') })).not.toHaveProperty('warmStart');
    });

    test('is a Warning where it could not be told who it is', () => {
      const after = (reason: string) => ({ conditions: [aCondition('WarmStart', { reason })] });
      const event = { type: 'Warning', reason: 'IdentityShared' };
      expect(eventsBetween(undefined, after('IdentityShared'))).toMatchObject([event]);
      expect(eventsBetween(undefined, after('StartedFromMemory'))).toEqual([]);
    });
  });

  test('of a pod that is left to kube-scheduler is what that says of it', () => {
    const saying = (reason: string) =>
      draftOf({
        sentence: '',
        rows: [],
        pod: unpinned([{ type: 'PodScheduled', status: 'False', reason, message: 'no room' }]),
      }).draft.conditions.scheduled?.message;
    expect(saying('Unschedulable')).toBe('no room');
    expect(saying('SchedulerError')).toBe('no room');
  });

  const disk = { whenDeleted: 'Retain' } as const;
  const [ofDisk, ofMemory] = [
    'disk.whenDeleted has no effect: the disk is Ephemeral and goes with its pod; only one with disk.storage Persistent is on a claim',
    'suspendTo: Disk keeps the VM from being suspended: the memory of a guest can only be on the claim of a Persistent disk',
  ];

  test.each<[what: string, spec: Partial<VmSpec>, frozen: Partial<EffectiveSettings>, told: string[]]>([
    ['asked for since', { disk, suspendTo: 'Disk' }, {}, [ofDisk, ofMemory]],
    ['asked for no more', { suspendTo: 'Memory' }, { disk, suspendTo: 'Disk' }, []],
    ['asked for by its VMConfig', { config: 'c' }, { disk }, [ofDisk]],
    ['had', { config: 'c', disk, suspendTo: 'Disk' }, { disk: { storage: 'Persistent' } }, []],
  ])('warns of what applies at once as it is now: %s', (_what, spec, frozen, told) => {
    const [vm, pod] = [aVm({ spec }), aPod()];
    const given = { vm, pod, node: undefined, runner: undefined, effective: { ...effective, ...frozen } };
    const report = (warnings: string[]) => reportPod({ ...given, warnings }).fields.warnings ?? [];
    expect(report(['mind'])).toEqual(['mind', ...told]);
    expect(report([ofDisk, 'mind', ofMemory])).toEqual(['mind', ...told]);
  });

  test('has the warnings', () => {
    const report = (warnings: string[]) =>
      reportPod({ vm: aVm(), pod: aPod(), node: undefined, runner: undefined, effective, warnings }).fields;
    expect(report(['mind'])).toMatchObject({ warnings: ['mind'] });
    expect(report([])).not.toHaveProperty('warnings');
  });

  describe('of its runner', () => {
    const runnerOf = (given: Partial<Row>) => fieldsOf(given).runner;
    const known = { podUid: 'pod-uid', address: '10.0.0.7', fingerprint: 'aa', version: '3' };

    test('is its pod, where it is, and who it is as far as that is known', () => {
      expect(runnerOf({ pod: running })).toEqual({ podUid: 'pod-uid', address: '10.0.0.1' });
      const runner = observed({ state: runnerState(), podReady: true, fingerprint: 'bb' });
      expect(runnerOf({ pod: running, runner })).toEqual({
        podUid: 'pod-uid',
        address: '10.0.0.1',
        fingerprint: 'bb',
        version: '1',
      });
    });

    test('was started when the one that has answered was, and as known before until one has', () => {
      const startedAt = '2026-11-01T10:00:01Z';
      const status = { runner: { ...known, startedAt } };
      const later = '2026-11-01T11:00:00Z';
      for (const [runner, expected] of [
        [observed({ state: runnerState(), podReady: true, startedAt: later }), later],
        [observed({ podReady: true, startedAt: later }), later],
        [observed(), startedAt],
      ] as const)
        expect(runnerOf({ pod: running, status, runner })?.startedAt).toBe(expected);
    });

    test('is kept while the pod is the same, also where it has no address for a while', () => {
      expect(runnerOf({ pod: aPod(), status: { runner: known } })).toEqual(known);
      expect(runnerOf({ pod: running, status: { runner: known } })).toEqual({
        ...known,
        address: '10.0.0.1',
      });
    });

    test('is nothing that was known of another pod', () => {
      const other = { ...known, podUid: 'before' };
      expect(runnerOf({ pod: aPod(), status: { runner: other } })).toBeUndefined();
      expect(runnerOf({ pod: running, status: { runner: other } })).toEqual({
        podUid: 'pod-uid',
        address: '10.0.0.1',
      });
    });
  });
});

test('what the installation refuses of a spec stalls the VM, whose guest runs on', () => {
  const { conditions, reconciling } = reportPod({
    vm: aVm(),
    pod: aPod({ nodeName: 'n1', status: runningStatus(true) }),
    node: undefined,
    runner: undefined,
    effective,
    warnings: [],
    refusal: 'gpuPassthrough: not here',
  });
  expect(conditions.stalled).toEqual({
    status: 'True',
    reason: 'GPUPassthroughDisabled',
    message: 'gpuPassthrough: not here; the VM goes on without it',
  });
  expect([conditions.ready.status, reconciling]).toEqual(['True', false]);
});

describe('a VM that was Stalled for what the installation refused of its spec', () => {
  const stalled = aCondition('Stalled', { reason: 'GPUPassthroughDisabled' });
  const report = (refusal?: string) =>
    reportPod({
      vm: aVm({
        spec: { powerState: 'Stopped' },
        status: {
          powerState: 'Stopped',
          runner: { podUid: 'pod-uid', address: '10.0.0.1' },
          conditions: [aCondition('Ready', { reason: 'Stopped' }), stalled],
        },
      }),
      pod: aPod({ nodeName: 'n1', status: runningStatus(false) }),
      node: undefined,
      runner: undefined,
      effective,
      warnings: [],
      ...(refusal === undefined ? {} : { refusal }),
    });

  test('is that no more when the installation allows it', () => {
    expect(report('not here').conditions.stalled).toMatchObject({ reason: 'GPUPassthroughDisabled' });
    expect(report().conditions.stalled).toBeUndefined();
  });

  test('is asked while it is on its way, as any other', () => {
    const { reconciling } = reportPod({
      vm: aVm(),
      pod: aPod({ nodeName: 'n1', status: runningStatus(false) }),
      node: undefined,
      runner: undefined,
      effective,
      warnings: [],
      refusal: 'not here',
    });
    expect(reconciling).toBe(true);
  });
});

describe('a change that waits for the next start of the guest', () => {
  const required = (waiting: string[], disk?: 'Persistent', resizeRefusal?: PodReport['resizeRefusal']) =>
    reportPod({
      vm: aVm(),
      pod: aPod(),
      node: undefined,
      runner: undefined,
      effective: disk === undefined ? effective : { ...effective, disk: { storage: disk } },
      warnings: [],
      waiting,
      ...(resizeRefusal === undefined ? {} : { resizeRefusal }),
    }).conditions.restartRequired;

  test('is told, and none is where there is none', () => {
    expect(required([])).toBeUndefined();
    expect(required(['display', 'cpu'])).toEqual({
      status: 'True',
      reason: 'SpecChanged',
      message: 'spec.display, spec.cpu apply when the guest is started next',
    });
  });

  test('needs another VM where it needs another pod and the disk is in this one', () => {
    expect(required(['display', 'tag'])).toEqual({
      status: 'True',
      reason: 'DeployAgain',
      message: 'spec.tag changed while the VM was being placed; deploy it again',
    });
    expect(required(['display', 'tag'], 'Persistent')).toMatchObject({ reason: 'SpecChanged' });
  });

  test('of a size that the node does not have says so, of the sizes only', () => {
    const refusal = { fields: ['cpu', 'memory'], message: 'no room' };
    expect(required(['display', 'cpu', 'memory'], undefined, refusal)).toEqual({
      status: 'True',
      reason: 'ResizeRefused',
      message:
        'spec.display, spec.cpu, spec.memory apply when the guest is started next; spec.cpu, spec.memory only once the pod can be resized: no room',
    });
  });
});

describe('the status that is written', () => {
  const now = new Date('2026-11-01T11:00:00Z');
  const made = draftOf({ sentence: '', rows: [], pod: aPod() });
  const first = statusOf(made.vm, made.draft, now);

  test('the size of a disk that has grown is known before the runner is asked again', () => {
    const growth = { diskSize: 2 ** 31, message: 'the disk has grown' };
    const flipped = observed({ state: runnerState({ diskSize: 2 ** 30 }), podReady: false, growth });
    const { draft } = draftOf({ sentence: '', rows: [], pod: running, runner: flipped });
    expect(draft.fields).toMatchObject({ diskSize: '2Gi', diskGrowth: 'the disk has grown' });
  });

  test.each([
    ['nothing of a growth before', { diskSize: 2 ** 30, message: 'the disk has grown' }, undefined],
    ['why it does not grow', { diskSize: 2 ** 30, message: 'no room', refusedBytes: 2 ** 31 }, 'no room'],
    ['nothing of another size', { diskSize: 2 ** 30, message: 'no room', refusedBytes: 2 ** 32 }, undefined],
  ])('a disk that is to grow has %s', (_, growth, diskGrowth) => {
    const { fields } = reportPod({
      vm: aVm({ spec: { disk: { size: '2Gi' } }, status: { diskSize: '1Gi', diskGrowth: 'before' } }),
      pod: running,
      node: undefined,
      runner: observed({ state: runnerState({ diskSize: 2 ** 30 }), growth }),
      effective,
      warnings: [],
    });
    expect(fields.diskGrowth).toBe(diskGrowth);
  });

  test('is the same object when nothing has changed', () => {
    const vm = aVm({ status: first });
    const { draft } = draftOf({ sentence: '', rows: [], pod: aPod() });
    expect(statusOf(vm, draft, new Date('2026-11-01T12:00:00Z'))).toBe(first);
  });

  test('keeps the times of conditions whose status stays', () => {
    const vm = aVm({ status: first });
    const { draft } = draftOf({ sentence: '', rows: [], pod: running });
    const second = statusOf(vm, draft, new Date('2026-11-01T12:00:00Z'));
    const times = Object.fromEntries(second.conditions?.map((c) => [c.type, c.lastTransitionTime]) ?? []);
    expect(times).toEqual({
      Ready: '2026-11-01T12:00:00Z',
      Scheduled: '2026-11-01T11:00:00Z',
      Prepared: '2026-11-01T12:00:00Z',
      Booted: '2026-11-01T12:00:00Z',
    });
  });

  test('has its conditions in the order in which a VM comes to be', () => {
    const known = (reason: string) => ({ status: 'True', reason, message: '' }) as const;
    const conditions = {
      portsMapped: known('a'),
      stalled: known('b'),
      restartRequired: known('c'),
      warmStart: known('w'),
      booted: known('d'),
      prepared: known('e'),
      scheduled: known('f'),
      ready: known('g'),
    };
    const { conditions: written } = statusOf(aVm(), { fields: {}, conditions, reconciling: false }, now);
    expect(written?.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Ready g',
      'Scheduled f',
      'Prepared e',
      'Booted d',
      'WarmStart w',
      'RestartRequired c',
      'Stalled b',
      'PortsMapped a',
    ]);
    expect(conditionsIn(written)).toEqual(conditions);
    expect(conditionsIn(written?.slice(1))).toBeUndefined();
    expect(conditionsIn(undefined)).toBeUndefined();
  });

  test('Reconciling goes when the VM is as requested', () => {
    expect(first.conditions?.map(({ type }) => type)).toContain('Reconciling');
    const { draft } = draftOf({ sentence: '', rows: [], pod: running });
    const second = statusOf(aVm({ status: first }), draft, now);
    expect(second.conditions?.map(({ type }) => type)).not.toContain('Reconciling');
  });

  test('a step on the way is no write of its own; the end is, and so is a failure', () => {
    const after = (pod: Pod) => {
      const { draft } = draftOf({ sentence: '', rows: [], pod });
      return statusOf(aVm({ status: first }), draft, now);
    };
    expect(differsOnlyInProgress(first, after(unready))).toBe(true);
    expect(differsOnlyInProgress(first, after(running))).toBe(false);
    expect(differsOnlyInProgress(first, after(bound(waiting('ErrImagePull', 'x'))))).toBe(false);
    expect(differsOnlyInProgress(undefined, first)).toBe(false);
  });

  describe('a VM that waits for somebody to act', () => {
    const final = { state: failed('QemuCrashed', { restarts: 6 }) };
    const crash = draftOf({ sentence: '', rows: [], pod: unready, runner: observed(final) });
    const stalled = statusOf(aVm(), crash.draft, now);
    const types = (status: VmStatus) => status.conditions?.map(({ type }) => type);

    test('is not called reconciling', () => {
      expect(types(stalled)).toEqual(['Ready', 'Scheduled', 'Prepared', 'Booted', 'Stalled']);
    });

    test('stays as it was told while its runner has not been asked', () => {
      const { vm, draft } = draftOf({ sentence: '', rows: [], pod: unready, status: stalled });
      expect(statusOf(vm, draft, now)).toBe(stalled);
    });

    test.each<[string, Partial<Row>]>([
      ['its pod is ready', { pod: running }],
      ['its node is lost', { node: lostNode }],
      ['its runner crashes', { pod: bound(crashed) }],
      ['it is started', { runner: observed({ verb: 'start' }) }],
      ['its runner answers', { runner: observed({ state: runnerState() }) }],
      ['its runner cannot be asked', { runner: observed({ error: 'no answer' }) }],
      ['its image cannot be pulled', { pod: bound(waiting('ErrImagePull', 'x')) }],
      ['its container cannot be created', { pod: bound(waiting('CreateContainerError', 'x')) }],
      [
        'its pod is another',
        { pod: aPod({ nodeName: 'n1', status: runningStatus(false), metadata: { uid: 'next' } }) },
      ],
    ])('is looked at anew when %s', (_sentence, news) => {
      const { vm, draft } = draftOf({ sentence: '', rows: [], pod: unready, status: stalled, ...news });
      expect(types(statusOf(vm, draft, now))).not.toContain('Stalled');
    });
  });

  test('a VM that does not run any more is not told as it was', () => {
    const { draft } = draftOf({ sentence: '', rows: [], pod: running });
    const ran = statusOf(aVm(), draft, now);
    const after = draftOf({ sentence: '', rows: [], pod: unready, status: ran }).draft;
    expect(after.conditions.ready).toMatchObject({ status: 'False' });
  });

  test('a condition Stalled=False, whoever wrote it, keeps no VM as it was told', () => {
    const { draft } = draftOf({ sentence: '', rows: [], pod: running });
    const ran = statusOf(aVm(), draft, now);
    const told = {
      ...ran,
      conditions: [...(ran.conditions ?? []), aCondition('Stalled', { status: 'False' })],
    };
    const after = draftOf({ sentence: '', rows: [], pod: unready, status: told }).draft;
    expect(after.conditions.ready).toMatchObject({ status: 'False' });
  });

  test('a VM that waits for somebody to act is looked at anew when its spec has changed', () => {
    const runner = observed({ state: failed('QemuCrashed', { restarts: 6 }) });
    const crash = draftOf({ sentence: '', rows: [], pod: unready, runner });
    const stalled = statusOf(aVm(), crash.draft, now);
    const anew = (status: VmStatus) =>
      reportPod({
        vm: aVm({ metadata: { generation: 2 }, status }),
        pod: unready,
        node: undefined,
        runner: undefined,
        effective,
        warnings: [],
      }).conditions.stalled;
    expect(anew(stalled)).toBeUndefined();
    const conditions = structuredClone(stalled.conditions ?? []);
    for (const one of conditions) if (one.type !== 'Stalled') one.observedGeneration = 2;
    expect(anew({ ...stalled, conditions })).toBeUndefined();
  });

  test.each<[string, Partial<Row>, boolean]>([
    ['a VM that starts', { pod: unready }, true],
    ['a VM that runs', { pod: running }, false],
    [
      'a crash that is repaired',
      { pod: unready, runner: observed({ state: failed('QemuCrashed', { retrying: true }) }) },
      true,
    ],
    [
      'a crash that is not',
      { pod: unready, runner: observed({ state: failed('QemuCrashed', { restarts: 6 }) }) },
      false,
    ],
    [
      'a guest that shut itself down',
      { pod: unready, runner: observed({ state: stopped('GuestShutdown') }) },
      false,
    ],
  ])('svc3 works on %s: %s', (_what, given, expected) => {
    expect(draftOf({ sentence: '', rows: [], ...given }).draft.reconciling).toBe(expected);
  });

  test('events tell of transitions, once', () => {
    const { draft } = draftOf({ sentence: '', rows: [], pod: running });
    const second = statusOf(aVm({ status: first }), draft, now);
    expect(eventsBetween(undefined, first).map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Normal Scheduled',
    ]);
    expect(eventsBetween(first, second).map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Normal Booted',
    ]);
    expect(eventsBetween(second, second)).toEqual([]);
    const broken = draftOf({
      sentence: '',
      rows: [],
      status: second,
      pod: bound(waiting('ErrImagePull', 'x')),
    });
    const third = statusOf(aVm({ status: second }), broken.draft, now);
    expect(eventsBetween(second, third).map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Warning ImagePullFailed',
    ]);
  });

  describe('the disk that goes with its pod is told once', () => {
    const ran: VmStatus = {
      ...statusOf(aVm(), draftOf({ sentence: '', rows: [], pod: running }).draft, now),
      runner: { podUid: 'pod-uid', address: '10.0.0.1' },
    };
    const { runner: _runner, podName: _podName, ...gone } = ran;
    const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
    const lost =
      'the changes to the disk went with pod svc3-vm-web on node n1 (spec.disk.storage is Ephemeral): the VM boots fresh from its image';
    test.each<{ sentence: string; before: VmStatus; after: VmStatus; told: string[] }>([
      { sentence: 'an Ephemeral disk whose pod goes', before: ran, after: gone, told: [lost] },
      {
        sentence: 'an Ephemeral disk whose pod was gone before anybody looked',
        before: ran,
        after: { ...ran, runner: { podUid: 'next', address: '10.0.0.2' } },
        told: [lost],
      },
      {
        sentence: 'what was told already',
        before: gone,
        after: { ...ran, runner: { podUid: 'next', address: '10.0.0.2' } },
        told: [],
      },
      {
        sentence: 'a pod that has another address after its node restarted',
        before: ran,
        after: { ...ran, runner: { podUid: 'pod-uid', address: '10.0.0.9' } },
        told: [],
      },
      {
        sentence: 'a Persistent disk',
        before: { ...ran, effective: persistent },
        after: { ...gone, effective: persistent },
        told: [],
      },
    ])('$sentence', ({ before, after, told }) => {
      const events = eventsBetween(before, after).filter(({ reason }) => reason === 'DiskReset');
      expect(events.map(({ message }) => message)).toEqual(told);
    });
  });
});

describe('what the guest runs on, where its memory may lie on its claim', () => {
  const onClaim = { ...effective, disk: { storage: 'Persistent' }, onEviction: 'Suspend' } as const;
  const annotations = {
    'svc3.dev/hardware': JSON.stringify({ cpu: { model: 'CPU', flags: ['avx', 'sse'] } }),
  };
  const node: Node = { metadata: storedMeta({ name: 'n1', annotations }) };
  const kvmPod = aPod({ status: runningStatus(true) });
  const spec = JSON.stringify({ accelerator: 'kvm' });
  const pod: Pod = {
    ...kvmPod,
    metadata: { ...kvmPod.metadata, annotations: { 'svc3.dev/runner-spec': spec } },
  };
  const before = { accelerator: 'kvm', cpuModel: 'CPU before', cpuFlags: 'sse' } as const;
  const hostOf = (given: Partial<Parameters<typeof reportPod>[0]>) =>
    reportPod({ vm: aVm(), pod, node, runner: undefined, effective: onClaim, warnings: [], ...given }).fields
      .memoryHost;

  test('is that of its node', () => {
    expect(hostOf({})).toEqual({ accelerator: 'kvm', cpuModel: 'CPU', cpuFlags: 'avx sse' });
    expect(hostOf({ pod: aPod({ status: runningStatus(true) }) })).toEqual({ accelerator: 'tcg' });
  });

  test('is that of the node before until the guest goes on, and while nothing is known of the new one', () => {
    const vm = (status: VmStatus) => aVm({ status: { memoryHost: before, ...status } });
    expect(hostOf({ vm: vm({ suspendedTo: 'Disk' }) })).toEqual(before);
    expect(hostOf({ vm: vm({}), node: undefined })).toEqual(before);
  });

  test('is that of the pod before until the guest runs in this one, and nothing where it has left no memory', () => {
    const evicted: VmStatus = { effective: onClaim, powerState: 'Running', memoryHost: before };
    const next = { ...pod, status: runningStatus(false) };
    const inNext = (spec: Partial<VmSpec>, status: VmStatus, isSavedFirst = false) =>
      hostOf({ vm: aVm({ spec, status: { ...evicted, ...status } }), pod: next, isSavedFirst });
    expect(inNext({}, {})).toEqual(before);
    expect(inNext({}, { powerState: 'Stopped', runner: { podUid: 'pod-uid' } })).toEqual(before);
    expect(inNext({ revertRequest: 'r1' }, {})).toBeUndefined();
    expect(inNext({ revertRequest: 'r1' }, {}, true)).toEqual(before);
    expect(hostOf({ pod: next })).toBeUndefined();
  });

  test('stays while the guest is suspended', () => {
    const state = (suspendKind: string) => runnerState({ powerState: 'Suspended', suspendKind });
    const vm = aVm({ spec: { powerState: 'Suspended', suspendTo: 'Disk' }, status: { memoryHost: before } });
    const suspended = (kind: string) =>
      hostOf({
        vm,
        pod: { ...pod, status: runningStatus(false) },
        effective: { ...onClaim, onEviction: 'Shutdown' },
        runner: observed({ state: state(kind) }),
      });
    expect(suspended('Disk')).toEqual(before);
    expect(suspended('Memory')).toMatchObject({ cpuModel: 'CPU' });
  });

  test.each<[string, RunnerState, boolean]>([
    ['was stopped', stopped('Requested'), false],
    ['has shut itself down', stopped('GuestShutdown'), false],
    ['is to be started', stopped('Starting'), true],
    ['is being ended with its pod', stopped('ShuttingDown'), true],
    ['cannot be started', failed('UserDataMissing'), true],
  ])('of a guest that %s', (_sentence, state, isKnown) => {
    const status: VmStatus = { effective: onClaim, powerState: 'Stopped', memoryHost: before };
    const given = { vm: aVm({ status }), pod: { ...pod, status: runningStatus(false) } };
    expect(hostOf({ ...given, runner: observed({ state }) })).toEqual(isKnown ? before : undefined);
  });

  test('is nobody’s business where the memory ends with the pod', () => {
    expect(hostOf({ effective })).toBeUndefined();
    expect(hostOf({ effective: { ...onClaim, onEviction: 'Shutdown' } })).toBeUndefined();
  });
});

test('a VM that is to be stopped is not called so while nothing has started in its pod, whose guest may go on first', () => {
  const status: VmStatus = { powerState: 'Stopped', runner: { podUid: 'pod-uid' } };
  const vm = aVm({ spec: { powerState: 'Stopped' }, status });
  const ready = (pod: Pod) =>
    reportPod({ vm, pod, node: undefined, runner: undefined, effective, warnings: [] }).conditions.ready;
  expect(ready(aPod())).toMatchObject({ status: 'False', reason: 'Stopping' });
  expect(ready(aPod({ status: runningStatus(false) }))).toMatchObject({ status: 'True', reason: 'Stopped' });
});

describe('where a VM is', () => {
  const node: Node = {
    metadata: storedMeta({ name: 'n1' }),
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
  };
  const where = (pod: Pod, settings: typeof effective, status?: VmStatus) => {
    const vm = aVm(status === undefined ? {} : { status });
    const { fields } = reportPod({ vm, pod, node, runner: undefined, effective: settings, warnings: [] });
    return [fields.node, fields.ip];
  };
  const known: VmStatus = { node: 'n0', ip: '192.0.2.9' };
  const onClaim = { ...effective, disk: { storage: 'Persistent' as const } };

  test('is the node that its pod is to have', () => {
    expect(where(aPod(), effective, known)).toEqual(['n1', '192.0.2.1']);
    expect(where(aPod(), onClaim)).toEqual(['n1', '192.0.2.1']);
  });

  test('stays the node of its volume until another has its pod', () => {
    expect(where(aPod(), onClaim, known)).toEqual(['n0', '192.0.2.9']);
    expect(where(aPod({ nodeName: 'n1' }), onClaim, known)).toEqual(['n1', '192.0.2.1']);
  });
});
