import { describe, expect, test } from 'vitest';
import type { Node, Pod } from '../../../src/api/core.ts';
import { nodeFacts, tagsOf } from '../../../src/placement/nodefacts.ts';
import { nodeOf, podFacts } from '../../../src/placement/podfacts.ts';
import { CPU, EPHEMERAL_STORAGE, GPU, KVM, MEMORY, PODS } from '../../../src/placement/resources.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const node: Node = {
  metadata: storedMeta({
    name: 'n1',
    labels: {
      'kubernetes.io/arch': 'arm64',
      'kubernetes.io/os': 'linux',
      'svc3.dev/gpu-passthrough': 'enabled',
      'svc3.dev/accelerator': 'tcg',
      'svc3.dev/namespace': 'team-a',
      'tag.svc3.dev/ci': 'true',
      'tag.svc3.dev/off': 'false',
    },
  }),
  spec: { taints: [{ key: 'k', value: 'v', effect: 'NoSchedule', timeAdded: 'x' }], unschedulable: true },
  status: {
    conditions: [{ type: 'Ready', status: 'True' }],
    allocatable: {
      cpu: '3920m',
      memory: '1Gi',
      pods: '110',
      'svc3.dev/gpu-passthrough': '1',
      'svc3.dev/kvm': '1k',
    },
  },
};

describe('nodeFacts', () => {
  test('takes labels, taints, conditions and allocatable', () => {
    const facts = nodeFacts(node);
    expect(facts).toMatchObject({
      name: 'n1',
      architecture: 'arm64',
      ready: true,
      cordoned: true,
      taints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }],
      tags: ['ci'],
      reservedFor: 'team-a',
      gpuEnabled: true,
      accelerator: 'tcg',
      reportsEphemeralStorage: false,
    });
    expect([CPU, MEMORY, PODS, GPU, KVM].map((i) => facts.allocatable[i])).toEqual([
      3920,
      2 ** 30,
      110,
      1,
      1000,
    ]);
  });

  test('takes the CPU that the node agent reports, and none from what is no report', () => {
    const cpu = { model: 'Some CPU', flags: ['avx', 'sse'] };
    const of = (text: string) =>
      nodeFacts({ ...node, metadata: { ...node.metadata, annotations: { 'svc3.dev/hardware': text } } });
    expect(of(JSON.stringify({ version: 1, cpu })).hostCpu).toEqual(cpu);
    for (const text of ['', 'null', '{', '{}', '{"cpu":{"model":1}}', ' '.repeat(65_537)])
      expect(of(text).hostCpu).toBeUndefined();
    expect(nodeFacts(node).hostCpu).toBeUndefined();
  });

  test.each<[report: string | undefined, foundKvm: boolean | undefined]>([
    [undefined, undefined],
    ['{"version":1,"kvm":{"gid":104}}', true],
    ['{"version":1,"kvm":{"gid":0}}', true],
    ['{"version":1}', false],
    ['{"kvm":true}', false],
    ['null', false],
    ['{', false],
    ['', false],
    [`{"kvm":{"gid":1}}${' '.repeat(65_537)}`, false],
  ])('of a node whose agent has reported %j hardware virtualisation is: %s', (report, foundKvm) => {
    const reported = report === undefined ? {} : { annotations: { 'svc3.dev/hardware': report } };
    expect(nodeFacts({ ...node, metadata: { ...node.metadata, ...reported } }).foundKvm).toBe(foundKvm);
  });

  test.each([
    ['svc3.dev/gpu-passthrough', 'yes', { gpuEnabled: false }],
    ['svc3.dev/accelerator', 'xen', { accelerator: undefined }],
    ['svc3.dev/namespace', '', { reservedFor: undefined }],
  ])('a label %s=%s is as if it were not there', (label, value, expected) => {
    const labels = { ...node.metadata.labels, [label]: value };
    expect(nodeFacts({ ...node, metadata: { ...node.metadata, labels } })).toMatchObject(expected);
  });

  test('a node without status is not ready and has nothing', () => {
    const facts = nodeFacts({ metadata: storedMeta({ name: 'n' }) });
    expect(facts).toMatchObject({
      operatingSystem: 'linux',
      architecture: '',
      ready: false,
      cordoned: false,
      taints: [],
      tags: [],
      reservedFor: undefined,
      gpuEnabled: false,
      accelerator: undefined,
      reportsEphemeralStorage: false,
    });
    expect(new Set(facts.allocatable)).toEqual(new Set([0]));
  });

  test.each([
    [[{ type: 'Ready', status: 'True' }], true],
    [[{ type: 'Ready', status: 'False' }], false],
    [[{ type: 'Ready', status: 'Unknown' }], false],
    [[{ type: 'DiskPressure', status: 'True' }], false],
    [
      [
        { type: 'DiskPressure', status: 'False' },
        { type: 'Ready', status: 'True' },
      ],
      true,
    ],
    [[], false],
  ])('with conditions %j it is ready: %s', (conditions, ready) => {
    expect(nodeFacts({ ...node, status: { conditions } }).ready).toBe(ready);
  });

  test.each([
    [{ 'kubernetes.io/os': 'windows', 'kubernetes.io/arch': 'arm64' }, 'windows', 'arm64'],
    [{}, 'plan9', 'riscv64'],
  ])('with labels %j it is of %s and %s, else what the kubelet says', (labels, os, architecture) => {
    const status = { nodeInfo: { operatingSystem: 'plan9', architecture: 'riscv64' } };
    expect(nodeFacts({ metadata: { name: 'n', labels }, status } as Node)).toMatchObject({
      operatingSystem: os,
      architecture,
    });
  });

  test('local storage counts where the kubelet reports it', () => {
    const facts = nodeFacts({ ...node, status: { allocatable: { 'ephemeral-storage': '10Ki' } } });
    expect(facts.reportsEphemeralStorage).toBe(true);
    expect(facts.allocatable[EPHEMERAL_STORAGE]).toBe(10_240);
  });

  test.each(['kvm', 'tcg'])('the accelerator %s may be set by label', (accelerator) => {
    const labels = { 'svc3.dev/accelerator': accelerator };
    expect(nodeFacts({ metadata: storedMeta({ name: 'n', labels }) })).toMatchObject({ accelerator });
  });

  test('a taint without a value has the empty one', () => {
    const taints = [{ key: 'k', effect: 'NoSchedule' }];
    expect(nodeFacts({ ...node, spec: { taints } }).taints).toEqual([
      { key: 'k', value: '', effect: 'NoSchedule' },
    ]);
  });
});

