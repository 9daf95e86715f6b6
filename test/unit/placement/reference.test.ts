import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TopologySpreadConstraint } from '../../../src/api/affinity.ts';
import type { HostCpu } from '../../../src/api/hostcpu.ts';
import type { NodeFacts, PodFacts } from '../../../src/placement/facts.ts';
import { explain } from '../../../src/placement/explain.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place, type PlacementRequest } from '../../../src/placement/place.ts';
import type { Toleration } from '../../../src/placement/taints.ts';
import { aNode, aPod, aRequest, Gi, ranges } from './builders.ts';
import { oracle, startsWarm, type Taken, verdict } from './oracle.ts';

const smallRanges = { ssh: { first: 8822, last: 8823 }, screenshare: { first: 5900, last: 5900 } };

const name = fc.integer({ min: 0, max: 11 }).map((i) => `n${i}`);

const taint = fc.record({
  key: fc.constantFrom(
    'a',
    'b',
    'node.kubernetes.io/not-ready',
    'node.kubernetes.io/unreachable',
    'node.kubernetes.io/unschedulable',
  ),
  value: fc.constantFrom('', 'x'),
  effect: fc.constantFrom('NoSchedule', 'PreferNoSchedule', 'NoExecute'),
});

const toleration: fc.Arbitrary<Toleration> = fc.record({
  key: fc.constantFrom(undefined, '', 'a', 'b'),
  operator: fc.constantFrom(undefined, 'Exists', 'Equal'),
  value: fc.constantFrom(undefined, '', 'x'),
  effect: fc.constantFrom(undefined, '', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'),
});

const few = <T>(each: fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.oneof(
    { weight: 2, arbitrary: fc.constant<T[]>([]) },
    { weight: 1, arbitrary: fc.array(each, { maxLength: 2 }) },
  );

const zone = fc.constantFrom('z1', 'z2', undefined);
const app = fc.constantFrom({}, { app: 'a' }, { app: 'b' }, { app: 'a', tier: '1' });

const labelSelector = fc.constantFrom<TopologySpreadConstraint['labelSelector']>(
  {},
  { matchLabels: { app: 'a' } },
  { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['a'] }] },
  { matchExpressions: [{ key: 'tier', operator: 'Exists' }] },
  { matchLabels: { app: 'a' }, matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] },
);
const topologyKey = fc.constantFrom('zone', 'host');
const podTerm = fc.record({ labelSelector, topologyKey });

const expression = fc.constantFrom<{
  key: string;
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';
  values?: string[];
}>(
  { key: 'zone', operator: 'In', values: ['z1', 'z3'] },
  { key: 'zone', operator: 'NotIn', values: ['z1'] },
  { key: 'zone', operator: 'Exists' },
  { key: 'zone', operator: 'DoesNotExist' },
  { key: 'size', operator: 'Gt', values: ['1'] },
  { key: 'size', operator: 'Lt', values: ['2'] },
);
const nodeTerm = fc.record({ matchExpressions: fc.array(expression, { minLength: 1, maxLength: 2 }) });
const weight = fc.constantFrom(1, 2, 100);

const podTerms = fc.record(
  {
    requiredDuringSchedulingIgnoredDuringExecution: fc.array(podTerm, { maxLength: 2 }),
    preferredDuringSchedulingIgnoredDuringExecution: fc.array(
      fc.record({ weight, podAffinityTerm: podTerm }),
      {
        maxLength: 2,
      },
    ),
  },
  { requiredKeys: [] },
);
const affinity = fc.record(
  {
    nodeAffinity: fc.record(
      {
        requiredDuringSchedulingIgnoredDuringExecution: fc.record({
          nodeSelectorTerms: fc.array(nodeTerm, { minLength: 1, maxLength: 2 }),
        }),
        preferredDuringSchedulingIgnoredDuringExecution: fc.array(
          fc.record({ weight, preference: nodeTerm }),
          {
            maxLength: 2,
          },
        ),
      },
      { requiredKeys: [] },
    ),
    podAffinity: podTerms,
    podAntiAffinity: podTerms,
  },
  { requiredKeys: [] },
);
const spread = fc.record({
  maxSkew: fc.constantFrom(1, 2),
  topologyKey,
  whenUnsatisfiable: fc.constantFrom('DoNotSchedule' as const, 'ScheduleAnyway' as const),
  labelSelector,
});

const hostCpu = fc.constantFrom<HostCpu>(
  { model: 'old', flags: ['sse'] },
  { model: 'old', flags: ['avx', 'sse'] },
  { model: 'new', flags: ['avx', 'sse'] },
);
const savedMemory = fc.record({
  accelerator: fc.constantFrom('kvm' as const, 'tcg' as const),
  hostCpu: fc.option(hostCpu, { nil: undefined }),
  refusal: fc.option(fc.constant('the memory was saved with CPUs: 2, the VM has 1'), {
    nil: undefined,
    freq: 1,
  }),
});

