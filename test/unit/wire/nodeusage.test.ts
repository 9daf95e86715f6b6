import { expect, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { createNodeUsages, keepRequests, type PodRequests } from '../../../src/wire/nodeusage.ts';
import type { Change, Informer } from '../../../src/kube/types.ts';

const container = (cpu: string, memory: string) => ({ name: 'c', resources: { requests: { cpu, memory } } });

const sidecar = (cpu: string, memory: string) => ({ ...container(cpu, memory), restartPolicy: 'Always' });

function aPod(node: string | undefined, phase = 'Running', spec: Partial<Pod['spec']> = {}): Pod {
  return {
    metadata: { name: 'p', namespace: 'n', uid: 'u', resourceVersion: '1' },
    spec: {
      containers: [container('500m', '1Gi')],
      ...(node === undefined ? {} : { nodeName: node }),
      ...spec,
    },
    status: { phase },
  };
}

const gib = 1024 ** 3;

/** The container as its kubelet reports it. */
const reported = (cpu: string, memory: string) => {
  const { name, resources } = container(cpu, memory);
  const told = { ready: true, restartCount: 0, image: '', imageID: '' };
  return { name, resources, allocatedResources: resources.requests, ...told };
};

test.each<[string, Pod, object | undefined]>([
  [
    'a running pod requests what its containers request',
    aPod('n1'),
    { cpuMilli: 500, memoryBytes: gib, gpus: 0 },
  ],
  ['a pod without a node requests nothing', aPod(undefined), undefined],
  ['a pod that has ended requests nothing', aPod('n1', 'Succeeded'), undefined],
  ['a pod that has failed requests nothing', aPod('n1', 'Failed'), undefined],
  [
    'a pod requests the most that it ever needs at once',
    aPod('n1', 'Running', { initContainers: [container('2', '1Mi'), container('1', '1Mi')] }),
    { cpuMilli: 2000, memoryBytes: gib, gpus: 0 },
  ],
  // KEP-2837.
  [
    'what a pod asks for as a whole takes the place of what its containers do',
    aPod('n1', 'Running', { resources: { requests: { memory: '8Gi' } }, overhead: { memory: '1Gi' } }),
    { cpuMilli: 500, memoryBytes: 9 * gib, gpus: 0 },
  ],
  // KEP-753: a sidecar runs on, so it counts beside the containers and beside every init container after it.
  [
    'a sidecar runs beside the containers',
    aPod('n1', 'Running', { initContainers: [sidecar('1', '1Gi'), sidecar('250m', '1Gi')] }),
    { cpuMilli: 1750, memoryBytes: 3 * gib, gpus: 0 },
  ],
  [
    'a sidecar runs beside the init containers after it, and not beside those before it',
    aPod('n1', 'Running', {
      initContainers: [container('3', '1Mi'), sidecar('1', '1Gi'), container('1', '2Gi')],
    }),
    { cpuMilli: 3000, memoryBytes: 3 * gib, gpus: 0 },
  ],
  // KEP-1287.
  [
    'a pod that shrinks in place counts for what it has yet',
    {
      ...aPod('n1'),
      status: { containerStatuses: [reported('2', '4Gi')] },
    },
    { cpuMilli: 2000, memoryBytes: 4 * gib, gpus: 0 },
  ],
  [
    'one that is to grow to what its node never has counts for what it has',
    {
      ...aPod('n1', 'Running', { containers: [container('1000', '1Gi')] }),
      status: {
        conditions: [{ type: 'PodResizePending', status: 'True', reason: 'Infeasible' }],
        containerStatuses: [reported('500m', '1Gi')],
      },
    },
    { cpuMilli: 500, memoryBytes: gib, gpus: 0 },
  ],
  [
    'the overhead of a runtime counts',
    aPod('n1', 'Running', { overhead: { cpu: '250m' } }),
    { cpuMilli: 750, memoryBytes: gib, gpus: 0 },
  ],
])('%s', (_, pod, usage) => {
  expect(keepRequests(pod).usage).toEqual(usage);
});

test('the sums follow every change', () => {
  let tell: (change: Change<PodRequests>) => void = () => undefined;
  const usages = createNodeUsages({ onChange: (handler) => void (tell = handler) } as Informer<PodRequests>);
  const cpu = (node: string) => usages.of(node).cpuMilli;
  const [first, moved] = [keepRequests(aPod('n1')), keepRequests(aPod('n2'))];
  const ended = keepRequests(aPod('n2', 'Succeeded'));
  tell({ kind: 'added', object: first });
  tell({ kind: 'added', object: keepRequests(aPod('n1')) });
  expect([cpu('n1'), cpu('n2')]).toEqual([1000, 0]);
  tell({ kind: 'updated', old: first, object: moved });
  expect([cpu('n1'), cpu('n2')]).toEqual([500, 500]);
  tell({ kind: 'updated', old: moved, object: ended });
  expect([cpu('n1'), cpu('n2')]).toEqual([500, 0]);
  tell({ kind: 'deleted', object: ended });
  expect([cpu('n1'), cpu('n2')]).toEqual([500, 0]);
});

test.each([
  ['1e30', '1e30'],
  ['more than a number can be', '9'.repeat(330)],
])('a pod that asks for %s takes nothing of the others with it when it goes', (_much, much) => {
  let tell: (change: Change<PodRequests>) => void = () => undefined;
  const usages = createNodeUsages({
    onChange: (handler) => void (tell = handler),
  } as Informer<PodRequests>);
  tell({ kind: 'added', object: keepRequests(aPod('n1')) });
  const huge = keepRequests(aPod('n1', 'Running', { containers: [container(much, much)] }));
  for (let i = 0; i < 1_000; i++) tell({ kind: 'added', object: huge });
  expect(usages.of('n1').cpuMilli).toBe(500 + 1_000 * 2 ** 43);
  for (let i = 0; i < 1_000; i++) tell({ kind: 'deleted', object: huge });
  expect(usages.of('n1')).toEqual({ cpuMilli: 500, memoryBytes: gib, gpus: 0 });
});
