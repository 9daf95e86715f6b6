import { describe, expect, test } from 'vitest';
import type { Node, PersistentVolumeClaim, Pod } from '../../../../src/api/core.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { ObjectMeta } from '../../../../src/api/object.ts';
import { decide, type Observed, savingMessage } from '../../../../src/controllers/vm/decide.ts';
import { buildPod } from '../../../../src/controllers/vm/pod/pod.ts';
import { runnerPullsWith, type VmSettings } from '../../../../src/controllers/vm/settings.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { vmSettings } from '../../../support/operator.ts';
import { aPod, aVm, effective, podInput, runningStatus } from './builders.ts';

const now = Date.parse('2026-11-01T10:01:00Z');
const deleted = '2026-11-01T10:00:30Z';
const foreign = [{ apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'web', uid: 'before', controller: true }];

const believed = { kind: 'resolved', effective, warnings: [] } as const;

interface Row {
  sentence: string;
  vm?: Vm;
  pod?: Pod;
  settings?: Observed['settings'];
  node?: Node;
  claim?: PersistentVolumeClaim;
  pullSecretVersion?: string;
  more?: Partial<Observed>;
  plan: object;
}

/** The pod of the VM once the garbage collector has taken its owner away; `uid`: of the VM that it was made for. */
function orphaned(metadata: ObjectMeta = {}, uid = 'vm-uid'): Pod {
  const { annotations, labels } = aPod().metadata;
  const told = JSON.stringify({ ...JSON.parse(annotations?.['svc3.dev/runner-spec'] ?? ''), vm: { uid } });
  return aPod({
    metadata: {
      labels: { ...labels },
      annotations: { ...annotations, 'svc3.dev/runner-spec': told },
      ownerReferences: [],
      ...metadata,
    },
  });
}

const going = aVm({ metadata: { deletionTimestamp: deleted, finalizers: ['svc3.dev/cleanup'] } });
const goingUnsaved = aVm({
  metadata: { ...going.metadata, annotations: { 'svc3.dev/delete-without-saving': 'true' } },
});
const asleep = aVm({
  spec: { powerState: 'Suspended' },
  status: { powerState: 'Suspended', suspendedTo: 'Disk' },
});
const pullsWith = runnerPullsWith(vmSettings());
const calm = {
  surplus: undefined,
  pullsWith,
  isNodeLost: false,
  unprepared: undefined,
  unsaved: [],
  isSavedFirst: false,
  saveWaitMs: 3_600_000,
};

const ofPool = { image: undefined, cpu: undefined, memory: undefined, pool: 'ci' } as const;
const goingPod = aPod({ metadata: { deletionTimestamp: deleted, ownerReferences: foreign } });

const notBound = (reason: string, message: string, lastTransitionTime: string) => ({
  type: 'PodScheduled',
  status: 'False',
  reason,
  message,
  lastTransitionTime,
});
const unprovisioned =
  'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "svc3-vm-web"';

/** A pod with a claim that kube-scheduler says this of. */
function onVolume(condition: ReturnType<typeof notBound>): Pod {
  const pod = aPod({ status: { conditions: [condition] } });
  const state = { name: 'state', persistentVolumeClaim: { claimName: 'svc3-vm-web' } };
  return { ...pod, spec: { ...pod.spec, volumes: [state] } };
}

