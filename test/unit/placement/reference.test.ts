import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { NodeFacts, PodFacts } from '../../../src/placement/facts.ts';
import { explain } from '../../../src/placement/explain.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place, type PlacementRequest } from '../../../src/placement/place.ts';
import { refusalSentence } from '../../../src/placement/reasons.ts';
import { aNode, aPod, aRequest, Gi, ranges } from './builders.ts';

const smallRanges = { ...ranges, ssh: { first: 8822, last: 8823 } };

const name = fc.integer({ min: 0, max: 11 }).map((i) => `n${i}`);

const node = fc
  .record({
    name,
    cpu: fc.integer({ min: 1, max: 6 }),
    memory: fc.integer({ min: 1, max: 6 }),
    pods: fc.constantFrom(2, 110),
    gpu: fc.constantFrom(0, 0, 1),
    kvm: fc.constantFrom(0, 2),
    gpuEnabled: fc.boolean(),
    ready: fc.constantFrom(true, true, true, false),
    cordoned: fc.constantFrom(false, false, false, true),
    architecture: fc.constantFrom('amd64', 'amd64', 'arm64'),
    tags: fc.constantFrom([], ['x'], ['x', 'y']),
    soft: fc.boolean(),
  })
  .map(({ name, soft, ...given }) =>
    aNode(name, { ...given, taints: soft ? [{ key: 'soft', effect: 'PreferNoSchedule' }] : [] }),
  );

const port = fc.constantFrom(8822, 8823, 20000).map((number) => ({ port: number, protocol: 'TCP' as const }));

const pod = fc
  .record({
    uid: fc.integer({ min: 0, max: 30 }).map((i) => `p${i}`),
    node: name,
    cpu: fc.integer({ min: 0, max: 3 }),
    memory: fc.integer({ min: 0, max: 3 }),
    gpu: fc.constantFrom(0, 0, 1),
    ports: fc.uniqueArray(port, { maxLength: 2, selector: (p) => p.port }),
    claim: fc.constantFrom(undefined, 'vm-0', 'vm-1', 'vm-2'),
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
    services: fc.constantFrom([], ['ssh' as const]),
    reservedPorts: fc.uniqueArray(port, { maxLength: 1 }),
  })
  .map(({ cpu, memory, emulation, ...given }) =>
    aRequest({ ...given, cpuMilli: cpu * 1000, memoryBytes: memory * Gi, emulationBytes: emulation * Gi }),
  );

type Step =
  | { kind: 'node'; node: NodeFacts }
  | { kind: 'nodeGone'; name: string }
  | { kind: 'pod'; pod: PodFacts }
  | { kind: 'podGone'; uid: string }
  | { kind: 'place'; request: PlacementRequest; claim: string }
  | { kind: 'forget'; claim: string };

const claim = fc.constantFrom('vm-0', 'vm-1', 'vm-2');
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: node.map((value) => ({ kind: 'node' as const, node: value })) },
  { weight: 1, arbitrary: name.map((value) => ({ kind: 'nodeGone' as const, name: value })) },
  { weight: 4, arbitrary: pod.map((value) => ({ kind: 'pod' as const, pod: value })) },
  { weight: 1, arbitrary: pod.map((value) => ({ kind: 'podGone' as const, uid: value.uid })) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('place' as const), request, claim }) },
  { weight: 1, arbitrary: claim.map((value) => ({ kind: 'forget' as const, claim: value })) },
);

/** An inventory made anew from what is known, so that nothing of the one under test's history is in it. */
class World {
  readonly nodes = new Map<string, NodeFacts>();
  readonly pods = new Map<string, PodFacts>();
  readonly assumed = new Map<string, PodFacts>();

  fresh(): Inventory {
    const inventory = new Inventory(smallRanges);
    for (const value of this.nodes.values()) inventory.setNode(value);
    for (const value of [...this.pods.values(), ...this.assumed.values()]) {
      inventory.setPod({ ...value, claim: undefined });
    }
    return inventory;
  }
}

/** The naive way: the verdict on every node, one after the other, then the best by a plain sort. */
function naive(inventory: Inventory, wanted: PlacementRequest): string {
  const verdicts = explain(inventory, wanted);
  const score = new Map(inventory.nodes().map((state) => [state.name, state] as const));
  const fitting = verdicts.filter((verdict) => verdict.fits).map((verdict) => score.get(verdict.node)!);
  if (fitting.length === 0) {
    const counts = new Map<string, number>();
    for (const verdict of verdicts) {
      for (const reason of verdict.reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
    }
    return refusalSentence(verdicts.length, counts);
  }
  const rank = (facts: NodeFacts) =>
    facts.taints.length + (wanted.tag !== undefined && !facts.tags.includes(wanted.tag) ? 1000 : 0);
  fitting.sort((a, b) => {
    const byRank = rank(a.facts!) - rank(b.facts!);
    if (byRank !== 0) return byRank;
    const better = b.score - a.score || (a.name < b.name ? -1 : 1);
    return wanted.packed ? -better : better;
  });
  return fitting[0]!.name;
}

function run(steps: readonly Step[]): void {
  const inventory = new Inventory(smallRanges);
  const world = new World();
  for (const step of steps) {
    if (step.kind === 'node') {
      inventory.setNode(step.node);
      world.nodes.set(step.node.name, step.node);
    } else if (step.kind === 'nodeGone') {
      inventory.removeNode(step.name);
      world.nodes.delete(step.name);
    } else if (step.kind === 'pod') {
      inventory.setPod(step.pod);
      world.pods.set(step.pod.uid, step.pod);
      if (step.pod.claim !== undefined) world.assumed.delete(step.pod.claim);
    } else if (step.kind === 'podGone') {
      inventory.removePod(step.uid);
      world.pods.delete(step.uid);
    } else if (step.kind === 'forget') {
      inventory.forget(step.claim);
      world.assumed.delete(step.claim);
    } else {
      decide(inventory, world, step);
    }
  }
}

function decide(inventory: Inventory, world: World, step: Extract<Step, { kind: 'place' }>): void {
  const result = place(inventory, step.request);
  const outcome = result.kind === 'placed' ? result.node : result.message;
  expect(outcome).toBe(naive(world.fresh(), step.request));
  if (result.kind !== 'placed') return;
  inventory.assume(step.claim, result.usage);
  world.assumed.set(step.claim, { ...result.usage, uid: `assumed-${step.claim}`, claim: undefined });
}

// Hundreds of histories: seconds on an idle machine.
describe('placement kept by events', { timeout: 120_000 }, () => {
  test('decides like a naive one that is made anew and looks at every node', () => {
    fc.assert(fc.property(fc.array(step, { minLength: 10, maxLength: 60 }), run), { numRuns: 400 });
  });

  test('never puts two GPU VMs on a node, however many are thrown at it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 20 }), (nodes, vms) => {
        const inventory = new Inventory(ranges);
        for (let i = 0; i < nodes; i++) {
          inventory.setNode(aNode(`n${i}`, { gpuEnabled: true, gpu: 1, cpu: 100, memory: 100 }));
        }
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