test('tags are the labels of ours that say true, sorted', () => {
  expect(
    tagsOf({ 'tag.svc3.dev/z': 'true', 'tag.svc3.dev/a': 'true', 'tag.svc3.dev/off': 'no', other: 'true' }),
  ).toEqual(['a', 'z']);
});

const pod: Pod = {
  metadata: storedMeta({
    name: 'p',
    uid: 'u',
    ownerReferences: [{ apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'vm', uid: 'vm-uid', controller: true }],
  }),
  spec: {
    nodeName: 'n1',
    overhead: { cpu: '100m' },
    initContainers: [{ name: 'i', resources: { requests: { memory: '4Gi' } } }],
    containers: [
      {
        name: 'a',
        resources: { requests: { cpu: '1', memory: '1Gi' } },
        ports: [{ containerPort: 22, hostPort: 8822 }, { containerPort: 1 }],
      },
      { name: 'b', resources: { requests: { cpu: '500m', 'svc3.dev/gpu-passthrough': '1' } } },
    ],
  },
};

const pinned: Pod = {
  ...pod,
  spec: {
    containers: [],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n2'] }] }],
        },
      },
    },
  },
};

describe('podFacts', () => {
  test('adds containers, the largest init container and the overhead', () => {
    const facts = podFacts(pod, 'vm-uid');
    expect(facts).toMatchObject({
      uid: 'u',
      node: 'n1',
      assumedAs: 'vm-uid',
      ports: [{ port: 8822, protocol: 'TCP' }],
    });
    expect([CPU, MEMORY, PODS, GPU].map((i) => facts?.requests[i])).toEqual([1600, 4 * 2 ** 30, 1, 1]);
  });

  test("a VM's pinned pod counts before it is bound, nobody else's does", () => {
    expect(podFacts(pinned, 'vm-uid')).toMatchObject({ node: 'n2', assumedAs: 'vm-uid' });
    expect(podFacts(pinned)).toBeUndefined();
  });

  test('a bound pod counts, whoever made it, and claims nothing by its owner reference', () => {
    expect(podFacts(pod)).toMatchObject({ node: 'n1', assumedAs: undefined });
  });

  test.each(['Succeeded', 'Failed'] as const)('a pod that is %s counts no more', (phase) => {
    expect(podFacts({ ...pod, status: { phase } })).toBeUndefined();
  });

  test.each([
    ['svc3-node', 'node-agent', true],
    ['svc3-node', 'operator', false],
    ['team', 'node-agent', false],
  ])('a pod in namespace %s of component %s is a node agent: %s', (namespace, component, expected) => {
    const labels = { 'app.kubernetes.io/component': component };
    const facts = podFacts({ ...pod, metadata: { ...pod.metadata, namespace, labels } });
    expect(facts?.isNodeAgent).toBe(expected);
  });

  test('a pod without a node does not count', () => {
    expect(podFacts({ ...pod, spec: { containers: [] } })).toBeUndefined();
  });

  test('ports of a pod on the network of the host count', () => {
    const spec = { ...pod.spec, hostNetwork: true };
    expect(podFacts({ ...pod, spec })?.ports).toEqual([
      { port: 8822, protocol: 'TCP' },
      { port: 1, protocol: 'TCP' },
    ]);
  });

  test('a port is of TCP unless it says UDP; 0 is none', () => {
    const ports = [
      { containerPort: 1, hostPort: 53, protocol: 'UDP' },
      { containerPort: 2, hostPort: 53, protocol: 'TCP' },
      { containerPort: 3, hostPort: 0 },
    ];
    const spec = { nodeName: 'n1', containers: [{ name: 'a', ports }, { name: 'b' }] };
    expect(podFacts({ ...pod, spec })?.ports).toEqual([
      { port: 53, protocol: 'UDP' },
      { port: 53, protocol: 'TCP' },
    ]);
  });

  test('ports of sidecars count, those of other init containers are free again when the pod runs', () => {
    const ports = (hostPort: number) => [{ containerPort: 1, hostPort }];
    const initContainers = [
      { name: 'i', ports: ports(53) },
      { name: 's', ports: ports(9100), restartPolicy: 'Always' },
    ];
    const spec = { nodeName: 'n1', containers: [{ name: 'a', ports: ports(8822) }], initContainers };
    expect(podFacts({ ...pod, spec })?.ports.map(({ port }) => port)).toEqual([8822, 9100]);
  });

  test.each([
    ['1e30', '1e30'],
    ['more than a number can be', '9'.repeat(330)],
  ])(
    'a pod that asks for %s of everything counts for so much that 1,024 of them are added exactly',
    (_much, much) => {
      const requests = {
        cpu: much,
        memory: much,
        'ephemeral-storage': much,
        'svc3.dev/gpu-passthrough': much,
        'svc3.dev/kvm': much,
      };
      const container = { name: 'a', resources: { requests } };
      const spec = { nodeName: 'n1', containers: [container, container], overhead: requests };
      const counted = podFacts({ ...pod, spec })?.requests ?? [];
      for (const i of [CPU, MEMORY, EPHEMERAL_STORAGE, GPU, KVM]) expect(counted[i]).toBe(2 ** 43);
      expect(counted[PODS]).toBe(1);
      expect(1_024 * 2 ** 43).toBeLessThanOrEqual(Number.MAX_SAFE_INTEGER + 1);
    },
  );

  const Mi = 2 ** 20;
  const takes = (memory: number, more: object = {}): object => ({
    name: 'x',
    resources: { requests: { memory: `${memory}Mi`, cpu: `${memory}m` } },
    ...more,
  });
  const sidecar = { restartPolicy: 'Always' };

  // KEP-753: a sidecar runs on, so it counts beside the containers and beside every init container after it.
  test.each<[string, object[], object[], number]>([
    ['containers run together', [], [takes(1), takes(2)], 3],
    ['init containers run one after the other', [takes(4), takes(5)], [takes(1)], 5],
    ['init containers that are smaller do not matter', [takes(1)], [takes(4)], 4],
    ['a sidecar runs beside the containers', [takes(2, sidecar)], [takes(4)], 6],
    ['sidecars run beside each other', [takes(2, sidecar), takes(3, sidecar)], [takes(4)], 9],
    ['a sidecar runs beside the init container after it', [takes(2, sidecar), takes(9)], [takes(4)], 11],
    [
      'a sidecar does not run beside the init container before it',
      [takes(9), takes(2, sidecar)],
      [takes(4)],
      9,
    ],
    [
      'two sidecars run beside the init container after them',
      [takes(2, sidecar), takes(3, sidecar), takes(9)],
      [takes(4)],
      14,
    ],
    ['sidecars alone may be what the pod takes', [takes(2, sidecar), takes(3, sidecar)], [], 5],
    ['another restart policy is no sidecar', [takes(5, { restartPolicy: 'Never' })], [takes(4)], 5],
  ])('%s', (_sentence, initContainers, containers, expected) => {
    const spec = { nodeName: 'n1', initContainers, containers };
    const requests = podFacts({ ...pod, spec } as Pod)?.requests ?? [];
    expect([requests[MEMORY], requests[CPU], requests[PODS]]).toEqual([expected * Mi, expected, 1]);
  });

  test('every resource that placement knows is counted, in init containers too', () => {
    const requests = {
      cpu: '1',
      memory: '1Mi',
      'ephemeral-storage': '3Ki',
      'svc3.dev/gpu-passthrough': '1',
      'svc3.dev/kvm': '2',
    };
    const of = (spec: object): readonly number[] =>
      podFacts({ ...pod, spec: { nodeName: 'n1', containers: [], ...spec } })?.requests ?? [];
    const counted = [CPU, MEMORY, EPHEMERAL_STORAGE, GPU, KVM];
    for (const spec of [
      { containers: [{ name: 'a', resources: { requests } }] },
      { initContainers: [{ name: 'a', resources: { requests } }] },
      { overhead: requests },
    ])
      expect(counted.map((i) => of(spec)[i])).toEqual([1_000, Mi, 3_072, 1, 2]);
  });

  // KEP-2837: what is asked for of the pod as a whole is what kube-scheduler counts, whatever its containers say.
  test.each<[string, Record<string, string>, readonly number[]]>([
    ['cpu and memory', { cpu: '3', memory: '2Mi' }, [3_100, 3 * Mi, 7]],
    ['cpu alone', { cpu: '3' }, [3_100, 10 * Mi, 7]],
    ['memory alone', { memory: '64Mi' }, [109, 65 * Mi, 7]],
    ['huge pages alone', { 'hugepages-2Mi': '4Mi' }, [109, 10 * Mi, 7]],
    [
      'what no pod can ask for as a whole',
      { 'ephemeral-storage': '9', 'svc3.dev/kvm': '1' },
      [109, 10 * Mi, 7],
    ],
  ])('requests of the pod take the place of those of its containers: %s', (_sentence, requests, expected) => {
    const spec = {
      nodeName: 'n1',
      initContainers: [takes(9)],
      containers: [takes(4), { name: 'y', resources: { requests: { 'ephemeral-storage': '7' } } }],
      resources: { requests },
      overhead: { cpu: '100m', memory: '1Mi' },
    };
    const counted = podFacts({ ...pod, spec } as Pod)?.requests ?? [];
    expect([CPU, MEMORY, EPHEMERAL_STORAGE].map((i) => counted[i])).toEqual(expected);
    expect([counted[PODS], counted[KVM]]).toEqual([1, 0]);
  });

  // KEP-1287: a size that is asked for in place is not what the container has until its kubelet has granted it and carried it out.
  const cpus = (cpu: string | undefined) => (cpu === undefined ? {} : { cpu, memory: '1Mi' });
  const infeasible = [{ type: 'PodResizePending', status: 'True', reason: 'Infeasible' }];
  const deferred = [{ type: 'PodResizePending', status: 'True', reason: 'Deferred' }];
  const underway = [{ type: 'PodResizeInProgress', status: 'True' }];
  const resizes: [
    sentence: string,
    asked: string,
    granted: string | undefined,
    has: string | undefined,
    conditions: object[],
    cpuMilli: number,
  ][] = [
    ['nothing is reported of', '2', undefined, undefined, [], 2_000],
    ['has what it asks for', '2', '2', '2000m', [], 2_000],
    ['grows', '4', '4', '2', underway, 4_000],
    ['is to grow, as there is room for later', '4', '2', '2', deferred, 4_000],
    ['is to grow to what its node never has', '1000', '2', '2', infeasible, 2_000],
    ['shrinks, and has more yet', '1', '1', '4', underway, 4_000],
    ['is to shrink, and nobody has looked at it', '1', '4', '4', [], 4_000],
    ['has been granted more than it has, and than it asks for by now', '1', '4', '2', [], 4_000],
  ];

  test.each(resizes)('a container that %s counts for that', (...row) => {
    const [, asked, granted, has, conditions, cpuMilli] = row;
    const reported =
      has === undefined ? {} : { resources: { requests: cpus(has) }, allocatedResources: cpus(granted) };
    const container = { name: 'a', resources: { requests: cpus(asked) } };
    const counted = (spec: object, status: object) => {
      const of = {
        ...pod,
        spec: { nodeName: 'n1', containers: [], ...spec },
        status: { conditions, ...status },
      };
      return podFacts(of as unknown as Pod)?.requests[CPU];
    };
    const statuses = [{ name: 'other' }, { name: 'a', ...reported }];
    expect(counted({ containers: [container] }, { containerStatuses: statuses })).toBe(cpuMilli);
    const sidecars = { initContainers: [{ ...container, ...sidecar }] };
    expect(counted(sidecars, { initContainerStatuses: statuses })).toBe(cpuMilli);
    // As a whole it has what its containers are limited to together.
    expect(counted({ resources: { requests: cpus(asked) } }, reported)).toBe(cpuMilli);
  });

  test('an init container that is over counts as its spec says', () => {
    const requests = { cpu: '1' };
    const status = { initContainerStatuses: [{ name: 'i', resources: { requests: { cpu: '8' } } }] };
    const spec = { nodeName: 'n1', containers: [], initContainers: [{ name: 'i', resources: { requests } }] };
    expect(podFacts({ ...pod, spec, status } as unknown as Pod)?.requests[CPU]).toBe(1_000);
  });

  test('what no pod can ask for as a whole is not counted so, whatever is reported of the pod', () => {
    const status = { resources: { requests: { cpu: '8' } }, allocatedResources: { cpu: '8', memory: '8Gi' } };
    const spec = {
      nodeName: 'n1',
      containers: [takes(4)],
      resources: { requests: { memory: '2Gi' } },
    };
    const requests = podFacts({ ...pod, spec, status } as unknown as Pod)?.requests ?? [];
    expect([requests[CPU], requests[MEMORY]]).toEqual([4, 8 * 2 ** 30]);
  });

  test('the overhead comes on top of the start too', () => {
    const spec = {
      nodeName: 'n1',
      initContainers: [takes(9)],
      containers: [takes(4)],
      overhead: { memory: '1Mi' },
    };
    expect(podFacts({ ...pod, spec } as Pod)?.requests[MEMORY]).toBe(10 * Mi);
  });
});

