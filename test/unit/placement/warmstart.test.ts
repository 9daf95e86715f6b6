import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SavedMachine } from '../../../src/api/memory.ts';
import { explain } from '../../../src/placement/explain.ts';
import type { NodeFacts, PodFacts } from '../../../src/placement/facts.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place, type PlacementRequest } from '../../../src/placement/place.ts';
import { coldReason } from '../../../src/placement/warmstart.ts';
import { misfit } from '../../../src/runner/savedmachine.ts';
import { aNode, aPod, aRequest, ranges } from './builders.ts';

const oldCpu = { model: 'Old CPU', flags: ['avx', 'sse'] };
const newCpu = { model: 'New CPU', flags: ['avx', 'avx512', 'sse'] };
const saved = { accelerator: 'kvm', hostCpu: oldCpu } as const;

/** `warm` fits the memory and has less room than `cold`, and a name that comes later. */
const cold = aNode('cold', { kvm: 2, hostCpu: newCpu });
const warm = aNode('warm', { kvm: 2, hostCpu: oldCpu });
const busy = aPod('p', 'warm', { cpu: 4 });

function inventoryOf(nodes: readonly NodeFacts[], pods: readonly PodFacts[] = []): Inventory {
  const inventory = new Inventory(ranges);
  for (const node of nodes) inventory.setNode(node);
  for (const pod of pods) inventory.setPod(pod);
  return inventory;
}

function placed(nodes: readonly NodeFacts[], pods: readonly PodFacts[], request: Partial<PlacementRequest>) {
  const result = place(inventoryOf(nodes, pods), aRequest({ memory: saved, ...request }));
  return result.kind === 'placed' ? result.node : result.message;
}

const tagged = (node: NodeFacts): NodeFacts => ({ ...node, tags: ['ci'] });
const zoned = (node: NodeFacts, zone: string): NodeFacts => ({ ...node, labels: { zone } });
const preferring = (zone: string): Partial<PlacementRequest> => ({
  affinity: {
    nodeAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [
        { weight: 1, preference: { matchExpressions: [{ key: 'zone', operator: 'In', values: [zone] }] } },
      ],
    },
  },
});

describe('a memory that a guest may go on from', () => {
  test.each<[string, NodeFacts[], PodFacts[], Partial<PlacementRequest>, string]>([
    ['prefers a node that it fits to a freer one', [cold, warm], [busy], {}, 'warm'],
    [
      'prefers it too where the fullest is packed',
      [cold, warm],
      [aPod('p', 'cold')],
      { packed: true },
      'warm',
    ],
    ['chooses the freest of those', [cold, warm, { ...warm, name: 'warmer' }], [busy], {}, 'warmer'],
    [
      'refuses no node: the others are taken when those are full',
      [cold, warm],
      [aPod('p', 'warm', { cpu: 8 })],
      {},
      'cold',
    ],
    ['never overrides a name', [cold, warm], [], { nodeName: 'cold' }, 'cold'],
    ['never overrides what is required', [tagged(cold), warm], [], { tag: 'ci', tagRequired: true }, 'cold'],
    ['comes after a tag that is preferred', [tagged(cold), warm], [], { tag: 'ci' }, 'cold'],
    ['decides between nodes that have the tag', [tagged(cold), tagged(warm)], [busy], { tag: 'ci' }, 'warm'],
    [
      'comes after soft taints',
      [cold, { ...warm, taints: [{ key: 'x', effect: 'PreferNoSchedule' }] }],
      [],
      {},
      'cold',
    ],
    [
      'comes after a single soft taint, however full the node without it is',
      [cold, { ...warm, taints: [{ key: 'x', effect: 'PreferNoSchedule' }] }],
      [aPod('p', 'cold', { cpu: 4 })],
      {},
      'cold',
    ],
    [
      'comes after what affinity prefers',
      [zoned(cold, 'z1'), zoned(warm, 'z2')],
      [],
      preferring('z1'),
      'cold',
    ],
    [
      'decides where affinity prefers both alike',
      [zoned(cold, 'z1'), zoned(warm, 'z1')],
      [busy],
      preferring('z1'),
      'warm',
    ],
    [
      'says nothing where it does not fit the VM',
      [cold, warm],
      [busy],
      { memory: { ...saved, refusal: 'no' } },
      'cold',
    ],
    [
      'goes by the accelerator that the node gives',
      [aNode('a'), aNode('b', { kvm: 1, hostCpu: oldCpu })],
      [],
      {},
      'b',
    ],
    [
      'of an emulated guest goes by nothing else',
      [cold, { ...warm, accelerator: 'tcg' }],
      [busy],
      { memory: { accelerator: 'tcg' } },
      'warm',
    ],
    ['prefers a node whose CPU is known', [aNode('a', { kvm: 1 }), warm], [busy], {}, 'warm'],
  ])('%s', (_sentence, nodes, pods, request, outcome) => {
    expect(placed(nodes, pods, request)).toBe(outcome);
  });

  test('is told of each node, and of a VM without one nothing is', () => {
    const inventory = inventoryOf([
      warm,
      { ...warm, name: 'more', hostCpu: { ...oldCpu, flags: ['avx', 'new', 'sse'] } },
      { ...warm, name: 'less', hostCpu: { ...oldCpu, flags: ['sse'] } },
      cold,
      aNode('emulating'),
      aNode('unknown', { kvm: 1 }),
    ]);
    const told = explain(inventory, aRequest({ memory: saved }));
    expect(Object.fromEntries(told.map(({ node, warmStart }) => [node, warmStart]))).toEqual({
      warm: { fromMemory: true, message: '' },
      more: { fromMemory: true, message: '' },
      less: { fromMemory: false, message: "the node's CPU lacks features of that of the save: avx" },
      cold: {
        fromMemory: false,
        message: 'the memory was saved on CPU Old CPU, the node has New CPU',
      },
      emulating: { fromMemory: false, message: 'the memory was saved under kvm, the node has tcg' },
      unknown: { fromMemory: false, message: 'the node agent has not reported the CPU of the node' },
    });
    expect(explain(inventory, aRequest()).every(({ warmStart }) => warmStart === undefined)).toBe(true);
  });
});

test('what placement says of a node that has reported its CPU is what the runner says there', () => {
  const cpu = fc.record({
    model: fc.constantFrom('a', 'b'),
    flags: fc.subarray(['avx', 'sse', 'vmx']),
  });
  const host = fc.oneof(
    fc.record({ accelerator: fc.constant('kvm' as const), hostCpu: cpu }),
    fc.constant({ accelerator: 'tcg' as const }),
  );
  const machineOn = (on: Pick<SavedMachine, 'accelerator' | 'hostCpu'>): SavedMachine => ({
    version: 1,
    architecture: 'amd64',
    machineType: 'pc-q35-10.0',
    cpuModel: on.accelerator === 'kvm' ? 'host' : 'max',
    cpu: 1,
    memoryMiB: 1024,
    firmware: 'bios',
    diskBytes: 1,
    devices: [],
    qemu: '10.0.3',
    ...on,
  });
  fc.assert(
    fc.property(host, host, (before, node) => {
      expect(coldReason(before, node)).toBe(misfit(machineOn(before), machineOn(node))?.message);
    }),
    { numRuns: 1_000 },
  );
});