const node = fc
  .record({
    name,
    zone,
    size: fc.constantFrom('1', '2', 'large', undefined),
    cpu: fc.integer({ min: 0, max: 6 }),
    memory: fc.integer({ min: 1, max: 6 }),
    ephemeral: fc.integer({ min: 0, max: 3 }),
    pods: fc.constantFrom(1, 2, 110),
    gpu: fc.constantFrom(0, 0, 1, 2),
    kvm: fc.constantFrom(0, 2),
    gpuEnabled: fc.boolean(),
    ready: fc.constantFrom(true, true, true, true, true, false),
    cordoned: fc.constantFrom(false, false, false, false, false, true),
    operatingSystem: fc.constantFrom('linux', 'linux', 'linux', 'linux', 'linux', 'windows'),
    architecture: fc.constantFrom('amd64', 'amd64', 'arm64'),
    accelerator: fc.constantFrom(undefined, undefined, undefined, 'kvm' as const, 'tcg' as const),
    reservedFor: fc.constantFrom(undefined, undefined, undefined, 'default', 'other'),
    reportsEphemeralStorage: fc.constantFrom(true, true, false),
    hostCpu: fc.option(hostCpu, { nil: undefined, freq: 3 }),
    foundKvm: fc.constantFrom(undefined, undefined, false, true),
    tags: fc.constantFrom([], ['x'], ['x', 'y'], ['y', 'x']),
    taints: few(taint),
  })
  .map(({ name, zone, size, ...given }) => {
    const labels = {
      host: name,
      ...(zone === undefined ? {} : { zone }),
      ...(size === undefined ? {} : { size }),
    };
    return aNode(name, { ...given, labels });
  });

const port = fc.record({
  port: fc.constantFrom(5899, 5900, 5901, 8821, 8822, 8823, 8824, 20000),
  protocol: fc.constantFrom('TCP' as const, 'TCP' as const, 'UDP' as const),
});
const portOf = ({ port, protocol }: { port: number; protocol: string }): string => `${port}${protocol}`;

const pod = fc
  .record({
    uid: fc.integer({ min: 0, max: 30 }).map((i) => `p${i}`),
    node: name,
    cpu: fc.integer({ min: 0, max: 3 }),
    memory: fc.integer({ min: 0, max: 3 }),
    ephemeral: fc.integer({ min: 0, max: 2 }),
    kvm: fc.constantFrom(0, 0, 1),
    gpu: fc.constantFrom(0, 0, 1),
    ports: fc.uniqueArray(port, { maxLength: 2, selector: portOf }),
    assumedAs: fc.constantFrom(undefined, 'vm-0', 'vm-1', 'vm-2'),
    isNodeAgent: fc.constantFrom(false, false, false, false, true),
    neighbour: fc.record({
      namespace: fc.constantFrom('default', 'default', 'other'),
      labels: app,
      repels: fc.oneof(
        { weight: 5, arbitrary: fc.constant([]) },
        { weight: 1, arbitrary: fc.array(podTerm, { maxLength: 1 }) },
      ),
    }),
  })
  .map(({ uid, node, ...given }) => aPod(uid, node, given));

const request = fc
  .record({
    cpu: fc.integer({ min: 0, max: 4 }),
    memory: fc.integer({ min: 0, max: 4 }),
    emulation: fc.integer({ min: 0, max: 1 }),
    gpu: fc.boolean(),
    accelerator: fc.constantFrom('auto' as const, 'kvm' as const, 'tcg' as const),
    nodeName: fc.option(name, { nil: undefined, freq: 6 }),
    tag: fc.constantFrom(undefined, 'x', 'y'),
    tagRequired: fc.boolean(),
    packed: fc.boolean(),
    architecture: fc.constantFrom('amd64', 'amd64', 'arm64', undefined),
    ephemeral: fc.integer({ min: 0, max: 2 }),
    tolerations: few(toleration),
    avoid: fc.option(
      fc.uniqueArray(name, { maxLength: 2 }).map((names) => new Set(names)),
      { nil: undefined, freq: 3 },
    ),
    saved: fc.option(savedMemory, { nil: undefined, freq: 1 }),
    services: fc.constantFrom(
      [],
      ['ssh' as const],
      ['ssh' as const, 'screenshare' as const],
      ['vnc' as const],
    ),
    reservedPorts: fc.uniqueArray(port, { maxLength: 2, selector: portOf }),
    labels: app,
    affinity: fc.option(affinity, { nil: undefined, freq: 3 }),
    topologySpreadConstraints: few(spread),
  })
  .map(({ cpu, memory, emulation, ephemeral, avoid, saved, ...given }) =>
    aRequest({
      ...given,
      ...(avoid === undefined ? {} : { avoid }),
      memory: saved,
      cpuMilli: cpu * 1000,
      memoryBytes: memory * Gi,
      emulationBytes: emulation * Gi,
      ephemeralStorageBytes: ephemeral * Gi,
    }),
  );

