import { describe, expect, test } from 'vitest';
import type { Condition } from '../../../../../src/api/object.ts';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import type { EffectiveSettings, VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import { runnerPorts } from '../../../../../src/controllers/vm/pod/podports.ts';
import {
  hasChangesAtOnce,
  isAsRequested,
  placedSettings,
  requestedBytes,
} from '../../../../../src/controllers/vm/runner/asrequested.ts';
import { aCondition, aPod, aVm, effective, runnerState, runningStatus } from '../builders.ts';

const http = { guestPort: 80, protocol: 'TCP' } as const;
const onNode = { guestPort: 443, protocol: 'TCP', nodePort: 20_443 } as const;
const withPorts: EffectiveSettings = { ...effective, ports: [http] };

interface Given {
  readonly spec?: Partial<VmSpec>;
  readonly generation?: number;
  readonly ready?: Partial<Condition>;
  readonly conditions?: Condition[];
  readonly status?: VmStatus;
  readonly podReady?: boolean;
  readonly hasMedium?: boolean;
  readonly placed?: EffectiveSettings | undefined;
}

/** Of a VM that runs, whose status says so of the spec as it is. */
function asRequested(given: Given): boolean {
  const { generation = 3, ready = {}, conditions = [], podReady = true, hasMedium = false } = given;
  const vm = aVm({
    metadata: { ...aVm().metadata, generation },
    spec: given.spec ?? {},
    status: {
      effective,
      powerState: 'Running',
      conditions: [aCondition('Ready', { observedGeneration: generation, ...ready }), ...conditions],
      ...given.status,
    },
  });
  const pod = aPod({ nodeName: 'n1', status: runningStatus(podReady) });
  const { volumes = [] } = pod.spec;
  const made = hasMedium
    ? { ...pod, spec: { ...pod.spec, volumes: [...volumes, { name: 'iso', emptyDir: {} }] } }
    : pod;
  return isAsRequested(vm, made, 'placed' in given ? given.placed : effective);
}

const stalled = (reason: string) => aCondition('Stalled', { reason });
const asleep = { powerState: 'Suspended', suspendedTo: 'Disk' } as const;

describe('its runner need not be asked of a VM', () => {
  test.each<[what: string, given: Given, expected: boolean]>([
    ['that runs as it is to', {}, true],
    ['that runs, and whose guest does not answer', { ready: { reason: 'GuestNotAnswering' } }, true],
    [
      'that is off',
      { ready: { reason: 'Stopped' }, status: { powerState: 'Stopped' }, podReady: false },
      true,
    ],
    [
      'whose guest is off',
      { ready: { reason: 'GuestStopped' }, status: { powerState: 'Stopped' }, podReady: false },
      true,
    ],
    ['that is on its way', { ready: { reason: 'Starting' } }, false],
    ['of which nothing has been said', { status: { conditions: [] } }, false],
    ['that has been changed since', { ready: { observedGeneration: 2 } }, false],
    ['whose pod is not ready though it runs', { podReady: false }, false],
    [
      'whose pod is ready though it is off',
      { ready: { reason: 'Stopped' }, status: { powerState: 'Stopped' } },
      false,
    ],
    [
      'for which somebody has to act',
      { ready: { reason: 'Crashed' }, conditions: [stalled('Crashed')] },
      true,
    ],
    [
      'for which somebody had to act',
      { ready: { reason: 'Crashed' }, conditions: [{ ...stalled('Crashed'), status: 'False' }] },
      false,
    ],
    [
      'for which somebody has to act in one thing',
      { ready: { reason: 'Starting' }, conditions: [stalled('GPUPassthroughDisabled')] },
      false,
    ],
    [
      'that is suspended in memory',
      {
        spec: { powerState: 'Suspended' },
        ready: { reason: 'Suspended' },
        status: { powerState: 'Suspended' },
        podReady: false,
      },
      true,
    ],
    [
      'that is suspended on its disk, whose pod is to end',
      { spec: { powerState: 'Suspended' }, ready: { reason: 'Suspended' }, status: asleep, podReady: false },
      false,
    ],
    [
      'whose ports are those that were reported',
      { placed: withPorts, status: { ports: { mapped: [http] } } },
      true,
    ],
    ['whose ports have not been reported', { placed: withPorts }, false],
    ['whose ports are closed by now', { status: { ports: { mapped: [http] } } }, false],
    [
      'of whose settings nothing is known',
      { placed: undefined, status: { ports: { mapped: [http] } } },
      true,
    ],
    ['whose medium is in its drive', { spec: { iso: 'tools' }, hasMedium: true }, true],
    ['whose medium is to be taken out', { spec: { iso: '' }, hasMedium: true }, false],
    ['that wants no medium, and has none', { spec: { iso: '' } }, true],
    [
      'whose disk is as large as it is to be',
      { spec: { disk: { size: '2Gi' } }, status: { diskSize: '2Gi' } },
      true,
    ],
    ['whose disk is larger', { spec: { disk: { size: '2Gi' } }, status: { diskSize: '3Gi' } }, true],
    ['whose disk is to grow', { spec: { disk: { size: '2Gi' } }, status: { diskSize: '1Gi' } }, false],
    ['whose disk was made as large as that', { spec: { disk: { size: '2Gi' } }, generation: 1 }, true],
    ['of whose size nothing has been said since', { spec: { disk: { size: '2Gi' } }, generation: 2 }, false],
  ])('%s', (_what, given, expected) => {
    expect(asRequested(given)).toBe(expected);
  });
});

describe('the settings in force', () => {
  test('are not known before they have been reported', () => {
    expect(placedSettings(aVm(), aPod())).toBeUndefined();
  });

  test('have the ports that are asked for now, and those of the node that the pod was made with', () => {
    const vm = aVm({
      spec: { ports: [http, onNode] },
      status: { effective: { ...effective, ports: [onNode] } },
    });
    const ofPod = { guestPort: onNode.guestPort, protocol: onNode.protocol };
    expect(placedSettings(vm, aPod())?.ports).toEqual([http, ofPod]);
    const pod = aPod();
    const [container] = pod.spec.containers;
    const open = [{ containerPort: 20_443, hostPort: 20_443 }];
    const made = { ...pod, spec: { ...pod.spec, containers: [{ ...container!, ports: open }] } };
    expect(placedSettings(vm, made)?.ports).toEqual([onNode, http]);
  });
});

test.each<[VmSpec['disk'], number | undefined]>([
  [undefined, undefined],
  [{ storage: 'Persistent' }, undefined],
  [{ size: '1Gi' }, 2 ** 30],
])('of disk %j there are to be %s bytes', (disk, bytes) => {
  expect(requestedBytes(aVm({ spec: disk === undefined ? {} : { disk } }))).toBe(bytes);
});

const asked = runnerPorts(withPorts);
const more = [...asked, { podPort: 81, guestPort: 81, protocol: 'TCP' } as const];

test.each<[what: string, state: Partial<RunnerState>, spec: Partial<VmSpec>, expected: boolean]>([
  ['nothing changes', { ports: asked }, {}, false],
  ['the medium stays', { ports: asked, iso: true }, { iso: 'tools' }, false],
  ['the medium is to be taken out', { ports: asked, iso: true }, { iso: '' }, true],
  ['there is no medium to be taken out', { ports: asked }, { iso: '' }, false],
  ['a port is to be opened', { ports: [] }, {}, true],
  ['a port is to be closed', { ports: more }, {}, true],
  ['the runner is of before ports came and went', {}, {}, false],
])('where %s its runner is told at once or not', (_what, state, spec, expected) => {
  expect(hasChangesAtOnce(runnerState(state), aVm({ spec }), withPorts)).toBe(expected);
});

test('ports change nothing before the settings are known', () => {
  expect(hasChangesAtOnce(runnerState({ ports: [] }), aVm(), undefined)).toBe(false);
});
