import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import { podSize, sizeFor, sizeProgress } from '../../../../../src/controllers/vm/pod/podsize.ts';

const Mi = 2 ** 20;
const x86 = { architecture: 'amd64', gpuPassthrough: 'Disabled' } as const;
type Condition = NonNullable<NonNullable<Pod['status']>['conditions']>[number];

function aPod(
  requests: Record<string, string>,
  { actual = requests, limits = {}, conditions = [] as Partial<Condition>[] } = {},
): Pod {
  const sidecar = { name: 'mesh', image: '', resources: { requests: { cpu: '9', memory: '9Gi' } } };
  const container = { name: 'runner', image: '', resources: { requests, limits } };
  const containerStatuses = [{ name: 'runner', resources: { requests: actual } }];
  return {
    metadata: { generation: 3 },
    spec: { containers: [sidecar, container] },
    status: { conditions, containerStatuses },
  } as unknown as Pod;
}

const pending = (reason: string) => ({
  conditions: [{ type: 'PodResizePending', status: 'True' as const, reason, message: 'no room' }],
});

describe('the size of a pod', () => {
  test('is that of its runner, whatever injects containers', () => {
    expect(podSize(aPod({ cpu: '1500m', memory: '1Gi' }))).toEqual({
      cpuMilli: 1500,
      memoryBytes: 1024 * Mi,
    });
  });

  test('has the emulator in it where there is no hardware virtualisation', () => {
    const guest = { ...x86, cpu: 2, memory: '1Gi' };
    const settings = { cpuOvercommit: 4 };
    const emulated = sizeFor(guest, aPod({}), settings);
    const hardware = sizeFor(guest, aPod({}, { limits: { 'svc3.dev/kvm': '1' } }), settings);
    expect(emulated.cpuMilli).toBe(500);
    expect(emulated.memoryBytes - hardware.memoryBytes).toBe(128 * Mi);
  });
});

describe('a new size', () => {
  const wanted = { cpuMilli: 2000, memoryBytes: 1024 * Mi };
  const asked = { cpu: '2', memory: '1Gi' };

  test.each<[string, Pod, object]>([
    ['is reached when the container has it', aPod(asked), { kind: 'reached' }],
    ['is reached also with more', aPod(asked, { actual: { cpu: '3', memory: '2Gi' } }), { kind: 'reached' }],
    [
      'is under way until the container has the memory',
      aPod(asked, { actual: { cpu: '2', memory: '1023Mi' } }),
      { kind: 'underway' },
    ],
    [
      'is under way until the container has the CPU',
      aPod(asked, { actual: { cpu: '1999m', memory: '1Gi' } }),
      { kind: 'underway' },
    ],
    [
      'is under way while the kubelet says so',
      aPod(asked, { conditions: [{ type: 'PodResizeInProgress', status: 'True' }] }),
      { kind: 'underway' },
    ],
    [
      'is reached when it says so no longer',
      aPod(asked, { conditions: [{ type: 'PodResizeInProgress', status: 'False' }] }),
      { kind: 'reached' },
    ],
    ['may be put off', aPod(asked, pending('Deferred')), { kind: 'deferred', message: 'no room' }],
    ['may be impossible', aPod(asked, pending('Infeasible')), { kind: 'infeasible', message: 'no room' }],
    [
      'is not what the kubelet said of the size before',
      aPod(asked, {
        actual: { cpu: '1', memory: '1Gi' },
        conditions: [{ ...pending('Infeasible').conditions[0], observedGeneration: 2 }],
      }),
      { kind: 'underway' },
    ],
    [
      'may be put off in words of now',
      aPod(asked, { conditions: [{ ...pending('Deferred').conditions[0], observedGeneration: 3 }] }),
      { kind: 'deferred', message: 'no room' },
    ],
  ])('%s', (_sentence, pod, progress) => {
    expect(sizeProgress(pod, wanted)).toEqual(progress);
  });
});