type Step =
  | { kind: 'node'; node: NodeFacts }
  | { kind: 'nodeGone'; name: string }
  | { kind: 'pod'; pod: PodFacts }
  | { kind: 'podGone'; uid: string }
  | { kind: 'place'; request: PlacementRequest; assumedAs: string }
  | { kind: 'forget'; assumedAs: string };

const assumedAs = fc.constantFrom('vm-0', 'vm-1', 'vm-2');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: node.map((value) => ({ kind: 'node' as const, node: value })) },
  { weight: 1, arbitrary: name.map((value) => ({ kind: 'nodeGone' as const, name: value })) },
  { weight: 4, arbitrary: pod.map((value) => ({ kind: 'pod' as const, pod: value })) },
  { weight: 1, arbitrary: pod.map((value) => ({ kind: 'podGone' as const, uid: value.uid })) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('place' as const), request, assumedAs }) },
  { weight: 1, arbitrary: assumedAs.map((value) => ({ kind: 'forget' as const, assumedAs: value })) },
);

/** What has happened so far, as plain lists. */
class World {
  readonly nodes = new Map<string, NodeFacts>();
  readonly pods = new Map<string, PodFacts>();
  readonly assumed = new Map<string, Taken>();

  taken(): Taken[] {
    return [...this.pods.values(), ...this.assumed.values()];
  }
}

function run(steps: readonly Step[]): void {
  const inventory = new Inventory(smallRanges);
  const world = new World();
  for (const step of steps)
    if (step.kind === 'node') {
      inventory.setNode(step.node);
      world.nodes.set(step.node.name, step.node);
    } else if (step.kind === 'nodeGone') {
      inventory.removeNode(step.name);
      world.nodes.delete(step.name);
    } else if (step.kind === 'pod') {
      inventory.setPod(step.pod);
      world.pods.set(step.pod.uid, step.pod);
      if (step.pod.assumedAs !== undefined) world.assumed.delete(step.pod.assumedAs);
    } else if (step.kind === 'podGone') {
      inventory.removePod(step.uid);
      world.pods.delete(step.uid);
    } else if (step.kind === 'forget') {
      inventory.forget(step.assumedAs);
      world.assumed.delete(step.assumedAs);
    } else decide(inventory, world, step);
}

function decide(inventory: Inventory, world: World, step: Extract<Step, { kind: 'place' }>): void {
  const nodes = [...world.nodes.values()];
  const expected = oracle(nodes, world.taken(), smallRanges, step.request);
  const result = place(inventory, step.request);
  // A refusal does not know of nodes to avoid: they are left out for moments, and only where others fit.
  if (result.kind !== 'placed') {
    const { avoid, ...plain } = step.request;
    if (avoid === undefined) expect(result.message).toBe(expected.outcome);
    else expect(oracle(nodes, world.taken(), smallRanges, step.request).ports).toBeUndefined();
    explained(inventory, nodes, world, plain);
    return;
  }
  expect({ outcome: result.node, accelerator: result.accelerator, ports: result.ports }).toEqual(expected);
  inventory.assume(step.assumedAs, result.usage);
  world.assumed.set(step.assumedAs, result.usage);
}

/** `explain` gives each node the reasons that the oracle has against it alone. */
function explained(
  inventory: Inventory,
  nodes: readonly NodeFacts[],
  world: World,
  request: PlacementRequest,
): void {
  for (const { node, fits, reasons, warmStart } of explain(inventory, request)) {
    const facts = nodes.find(({ name }) => name === node)!;
    const expected = verdict(facts, nodes, world.taken(), smallRanges, request);
    expect([node, fits, reasons]).toEqual([node, expected.length === 0, expected]);
    expect(warmStart?.fromMemory).toBe(startsWarm(facts, request));
  }
}

// Hundreds of histories: seconds on an idle machine.
describe('placement kept by events', { timeout: 120_000 }, () => {
  test('decides like a naive one that shares no code with it and looks at every node', () => {
    fc.assert(fc.property(fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }), run), {
      numRuns: 1_000,
    });
  });

  test('never puts two GPU VMs on a node, however many are thrown at it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 20 }), (nodes, vms) => {
        const inventory = new Inventory(ranges);
        for (let i = 0; i < nodes; i++)
          inventory.setNode(aNode(`n${i}`, { gpuEnabled: true, gpu: 1, cpu: 100, memory: 100 }));
        const taken: string[] = [];
        for (let i = 0; i < vms; i++) {
          const result = place(inventory, aRequest({ gpu: true }));
          if (result.kind !== 'placed') continue;
          inventory.assume(`vm-${i}`, result.usage);
          taken.push(result.node);
        }
        expect(new Set(taken).size).toBe(taken.length);
        expect(taken).toHaveLength(Math.min(nodes, vms));
      }),
    );
  });
});