describe('the neighbour that a pod is', () => {
  const term = { labelSelector: { matchLabels: { app: 'a' } }, topologyKey: 'host' };
  const neighbourOf = (terms: object[] | undefined, labels?: Record<string, string>) => {
    const affinity = {
      podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms },
    };
    const metadata = { ...pod.metadata, namespace: 'team', ...(labels === undefined ? {} : { labels }) };
    return podFacts({ metadata, spec: { ...pod.spec, affinity } } as Pod)?.neighbour;
  };

  test('has the labels of the pod, and repels whom its required anti-affinity names', () => {
    expect(neighbourOf([term], { app: 'b' })).toEqual({
      namespace: 'team',
      labels: { app: 'b' },
      repels: [term],
    });
    expect(neighbourOf(undefined)).toEqual({ namespace: 'team', labels: {}, repels: [] });
  });

  test.each([
    { namespaces: ['other'] },
    { namespaceSelector: {} },
    { namespaces: [], namespaceSelector: {} },
  ])('leaves terms with %j to kube-scheduler: they reach other namespaces', (reach) => {
    expect(neighbourOf([{ ...term, ...reach }, term])?.repels).toEqual([term]);
  });
});

describe('the node of a pod', () => {
  const field = (more: object = {}): object => ({
    matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n2'], ...more }],
  });
  const onTerms = (...nodeSelectorTerms: object[]): Pod => ({
    ...pod,
    spec: {
      containers: [],
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
    },
  });

  test.each<[string, Pod, string | undefined]>([
    ['it is bound to', { ...pinned, spec: { ...pinned.spec, nodeName: 'n1' } }, 'n1'],
    ['it is pinned on', pinned, 'n2'],
    ['is none of two that it may be on', onTerms(field({ values: ['n2', 'n3'] })), undefined],
    ['is none of two terms', onTerms(field(), field()), undefined],
    ['is none without terms', onTerms(), undefined],
    ['is not one that it must not be on', onTerms(field({ operator: 'NotIn' })), undefined],
    ['is named by no other field', onTerms(field({ key: 'metadata.namespace' })), undefined],
    ['is not named by labels', onTerms({ matchExpressions: [] }), undefined],
    [
      'is named by one of several fields',
      onTerms({
        matchFields: [
          { key: 'x', operator: 'In', values: ['n3'] },
          ...(field() as { matchFields: object[] }).matchFields,
        ],
      }),
      'n2',
    ],
  ])('%s', (_sentence, of, expected) => {
    expect(nodeOf(of)).toBe(expected);
  });
});
