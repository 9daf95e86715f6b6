import type { Pod, PodStatus } from '../../../../src/api/core.ts';
import type { RunnerState } from '../../../../src/api/runner.ts';
import type { EffectiveSettings, Vm, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import type { Condition, ObjectMeta } from '../../../../src/api/object.ts';
import { buildPod, type PodInput } from '../../../../src/controllers/vm/pod/pod.ts';
import { vmSettings } from '../../../support/operator.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

export const effective: EffectiveSettings = {
  image: `r.example.com/debian@sha256:${'a'.repeat(64)}`,
  architecture: 'amd64',
  cpu: 1,
  memory: '256Mi',
  gpuPassthrough: 'Disabled',
  vncConsole: 'Enabled',
};

export function aVm(given: { spec?: Partial<VmSpec>; status?: VmStatus; metadata?: ObjectMeta } = {}): Vm {
  const vm: Vm = {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: {
      name: 'web',
      namespace: 'team',
      uid: 'vm-uid',
      resourceVersion: '4',
      generation: 1,
      creationTimestamp: '2026-11-01T10:00:00Z',
      ...given.metadata,
    },
    spec: { image: 'r.example.com/debian', powerState: 'Running', ...given.spec },
  };
  return given.status === undefined ? vm : { ...vm, status: given.status };
}

export function podInput(given: Partial<PodInput> = {}): PodInput {
  return {
    vm: aVm(),
    effective,
    placement: {
      node: 'n1',
      accelerator: 'tcg',
      ports: { ssh: 8822, screenshare: 5900 },
      requestsEphemeralStorage: true,
    },
    settings: vmSettings(),
    controlKeys: 'key',
    kvmGroups: [],
    pullSecretVersion: undefined,
    claimName: undefined,
    ...given,
  };
}

/** The pod of `aVm()` on n1, not yet bound. */
export function aPod(given: { status?: PodStatus; metadata?: ObjectMeta; nodeName?: string } = {}): Pod {
  const pod = buildPod(podInput());
  return {
    ...pod,
    metadata: storedMeta({ ...pod.metadata, uid: 'pod-uid', resourceVersion: '5', ...given.metadata }),
    spec: { ...pod.spec, ...(given.nodeName === undefined ? {} : { nodeName: given.nodeName }) },
    ...(given.status === undefined ? {} : { status: given.status }),
  };
}

export function runningStatus(ready: boolean): PodStatus {
  return {
    phase: 'Running',
    podIP: '10.0.0.1',
    conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    containerStatuses: [
      {
        name: 'runner',
        ready,
        restartCount: 0,
        image: '',
        imageID: '',
        state: { running: { startedAt: '2026-11-01T10:00:01Z' } },
      },
    ],
  };
}

export function runnerState(given: Partial<RunnerState> = {}): RunnerState {
  return {
    version: 1,
    vmUid: 'vm-uid',
    powerState: 'Running',
    guestReachable: false,
    retrying: false,
    restarts: 0,
    vncConsole: true,
    iso: false,
    revision: 1,
    ...given,
  };
}

export function aCondition(type: string, given: Partial<Condition> = {}): Condition {
  return {
    type,
    status: 'True',
    reason: 'Running',
    message: '',
    observedGeneration: 1,
    lastTransitionTime: '2026-11-01T10:00:02Z',
    ...given,
  };
}
