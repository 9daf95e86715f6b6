import { describe, expect, test } from 'vitest';
import type { NodeFacts } from '../../../src/placement/facts.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import type { PlacementRequest } from '../../../src/placement/place.ts';
import { unpinned } from '../../../src/placement/unpinned.ts';
import { aNode, aPod, aRequest, ranges } from './builders.ts';

/** A node whose name begins with `new` has a node agent that has not reported yet. */
function of(nodes: readonly NodeFacts[], request: Partial<PlacementRequest>) {
  const inventory = new Inventory(ranges);
  for (const node of nodes) {
    inventory.setNode(node);
    if (node.name.startsWith('new'))
      inventory.setPod(aPod(`agent-${node.name}`, node.name, { cpu: 0, isNodeAgent: true }));
  }
  return unpinned(inventory, aRequest(request));
}

const zone = (value: string): Partial<PlacementRequest> => ({
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [{ key: 'zone', operator: 'In', values: [value] }] }],
      },
    },
  },
});
const inZone = (value: string) => ({ labels: { zone: value } });
const refusedBy = (...nodes: string[]): Partial<PlacementRequest> => ({ avoid: new Set(nodes) });

describe('a pod that is left to kube-scheduler', () => {
  const full = { kvm: 1, cpu: 0 };
  const tainted = (key: string) => ({
    ready: false,
    taints: [{ key: `node.kubernetes.io/${key}`, effect: 'NoSchedule' }],
  });
  const lasting = { key: 'team', value: 'x', effect: 'NoSchedule' };
  const starting = { key: 'node.cloudprovider.kubernetes.io/uninitialized', effect: 'NoSchedule' };
  const kvm = { accelerator: 'kvm' as const };

  test.each<[sentence: string, nodes: NodeFacts[], request: Partial<PlacementRequest>, expected: string]>([
    ['runs under kvm where a node that is full has it', [aNode('a'), aNode('b', full)], {}, 'kvm'],
    ['also where that node is cordoned for now', [aNode('a', { ...full, cordoned: true })], {}, 'kvm'],
    ['also where that node is down for now', [aNode('a', { ...full, ...tainted('not-ready') })], {}, 'kvm'],
    [
      'but not where it is off, and another has none',
      [aNode('a', { ...full, ...tainted('out-of-service') }), aNode('b')],
      {},
      'auto',
    ],
    [
      'also where its cloud provider has not set it up yet',
      [aNode('a', { ...full, taints: [starting] }), aNode('b')],
      {},
      'kvm',
    ],
    ['also where its device is not ready', [aNode('a', { foundKvm: true, cpu: 0 })], {}, 'kvm'],
    ['also where another has not reported yet', [aNode('a', full), aNode('new', { cpu: 0 })], {}, 'kvm'],
    ['emulates where no node has it', [aNode('a')], {}, 'auto'],
    [
      'emulates where only nodes of others have it',
      [aNode('a', { ...full, reservedFor: 'x' }), aNode('b')],
      {},
      'auto',
    ],
    ['emulates where the node is labelled so', [aNode('a', { ...full, accelerator: 'tcg' })], {}, 'auto'],
    [
      'emulates where the node that it names has none',
      [aNode('a'), aNode('b', full)],
      { nodeName: 'a' },
      'auto',
    ],
    [
      'runs under kvm where the node that it names has it',
      [aNode('a'), aNode('b', full)],
      { nodeName: 'b' },
      'kvm',
    ],
    [
      'emulates where its affinity excludes the nodes that have it',
      [aNode('a', inZone('east')), aNode('b', { ...full, ...inZone('west') })],
      zone('east'),
      'auto',
    ],
    [
      'runs under kvm where its affinity takes a node that has it',
      [aNode('a', inZone('east')), aNode('b', { ...full, ...inZone('west') })],
      zone('west'),
      'kvm',
    ],
    ['emulates where there is no node', [], {}, 'auto'],
    [
      'runs under kvm where all nodes are those of others, and have it',
      [aNode('a', { ...full, reservedFor: 'x' })],
      {},
      'kvm',
    ],
    ['runs under kvm where only nodes without a GPU have it', [aNode('a', full)], { gpu: true }, 'kvm'],
    ['also where that device is not ready', [aNode('a', { foundKvm: true })], { gpu: true }, 'kvm'],
    [
      'but not where these are labelled to emulate',
      [aNode('a', { ...full, accelerator: 'tcg' })],
      { gpu: true },
      'auto',
    ],
    [
      'nor where they are labelled to have it and have none',
      [aNode('a', { accelerator: 'kvm' })],
      { gpu: true },
      'auto',
    ],
    ['nor where they have not reported yet', [aNode('new')], { gpu: true }, 'auto'],
    ['nor where none of these has it', [aNode('a')], { gpu: true }, 'auto'],
    ['nor where the chart says to emulate', [aNode('a', full)], { gpu: true, accelerator: 'tcg' }, 'tcg'],
    [
      'runs under kvm where nodes with another tag have it',
      [aNode('a', full)],
      { tag: 'big', tagRequired: true },
      'kvm',
    ],
    [
      'emulates where only nodes of another architecture have it',
      [aNode('a', full)],
      { architecture: 'arm64' },
      'auto',
    ],
    [
      'runs under kvm where any has it, its architecture being unknown',
      [aNode('a', full)],
      { gpu: true, architecture: undefined },
      'kvm',
    ],
    [
      'runs under kvm where the node that it names is not there, and another has it',
      [aNode('a', full)],
      { nodeName: 'z' },
      'kvm',
    ],
    [
      'emulates where the node that it names has a taint, and none',
      [aNode('a', { taints: [lasting] }), aNode('b', full)],
      { nodeName: 'a' },
      'auto',
    ],
    [
      'runs under kvm where the node that it names has a taint, and has it',
      [aNode('a', { ...full, taints: [lasting] }), aNode('b')],
      { nodeName: 'a' },
      'kvm',
    ],
    [
      'runs under kvm where the first node of its kind is new and not ready, and others have it',
      [
        aNode('new', { ...tainted('not-ready'), ...inZone('east') }),
        aNode('b', { ...full, ...inZone('west') }),
      ],
      zone('east'),
      'kvm',
    ],
    [
      'and where the nodes of its zone are of another architecture',
      [aNode('a', { architecture: 'arm64', ...inZone('east') }), aNode('b', { ...full, ...inZone('west') })],
      zone('east'),
      'kvm',
    ],
    [
      'emulates where such a node is new and not ready, and another that takes it has none',
      [aNode('new', tainted('not-ready')), aNode('b', { cpu: 0 }), aNode('c', { ...full, reservedFor: 'x' })],
      {},
      'auto',
    ],
    [
      'emulates where those that have it have refused it, and another takes it that has none',
      [aNode('a', { kvm: 1 }), aNode('b', { cordoned: true })],
      refusedBy('a'),
      'auto',
    ],
    [
      'runs under kvm where one that has it and is full has not refused it',
      [aNode('a', { kvm: 1 }), aNode('b'), aNode('c', full)],
      refusedBy('a'),
      'kvm',
    ],
    ['runs under kvm where all have refused it, and have it', [aNode('a', full)], refusedBy('a'), 'kvm'],
    [
      'emulates where all of its zone have refused it, and have none',
      [aNode('a', inZone('east')), aNode('b', { ...full, ...inZone('west') })],
      { ...zone('east'), ...refusedBy('a') },
      'auto',
    ],
    [
      'emulates where the node that it names has refused it, and has none',
      [aNode('a'), aNode('b', full)],
      { nodeName: 'a', ...refusedBy('a') },
      'auto',
    ],
    ['runs as the chart says', [], kvm, 'kvm'],
    ['also where no node has kvm', [aNode('a')], kvm, 'kvm'],
    [
      'but not where all that take it are labelled to emulate',
      [aNode('a', { accelerator: 'tcg' })],
      kvm,
      'tcg',
    ],
    ['also where it says to emulate', [aNode('a', full)], { accelerator: 'tcg' }, 'tcg'],
  ])('%s', (_sentence, nodes, request, expected) => {
    expect(of(nodes, request)?.accelerator).toBe(expected);
  });

  const silent = { reportsEphemeralStorage: false };

  test.each<[sentence: string, nodes: NodeFacts[], request: Partial<PlacementRequest>, expected: boolean]>([
    ['where there is no node yet', [], {}, true],
    ['where there is none of its kind yet', [aNode('a', { ...full, ...silent })], { gpu: true }, true],
    ['where a node reports it', [aNode('a', silent), aNode('b')], {}, true],
    ['not where none does', [aNode('a', silent)], {}, false],
    ['not where the node that it names does not', [aNode('a', silent), aNode('b')], { nodeName: 'a' }, false],
    ['not where only nodes of others do', [aNode('a', silent), aNode('b', { reservedFor: 'x' })], {}, false],
    [
      'not where only nodes without kvm do, and it asks for that',
      [aNode('a', { ...full, ...silent }), aNode('b')],
      {},
      false,
    ],
  ])('asks for local storage %s', (_sentence, nodes, request, expected) => {
    expect(of(nodes, request)?.requestsEphemeralStorage).toBe(expected);
  });

  test.each<[sentence: string, nodes: NodeFacts[], request?: Partial<PlacementRequest>]>([
    ['has not reported yet', [aNode('new')]],
    ['is full and has not reported yet, and no other has kvm', [aNode('new', { cpu: 0 }), aNode('a')]],
    [
      'is full and has not reported yet, as another without kvm',
      [aNode('new', { cpu: 0 }), aNode('a', { cpu: 0 })],
    ],
    ['has room and has not reported yet, though another has kvm', [aNode('new'), aNode('a', full)]],
    ['has not its device yet, and room', [aNode('a', { foundKvm: true })]],
    [
      'has not its device yet, and room without a port that is taken',
      [aNode('a', { foundKvm: true })],
      { reservedPorts: [{ port: 20000, protocol: 'TCP' }] },
    ],
    ['has not its device yet, and room, where the chart says kvm', [aNode('a', { foundKvm: true })], kvm],
  ])('is not made while a node %s', (_sentence, nodes, request = {}) => {
    expect(of(nodes, request)).toBeUndefined();
  });

  test.each<[sentence: string, nodes: NodeFacts[], request: Partial<PlacementRequest>]>([
    ['is another than it names', [aNode('new'), aNode('a')], { nodeName: 'a' }],
    ['is excluded by its affinity', [aNode('new', inZone('west')), aNode('a', inZone('east'))], zone('east')],
    ['is labelled to emulate', [aNode('new', { accelerator: 'tcg' })], {}],
    ['is reserved for others', [aNode('new', { reservedFor: 'x' })], {}],
    ['would emulate, as the chart says', [aNode('new')], { accelerator: 'tcg' }],
    ['is down', [aNode('new', { cpu: 0, ...tainted('not-ready') }), aNode('a')], {}],
    ['is cordoned', [aNode('new', { cpu: 0, cordoned: true }), aNode('a')], {}],
  ])('is made where a node that has not reported yet %s', (_sentence, nodes, request) => {
    expect(of(nodes, request)).toBeDefined();
  });
});