const rows: Row[] = [
  {
    sentence:
      'a new VM of a pool does not wait for the pod of the one before it: a guest of the pool has another',
    vm: aVm({ spec: ofPool }),
    pod: goingPod,
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'nor for a pod of its name that is none of ours',
    vm: aVm({ spec: ofPool }),
    pod: aPod({ metadata: { ownerReferences: foreign } }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a VM of a pool that is to have a pod of its own waits for the one before',
    vm: aVm({ spec: ofPool, status: { podName: 'svc3-vm-web' } }),
    pod: goingPod,
    plan: { kind: 'wait' },
  },
  {
    sentence: 'and so does one that has run',
    vm: aVm({ spec: ofPool, status: { podName: 'svc3-pool-1', powerState: 'Stopped' } }),
    pod: goingPod,
    plan: { kind: 'wait' },
  },
  { sentence: 'a VM without a pod is deployed', plan: { kind: 'deploy' } },
  {
    sentence: 'a VM whose memory is on its claim needs no pod',
    vm: asleep,
    plan: { kind: 'asleep' },
  },
  {
    sentence: 'a VM that is to go on from its claim is deployed',
    vm: aVm({ spec: { powerState: 'Running' }, ...(asleep.status && { status: asleep.status }) }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a VM whose memory was in its pod is deployed',
    vm: aVm({
      spec: { powerState: 'Suspended' },
      status: { powerState: 'Suspended', suspendedTo: 'Memory' },
    }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a revert of a VM whose memory is on its claim takes a pod',
    vm: aVm({
      spec: { powerState: 'Suspended', revertRequest: 'now' },
      ...(asleep.status && { status: asleep.status }),
    }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a deleted VM whose memory is on its claim is let go',
    vm: aVm({ ...going, ...(asleep.status && { status: asleep.status }) }),
    plan: { kind: 'finalize', isHeld: true },
  },
  { sentence: 'a VM with its pod is reported', pod: aPod(), plan: { kind: 'report' } },
  {
    sentence: 'a VM that is being deleted is let go where it has no guest, before anything else',
    vm: aVm({ metadata: { deletionTimestamp: deleted, finalizers: ['svc3.dev/cleanup', 'other/one'] } }),
    plan: { kind: 'finalize', isHeld: true },
  },
  {
    sentence: 'the guest of a VM that is being deleted ends first',
    vm: going,
    pod: aPod(),
    plan: { kind: 'end', endsAt: Date.parse(deleted) + 3_600_000 },
  },
  {
    sentence: 'a guest that is ending is waited for',
    vm: going,
    pod: aPod({ metadata: { deletionTimestamp: deleted } }),
    plan: { kind: 'ending' },
  },
  {
    sentence: 'the guest of a VM that is deleted with --cascade=orphan ends as any does',
    vm: going,
    pod: orphaned(),
    plan: { kind: 'end', endsAt: Date.parse(deleted) + 3_600_000 },
  },
  {
    sentence: 'is kept as any is while its disk is being saved',
    vm: going,
    pod: orphaned(),
    more: { unsaved: ['saved'] },
    plan: { kind: 'hold', settings: believed },
  },
  {
    sentence: 'and is waited for as any is',
    vm: going,
    pod: orphaned({ deletionTimestamp: deleted }),
    plan: { kind: 'ending' },
  },
  {
    sentence: 'a VM that is being deleted leaves the pod alone that was made for a VM of its name before',
    vm: going,
    pod: orphaned({}, 'before'),
    plan: { kind: 'finalize', isHeld: true },
  },
  {
    sentence: 'and one that only has the name',
    vm: going,
    pod: orphaned({ labels: { app: 'web' } }),
    plan: { kind: 'finalize', isHeld: true },
  },
  {
    sentence: 'a guest that nobody ends, its node being lost, is not waited for',
    vm: going,
    pod: aPod({ metadata: { deletionTimestamp: deleted } }),
    more: { isNodeLost: true },
    plan: { kind: 'finalize', isHeld: true },
  },
  {
    sentence: 'the pod of somebody else is not waited for',
    vm: going,
    pod: aPod({ metadata: { ownerReferences: foreign } }),
    plan: { kind: 'finalize', isHeld: true },
  },
  {
    sentence: 'a deletion waits until the disk is saved',
    vm: going,
    pod: aPod(),
    more: { unsaved: ['a', 'b'] },
    plan: {
      kind: 'hold',
      message:
        'the VM is being deleted; it waits until images a, b are saved, at most until 2026-11-01T11:00:30Z',
      leftMs: 3_570_000,
    },
  },
  {
    sentence: 'a deletion does not wait longer than it may, for all that our clock says',
    vm: going,
    pod: aPod(),
    more: { unsaved: ['a'], saveWaitMs: 30_000 },
    plan: { kind: 'end', endsAt: Date.parse(deleted) + 30_000 },
  },
  {
    sentence: 'a deletion does not wait where somebody says so',
    vm: goingUnsaved,
    pod: aPod(),
    more: { unsaved: ['a'] },
    plan: { kind: 'end', endsAt: undefined },
  },
  {
    sentence: 'a deletion does not wait for a pod that has ended, of which nothing is saved any more',
    vm: going,
    pod: aPod({ status: { phase: 'Failed', reason: 'Evicted' } }),
    more: { unsaved: ['a'] },
    plan: { kind: 'end', endsAt: undefined },
  },
  {
    sentence:
      'a VM whose disk is still to be saved is let go without a pod, with the time until when that is waited for',
    vm: going,
    more: { unsaved: ['a'] },
    plan: { kind: 'finalize', isHeld: true, endsAt: Date.parse(deleted) + 3_600_000 },
  },
  {
    sentence: 'or without one where somebody says so',
    vm: goingUnsaved,
    more: { unsaved: ['a'] },
    plan: { kind: 'finalize', isHeld: true, endsAt: undefined },
  },
  {
    sentence: 'without our finalizer there is nothing to write',
    vm: aVm({ metadata: { deletionTimestamp: deleted, finalizers: ['other/one'] } }),
    plan: { kind: 'finalize', isHeld: false },
  },
  {
    sentence: 'a VM that did not boot in time is given up',
    vm: aVm({ spec: { startDeadlineSeconds: 60 }, status: { conditions: [] } }),
    pod: aPod(),
    plan: {
      kind: 'expire',
      message: 'the VM did not boot within 60 seconds and is deleted',
      otherwise: { kind: 'report' },
    },
  },
  {
    sentence: 'a VM of which nothing was reported yet, as after an outage, is tried first',
    vm: aVm({ spec: { startDeadlineSeconds: 60 }, status: { observedGeneration: 0 } }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a VM whose pod is ready is never given up, though no status says so yet',
    vm: aVm({ spec: { startDeadlineSeconds: 60 }, status: { conditions: [] } }),
    pod: aPod({ nodeName: 'n1', status: runningStatus(true) }),
    plan: { kind: 'report' },
  },
  {
    sentence: 'a VM that has booted once is never given up',
    vm: aVm({ spec: { startDeadlineSeconds: 60 }, status: { powerState: 'Stopped' } }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a deadline that is brought forward after the settings froze holds',
    vm: aVm({
      spec: { config: 'c', startDeadlineSeconds: 1 },
      status: { effective: { ...effective, startDeadlineSeconds: 600 } },
    }),
    plan: { kind: 'expire', message: 'the VM did not boot within 1 seconds and is deleted' },
  },
  {
    sentence: 'the deadline of a VMConfig holds where the VM has none',
    vm: aVm({
      spec: { config: 'c' },
      status: { effective: { ...effective, startDeadlineSeconds: 60 } },
    }),
    plan: { kind: 'expire', message: 'the VM did not boot within 60 seconds and is deleted' },
  },
  {
    sentence: 'a VM is not given up early',
    vm: aVm({ spec: { startDeadlineSeconds: 61 }, status: { conditions: [] } }),
    plan: { kind: 'deploy' },
  },
  {
    sentence: 'a pod whose settings are not believed is a conflict',
    pod: aPod(),
    settings: { kind: 'contradicted', message: 'its annotation cannot be read' },
    plan: { kind: 'conflict', message: 'its annotation cannot be read' },
  },
  {
    sentence: 'a pod on its way out is waited for, with its settings',
    pod: aPod({ metadata: { deletionTimestamp: deleted } }),
    plan: { kind: 'wait', settings: believed },
  },
  {
    sentence: 'of a pod on its way out settings that are not believed are not told',
    pod: aPod({ metadata: { deletionTimestamp: deleted } }),
    settings: { kind: 'contradicted', message: 'its annotation cannot be read' },
    plan: { kind: 'wait', settings: undefined },
  },
  {
    sentence: 'of a guest that ends settings that are not believed are not told',
    vm: going,
    pod: aPod(),
    settings: { kind: 'contradicted', message: 'its annotation cannot be read' },
    plan: { kind: 'end', settings: undefined },
  },
  {
    sentence: 'the pod of a VM of the same name that was before is a conflict',
    pod: aPod({ metadata: { ownerReferences: foreign } }),
    plan: { kind: 'conflict', message: 'pod svc3-vm-web exists and does not belong to this VM' },
  },
  {
    sentence: 'such a pod on its way out is waited for',
    pod: aPod({ metadata: { ownerReferences: foreign, deletionTimestamp: deleted } }),
    plan: { kind: 'wait' },
  },
  {
    sentence: 'a pod that owns itself to nobody is a conflict',
    pod: orphaned({ labels: { app: 'web' } }),
    plan: { kind: 'conflict' },
  },
  {
    sentence: 'and so is what was left of a VM of the same name',
    pod: orphaned({}, 'before'),
    plan: { kind: 'conflict' },
  },
  {
    sentence: 'which is waited for once it ends',
    pod: orphaned({ deletionTimestamp: deleted }, 'before'),
    plan: { kind: 'wait', settings: undefined },
  },
  {
    sentence: 'the pod of a VM whose deletion is seen later than that its owner is gone is its own',
    pod: orphaned(),
    plan: { kind: 'report' },
  },
  {
    sentence: 'an owner that is not the controller is no owner',
    pod: orphaned({ ownerReferences: [{ ...foreign[0]!, uid: 'vm-uid', controller: false }] }, 'before'),
    plan: { kind: 'conflict' },
  },
  {
    sentence: 'the own pod on its way out is waited for',
    pod: aPod({ metadata: { deletionTimestamp: deleted } }),
    plan: { kind: 'wait' },
  },
  {
    sentence: 'a pod that the kubelet rejected is replaced, with its words',
    pod: aPod({
      nodeName: 'n1',
      status: { phase: 'Failed', reason: 'OutOfcpu', message: 'Node did not have enough' },
    }),
    plan: {
      kind: 'replace',
      reason: 'RejectedByNode',
      node: 'n1',
      message: 'OutOfcpu: Node did not have enough',
    },
  },
  {
    sentence: 'a pinned pod that kube-scheduler refuses is replaced',
    pod: aPod({
      status: {
        conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/1 …' }],
      },
    }),
    plan: { kind: 'replace', reason: 'Unschedulable', node: 'n1', message: '0/1 …' },
  },
  {
    sentence: 'one for which it makes room on its node is waited for',
    pod: aPod({
      status: {
        nominatedNodeName: 'n1',
        conditions: [notBound('Unschedulable', 'Insufficient cpu', '2026-11-01T10:00:00Z')],
      },
    }),
    plan: { kind: 'report', lookAgainMs: 240_000 },
  },
  {
    sentence: 'but not for ever: what is to end there may never end',
    pod: aPod({
      status: {
        nominatedNodeName: 'n1',
        conditions: [notBound('Unschedulable', 'Insufficient cpu', '2026-11-01T09:56:00Z')],
      },
    }),
    plan: { kind: 'replace', reason: 'Unschedulable', node: 'n1', message: 'Insufficient cpu' },
  },
  {
    sentence: 'and not once it has given that up',
    pod: aPod({
      status: {
        nominatedNodeName: '',
        conditions: [notBound('Unschedulable', 'Insufficient cpu', '2026-11-01T10:00:59Z')],
      },
    }),
    plan: { kind: 'replace', reason: 'Unschedulable' },
  },
  {
    sentence: 'a pod whose volume cannot be made for its node is given another one',
    pod: onVolume(notBound('SchedulerError', unprovisioned, '2026-11-01T10:00:30Z')),
    plan: { kind: 'replace', reason: 'Unschedulable', node: 'n1', message: unprovisioned },
  },
  {
    sentence: 'but not at once: kube-scheduler tries again, and it may pass',
    pod: onVolume(notBound('SchedulerError', unprovisioned, '2026-11-01T10:00:40Z')),
    plan: { kind: 'report', lookAgainMs: 10_000 },
  },
  {
    sentence: 'an error of kube-scheduler about something else is not of the node',
    pod: onVolume(notBound('SchedulerError', 'the server was unable to respond', '2026-11-01T09:00:00Z')),
    plan: { kind: 'report', lookAgainMs: undefined },
  },
  {
    sentence: 'nor is one of a pod without claims',
    pod: aPod({
      status: { conditions: [notBound('SchedulerError', unprovisioned, '2026-11-01T09:00:00Z')] },
    }),
    plan: { kind: 'report', lookAgainMs: undefined },
  },
  {
    sentence: 'a pod that somebody gates is left alone',
    pod: aPod({ status: { conditions: [notBound('SchedulingGated', 'gated', '2026-11-01T09:00:00Z')] } }),
    plan: { kind: 'report', lookAgainMs: undefined },
  },
  {
    sentence: 'a pod that kube-scheduler has not looked at yet is left alone',
    pod: aPod({ status: { phase: 'Pending' } }),
    plan: { kind: 'report' },
  },
  {
    sentence: 'a pod that cannot pull is made anew when there is a new pull Secret',
    pod: aPod({
      nodeName: 'n1',
      status: {
        containerStatuses: [
          {
            name: 'runner',
            ready: false,
            restartCount: 0,
            image: '',
            imageID: '',
            state: { waiting: { reason: 'ImagePullBackOff', message: 'denied' } },
          },
        ],
      },
    }),
    pullSecretVersion: '7',
    plan: { kind: 'replace', reason: 'PullRetry', message: 'denied' },
  },
  {
    sentence: 'a pod that cannot pull is left alone where the pull Secret is the one it was made with',
    pod: aPod({
      nodeName: 'n1',
      metadata: { annotations: { 'svc3.dev/pull-secret-version': '7', 'svc3.dev/pulls-with': pullsWith } },
      status: {
        containerStatuses: [
          {
            name: 'runner',
            ready: false,
            restartCount: 0,
            image: '',
            imageID: '',
            state: { waiting: { reason: 'ErrImagePull' } },
          },
        ],
      },
    }),
    pullSecretVersion: '7',
    plan: { kind: 'report' },
  },
  {
    sentence: 'a pod that has run before and pulls again keeps its disk',
    pod: aPod({
      nodeName: 'n1',
      status: {
        containerStatuses: [
          {
            name: 'runner',
            ready: false,
            restartCount: 1,
            image: '',
            imageID: '',
            state: { waiting: { reason: 'ErrImagePull' } },
          },
        ],
      },
    }),
    pullSecretVersion: '7',
    plan: { kind: 'report' },
  },
  {
    sentence: 'a running pod is left alone when the pull Secret changes',
    pod: aPod({ nodeName: 'n1', status: runningStatus(true) }),
    pullSecretVersion: '8',
    plan: { kind: 'report' },
  },
];

/** A pod on n1 of an installation with these settings, in which nothing has started for this reason. */
function aHeldUp(reason: string, given: Partial<VmSettings> = {}, restartCount = 0): Pod {
  const built = buildPod(podInput({ settings: vmSettings(given) }));
  const container = { name: 'runner', ready: false, restartCount, image: '', imageID: '' };
  const state = { waiting: { reason, message: 'why' } };
  return {
    ...built,
    metadata: storedMeta(built.metadata),
    spec: { ...built.spec, nodeName: 'n1' },
    status: { phase: 'Pending', containerStatuses: [{ ...container, state }] },
  };
}

const badRunner = { runnerImage: 'registry.example.com/svc3-runner:bad' };
const ofBefore = aHeldUp('ErrImagePull');
const { 'svc3.dev/pulls-with': _pullsWith, ...unsaid } = ofBefore.metadata.annotations ?? {};

rows.push(
  ...[badRunner, { runnerImagePullPolicy: 'Never' as const }, { runnerPullSecret: 'registry' }].map(
    (given) => ({
      sentence: `a pod that cannot pull is made anew where the installation has another than ${JSON.stringify(given)}`,
      pod: aHeldUp('ImagePullBackOff', given),
      plan: { kind: 'replace', reason: 'PullRetry', node: 'n1', message: 'why' },
    }),
  ),
  {
    sentence: 'so is one that a version before has made, which does not say what it pulls with',
    pod: { ...ofBefore, metadata: { ...ofBefore.metadata, annotations: unsaid } },
    plan: { kind: 'replace', reason: 'PullRetry' },
  },
  {
    sentence: 'so is one whose container cannot be made from another runner image',
    pod: aHeldUp('CreateContainerError', badRunner),
    plan: { kind: 'replace', reason: 'PullRetry', message: 'CreateContainerError: why' },
  },
  {
    sentence: 'a container that cannot be made has nothing of a new pull Secret',
    pod: aHeldUp('CreateContainerError'),
    pullSecretVersion: '7',
    plan: { kind: 'report' },
  },
  {
    sentence: 'a pod that pulls with what the installation has is left alone',
    pod: aHeldUp('ImagePullBackOff'),
    plan: { kind: 'report' },
  },
  {
    sentence: 'a pod that pulls still is left alone, whatever the installation has by now',
    pod: aHeldUp('ContainerCreating', badRunner),
    plan: { kind: 'report' },
  },
  {
    sentence: 'a pod that has run before and pulls another runner image keeps its disk',
    pod: aHeldUp('ErrImagePull', badRunner, 1),
    plan: { kind: 'report' },
  },
  ...[aHeldUp('ErrImagePull', badRunner), aHeldUp('ErrImagePull')].map((pod) => ({
    sentence: 'a pod that could not pull on a node that does not answer may have a guest by now',
    pod,
    pullSecretVersion: '7',
    more: { isNodeLost: true },
    plan: { kind: 'report' },
  })),
);

const persistent = { ...effective, disk: { storage: 'Persistent' as const } };
const waits = (...fields: string[]) => ({ ...believed, waiting: fields });
const onClaim = (...fields: string[]) => ({ ...waits(...fields), effective: persistent });
const pulling = aPod({ nodeName: 'n1', status: { phase: 'Pending' } });
const unbound = aPod({ status: { phase: 'Pending' } });
const begun = aPod({ nodeName: 'n1', status: runningStatus(false) });
const suspended = aVm({ status: { powerState: 'Stopped', suspendedTo: 'Disk' } });
const reverted = aVm({
  spec: { revertRequest: 'now' },
  status: { powerState: 'Stopped', suspendedTo: 'Disk', conditions: [] },
});

rows.push(
  ...[unbound, pulling].map((pod) => ({
    sentence: 'a VM that is suspended on its disk again needs no pod in which nothing has started',
    vm: asleep,
    pod,
    plan: { kind: 'release', pod },
  })),
  {
    sentence: 'nor one that was turned away, of which nothing is to be said then',
    vm: asleep,
    pod: aPod({ nodeName: 'n1', status: { phase: 'Failed', reason: 'OutOfcpu' } }),
    plan: { kind: 'release' },
  },
  {
    sentence: 'of one in which a guest may have gone on the runner has to say what became of it',
    vm: asleep,
    pod: begun,
    plan: { kind: 'report' },
  },
  {
    sentence: 'so has that of one on a node that does not answer',
    vm: asleep,
    pod: pulling,
    more: { isNodeLost: true },
    plan: { kind: 'report' },
  },
  {
    sentence: 'one in which the VM is to be reverted stays',
    vm: aVm({ ...asleep, spec: { ...asleep.spec, revertRequest: 'now' } }),
    pod: pulling,
    plan: { kind: 'report' },
  },
);

const withMedium = (pod: Pod): Pod => ({
  ...pod,
  spec: { ...pod.spec, volumes: [...(pod.spec.volumes ?? []), { name: 'iso' }] },
});
const emptied = aVm({ spec: { config: 'installer', iso: '' } });

rows.push(
  ...[emptied, aVm()].map((vm) => ({
    sentence: `a pod in which nothing has started is replaced by one without a medium, asked for by ${JSON.stringify(vm.spec.iso)}`,
    vm,
    pod: withMedium(pulling),
    plan: {
      kind: 'replace',
      reason: 'Changed',
      message: 'nothing has started in pod svc3-vm-web: the VM gets another one, with another spec.iso',
    },
  })),
  {
    sentence: 'also where its guest goes on from a memory, which needs a drive but no medium',
    vm: aVm({ ...emptied, ...(suspended.status && { status: suspended.status }) }),
    pod: withMedium(pulling),
    plan: { kind: 'replace', reason: 'Changed' },
  },
  {
    sentence: 'one without a medium is left alone',
    vm: emptied,
    pod: pulling,
    plan: { kind: 'report' },
  },
  {
    sentence: 'so is one whose medium comes from a VMConfig and is to stay',
    vm: aVm({ spec: { config: 'installer' } }),
    pod: withMedium(pulling),
    plan: { kind: 'report' },
  },
  {
    sentence: 'one in which a guest may have started has its drive emptied',
    vm: emptied,
    pod: withMedium(begun),
    plan: { kind: 'report' },
  },
  {
    sentence: 'one with a medium on a node that does not answer may have a guest by now',
    vm: emptied,
    pod: withMedium(pulling),
    more: { isNodeLost: true },
    plan: { kind: 'report' },
  },
);

rows.push(
  {
    sentence: 'a pod in which nothing has started is replaced for what only another one can have',
    pod: pulling,
    settings: onClaim('nodeName', 'cpu', 'display'),
    plan: {
      kind: 'replace',
      reason: 'Changed',
      node: undefined,
      message:
        'nothing has started in pod svc3-vm-web: the VM gets another one, with another spec.nodeName, spec.cpu',
    },
  },
  {
    sentence: 'so is one with an Ephemeral disk, which has nothing on it yet',
    pod: pulling,
    settings: waits('tag'),
    plan: { kind: 'replace', reason: 'Changed' },
  },
  {
    sentence: 'one that waits for its node and asks for too much is replaced by one that asks for less',
    pod: unbound,
    settings: waits('cpu'),
    plan: { kind: 'replace', reason: 'Changed' },
  },
  {
    sentence: 'one that is on its node is resized there',
    pod: pulling,
    settings: waits('cpu'),
    plan: { kind: 'report' },
  },
  {
    sentence: 'what its first boot has anyway is no reason',
    pod: pulling,
    settings: onClaim('display'),
    plan: { kind: 'report' },
  },
  {
    sentence: 'a pod in which a guest may have started is left alone',
    pod: begun,
    settings: onClaim('nodeName'),
    plan: { kind: 'report' },
  },
  {
    sentence: 'on a node that does not answer nobody knows whether a guest has started',
    pod: pulling,
    settings: waits('tag'),
    more: { isNodeLost: true },
    plan: { kind: 'report' },
  },
  {
    sentence: 'a guest that goes on from its memory has to be what it was',
    vm: suspended,
    pod: pulling,
    settings: onClaim('cpu'),
    plan: { kind: 'report' },
  },
  {
    sentence: 'so has one that was evicted before it was changed',
    vm: aVm({
      status: {
        effective: { ...persistent, onEviction: 'Suspend' },
        powerState: 'Stopped',
        memoryHost: { accelerator: 'tcg' },
      },
    }),
    pod: pulling,
    settings: onClaim('cpu'),
    plan: { kind: 'report' },
  },
  {
    sentence: 'a revert discards the memory',
    vm: reverted,
    pod: pulling,
    settings: onClaim('cpu'),
    plan: { kind: 'replace', reason: 'Changed' },
  },
  {
    sentence: 'but the guest goes on before that where its disk is to be saved',
    vm: reverted,
    pod: pulling,
    settings: onClaim('cpu'),
    more: { isSavedFirst: true },
    plan: { kind: 'report' },
  },
  {
    sentence: 'but it can go on elsewhere',
    vm: suspended,
    pod: pulling,
    settings: onClaim('cpu', 'tolerations'),
    plan: {
      kind: 'replace',
      reason: 'Changed',
      message: expect.stringMatching(/another spec\.tolerations$/),
    },
  },
);

describe('a pod that its node does not prepare', () => {
  const pod = aPod({
    nodeName: 'n1',
    status: { conditions: [{ type: 'PodReadyToStartContainers', status: 'False' }] },
  });
  const state = { name: 'state', persistentVolumeClaim: { claimName: 'svc3-vm-web' } };
  const onClaim = { ...pod, spec: { ...pod.spec, volumes: [state] } };
  const ranBefore = aPod({
    nodeName: 'n1',
    status: {
      ...pod.status,
      containerStatuses: [
        { name: 'runner', ready: false, restartCount: 1, image: '', imageID: '', state: { waiting: {} } },
      ],
    },
  });
  const seen = { vm: aVm(), settings: believed, node: undefined, claim: undefined, now, ...calm };
  const planOf = (forMs: number, more: Partial<Observed> = {}) =>
    decide({ ...seen, pod, pullSecretVersion: undefined, unprepared: { forMs, isCertain: true }, ...more });
  const elsewhere =
    'node n1 has not prepared volumes and network of pod svc3-vm-web in five minutes, and another node takes the VM';

  test.each([
    ['is soon told of', 10_000, { lookAgainMs: 20_000, elsewhere: undefined }],
    ['is waited for', 30_000, { lookAgainMs: 270_000, elsewhere: undefined }],
    ['is waited for as long as five minutes', 299_999, { lookAgainMs: 1, elsewhere: undefined }],
    [
      'is to be elsewhere after that, as soon as a node takes it',
      300_000,
      { lookAgainMs: 60_000, elsewhere },
    ],
  ])('%s: %i ms', (_sentence, forMs, expected) => {
    expect(planOf(forMs)).toMatchObject({ kind: 'report', ...expected });
  });

  test.each<[sentence: string, more: Partial<Observed>]>([
    ['whose volume would be waited for elsewhere too', { pod: onClaim }],
    ['whose image may be on its way', { unprepared: { forMs: 3_600_000, isCertain: false } }],
    ['whose node does not answer', { isNodeLost: true }],
    ['which has the disk of a guest that ran there', { pod: ranBefore }],
  ])('stays where it is: one %s', (_sentence, more) => {
    const plan = planOf(3_600_000, more);
    expect(plan).toMatchObject({ kind: 'report', lookAgainMs: undefined, elsewhere: undefined });
  });

  test('is told of where it stays', () => {
    expect(planOf(10_000, { pod: onClaim })).toMatchObject({ lookAgainMs: 20_000 });
  });
});

/** On n1, and not yet begun. */
function bound(
  node: string | undefined,
  kvmGroups: number[],
  status: Pod['status'] = { phase: 'Pending' },
): Pod {
  const { placement } = podInput();
  const pod = buildPod(podInput({ placement: { ...placement, node, accelerator: 'kvm' }, kvmGroups }));
  return {
    ...pod,
    metadata: storedMeta(pod.metadata),
    spec: { ...pod.spec, nodeName: 'n1' },
    status,
  };
}
const hardware = JSON.stringify({ version: 1, kvm: { gid: 104 } });
const withKvm: Node = {
  metadata: storedMeta({ name: 'n1', annotations: { 'svc3.dev/hardware': hardware } }),
};

rows.push(
  {
    sentence:
      'a pod whose node kube-scheduler found, and which is not in the group of its /dev/kvm, is replaced',
    pod: bound(undefined, [36]),
    node: withKvm,
    plan: {
      kind: 'replace',
      reason: 'Changed',
      node: undefined,
      message: 'pod svc3-vm-web is not in the group of /dev/kvm on node n1: the VM gets another one',
    },
  },
  {
    sentence: 'one that is in it stays',
    pod: bound(undefined, [36, 104]),
    node: withKvm,
    plan: { kind: 'report' },
  },
  {
    sentence: 'so does one that was made for the node, whatever its groups are by now',
    pod: bound('n1', [36]),
    node: withKvm,
    plan: { kind: 'report' },
  },
  {
    sentence: 'so does one in which a guest may have started: its /dev/kvm may be open to all',
    pod: bound(undefined, [36], runningStatus(false)),
    node: withKvm,
    plan: { kind: 'report' },
  },
  {
    sentence: 'so does one whose node does not answer',
    pod: bound(undefined, [36]),
    node: withKvm,
    more: { isNodeLost: true },
    plan: { kind: 'report' },
  },
);

describe('decide', () => {
  test.each(rows)(
    '$sentence',
    ({ vm = aVm(), pod, settings = believed, node, claim, pullSecretVersion, more, plan }) => {
      const seen = { vm, pod, settings, node, claim, pullSecretVersion, now, ...calm, ...more };
      expect(decide(seen)).toMatchObject(plan);
    },
  );

  test('an unpinned pod is left to kube-scheduler', () => {
    const pod = aPod({
      status: {
        conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'x' }],
      },
    });
    const { affinity: _affinity, ...spec } = pod.spec;
    const nothing = { settings: believed, node: undefined, claim: undefined, pullSecretVersion: undefined };
    expect(decide({ vm: aVm(), pod: { ...pod, spec }, ...nothing, now, ...calm }).kind).toBe('report');
  });
});

describe('what a deletion waits for', () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `i${i + 1}`);
  const ten = names(10).join(', ');

  test.each([
    [1, 'image i1 is'],
    [2, 'images i1, i2 are'],
    [10, `images ${ten} are`],
    [12, `images ${ten} and 2 more are`],
  ])('with %i images', (count, what) => {
    expect(savingMessage(names(count), now)).toBe(
      `the VM is being deleted; it waits until ${what} saved, at most until 2026-11-01T10:01:00Z`,
    );
  });
});
