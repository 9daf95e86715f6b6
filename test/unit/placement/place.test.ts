import { describe, expect, test } from 'vitest';
import type { NodeFacts, PodFacts } from '../../../src/placement/facts.ts';
import { explain } from '../../../src/placement/explain.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place, type PlacementRequest } from '../../../src/placement/place.ts';
import { KVM } from '../../../src/placement/resources.ts';
import { amounts, aNode, aPod, aRequest, Gi, ranges } from './builders.ts';

function inventoryOf(nodes: readonly NodeFacts[], pods: readonly PodFacts[] = []): Inventory {
  const inventory = new Inventory(ranges);
  for (const node of nodes) inventory.setNode(node);
  for (const pod of pods) inventory.setPod(pod);
  return inventory;
}

interface Row {
  sentence: string;
  nodes: NodeFacts[];
  pods?: PodFacts[];
  request?: Partial<PlacementRequest>;
  outcome: string;
}

const rows: Row[] = [
  {
    sentence: 'the freest node is taken',
    nodes: [aNode('a'), aNode('b')],
    pods: [aPod('p', 'a')],
    outcome: 'b',
  },
  {
    sentence: 'packing takes the fullest node that fits',
    nodes: [aNode('a'), aNode('b'), aNode('c')],
    pods: [aPod('p', 'a', { cpu: 8 }), aPod('q', 'b', { cpu: 2 })],
    request: { packed: true },
    outcome: 'b',
  },
  { sentence: 'of equal nodes the first by name is taken', nodes: [aNode('b'), aNode('a')], outcome: 'a' },
  {
    sentence: 'a requested tag wins over a freer node',
    nodes: [aNode('a'), aNode('b', { tags: ['ci'] })],
    pods: [aPod('p', 'b', { cpu: 6 })],
    request: { tag: 'ci' },
    outcome: 'b',
  },
  {
    sentence: 'a requested tag that has no room is no reason to wait',
    nodes: [aNode('a'), aNode('b', { tags: ['ci'] })],
    pods: [aPod('p', 'b', { cpu: 8 })],
    request: { tag: 'ci' },
    outcome: 'a',
  },
  {
    sentence: 'a requested tag wins over any number of soft taints',
    nodes: [
      aNode('a'),
      aNode('b', {
        tags: ['ci'],
        taints: ['x', 'y', 'z'].map((key) => ({ key, effect: 'PreferNoSchedule' })),
      }),
    ],
    request: { tag: 'ci' },
    outcome: 'b',
  },
  {
    sentence: 'of nodes with soft taints the one with fewer is taken, tolerated ones aside',
    nodes: [
      aNode('a', { taints: ['x', 'y'].map((key) => ({ key, effect: 'PreferNoSchedule' })) }),
      aNode('b', { taints: ['t', 'u', 'x'].map((key) => ({ key, effect: 'PreferNoSchedule' })) }),
    ],
    request: { tolerations: [{ key: 't' }, { key: 'u' }] },
    outcome: 'b',
  },
  {
    sentence: 'a node to be avoided is left out though it is the freest',
    nodes: [aNode('a'), aNode('b')],
    pods: [aPod('p', 'b', { cpu: 4 })],
    request: { avoid: new Set(['a']) },
    outcome: 'b',
  },
  {
    sentence: 'nodes that have all just turned the pod away are told as without free ports',
    nodes: [aNode('a'), aNode('b')],
    request: { avoid: new Set(['a', 'b']) },
    outcome: "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.",
  },
  {
    sentence: 'nodes of different kinds are one choice: the freest',
    nodes: [aNode('a', { cpu: 4 }), aNode('b', { tags: ['x'] }), aNode('c', { kvm: 1 })],
    pods: [aPod('p', 'a'), aPod('q', 'c', { cpu: 2 })],
    outcome: 'b',
  },
  {
    sentence: 'packing chooses among nodes of different kinds too',
    nodes: [aNode('a'), aNode('b', { tags: ['x'] }), aNode('c', { kvm: 1 })],
    pods: [aPod('p', 'b', { cpu: 2 }), aPod('q', 'a')],
    request: { packed: true },
    outcome: 'b',
  },
  {
    sentence: 'of equal nodes of different kinds the first by name is taken',
    nodes: [aNode('b'), aNode('a', { tags: ['x'] })],
    outcome: 'a',
  },
  {
    sentence: 'of equal nodes of different kinds packing takes the last by name',
    nodes: [aNode('b'), aNode('a', { tags: ['x'] })],
    request: { packed: true },
    outcome: 'b',
  },
  {
    sentence: 'an architecture that is not known is any',
    nodes: [aNode('a', { architecture: 'arm64' })],
    request: { architecture: undefined },
    outcome: 'a',
  },
  {
    sentence: 'a VM without a GPU is taken by a node whose GPU is in use',
    nodes: [aNode('a', { gpuEnabled: true, gpu: 1 })],
    pods: [aPod('p', 'a', { gpu: 1 })],
    outcome: 'a',
  },
  {
    sentence: 'slots of hardware virtualisation are counted',
    nodes: [aNode('a', { kvm: 1 })],
    pods: [aPod('p', 'a', { kvm: 1 })],
    outcome: '0/1 nodes are available: 1 Insufficient svc3.dev/kvm.',
  },
  {
    sentence: 'a reserved port of the range of SSH leaves one less for SSH',
    nodes: [aNode('a', { cpu: 100, memory: 100 })],
    pods: Array.from({ length: 49 }, (_, i) =>
      aPod(`p${i}`, 'a', { ports: [{ port: 8822 + i, protocol: 'TCP' }] }),
    ),
    request: { services: ['ssh'], reservedPorts: [{ port: 8871, protocol: 'TCP' }] },
    outcome: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
  },
  {
    sentence: 'a node with neither a port for SSH nor cpu is told by its ports',
    nodes: [aNode('a', { cpu: 0, memory: 100 })],
    pods: Array.from({ length: 50 }, (_, i) =>
      aPod(`p${i}`, 'a', { ports: [{ port: 8822 + i, protocol: 'TCP' }] }),
    ),
    request: { services: ['ssh'] },
    outcome: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
  },
  {
    sentence: 'a node whose last port for SSH the VM wants for itself, without cpu, is told by its ports',
    nodes: [aNode('a', { cpu: 0, memory: 100 })],
    pods: Array.from({ length: 49 }, (_, i) =>
      aPod(`p${i}`, 'a', { ports: [{ port: 8822 + i, protocol: 'TCP' }] }),
    ),
    request: { services: ['ssh'], reservedPorts: [{ port: 8871, protocol: 'TCP' }] },
    outcome: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
  },
  {
    sentence: 'a node without cpu that has ports left is told by its cpu',
    nodes: [aNode('a', { cpu: 0, memory: 100 })],
    pods: Array.from({ length: 49 }, (_, i) =>
      aPod(`p${i}`, 'a', { ports: [{ port: 8822 + i, protocol: 'TCP' }] }),
    ),
    request: { services: ['ssh', 'vnc'] },
    outcome: '0/1 nodes are available: 1 Insufficient cpu.',
  },
  {
    sentence: 'a port that is taken on a node that is no candidate is not told of',
    nodes: [aNode('a', { cordoned: true }), aNode('b', { cpu: 0 })],
    pods: [aPod('p', 'a', { ports: [{ port: 20000, protocol: 'TCP' }] })],
    request: { reservedPorts: [{ port: 20000, protocol: 'TCP' }] },
    outcome: '0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.',
  },
  {
    sentence: 'a required tag is taken where it is',
    nodes: [aNode('a'), aNode('b', { tags: ['ci'] })],
    request: { tag: 'ci', tagRequired: true },
    outcome: 'b',
  },
  {
    sentence: 'that a tag is required means nothing without one',
    nodes: [aNode('a')],
    request: { tagRequired: true },
    outcome: 'a',
  },
  {
    sentence: 'the last port of the range of SSH is given',
    nodes: [aNode('a', { cpu: 100, memory: 100 })],
    pods: Array.from({ length: 49 }, (_, i) =>
      aPod(`p${i}`, 'a', { ports: [{ port: 8822 + i, protocol: 'TCP' }] }),
    ),
    request: { services: ['ssh'] },
    outcome: 'a',
  },
  {
    sentence: 'a node on which a port is taken and nothing is left is told by its port',
    nodes: [aNode('a', { cpu: 1 }), aNode('b', { cpu: 1 })],
    pods: [
      aPod('p', 'a', { ports: [{ port: 20000, protocol: 'TCP' }] }),
      aPod('q', 'b', { ports: [{ port: 20001, protocol: 'TCP' }] }),
    ],
    request: { reservedPorts: [{ port: 20000, protocol: 'TCP' }] },
    outcome:
      "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't have free ports for the requested pod ports.",
  },
  {
    sentence: 'a node that is the only one and named is not told beside others',
    nodes: [aNode('a', { cpu: 0 })],
    request: { nodeName: 'a' },
    outcome: '0/1 nodes are available: 1 Insufficient cpu.',
  },
  {
    sentence: 'a required tag that no node has is refused',
    nodes: [aNode('a'), aNode('b')],
    request: { tag: 'ci', tagRequired: true },
    outcome: "0/2 nodes are available: 2 node(s) didn't have tag ci.",
  },
  {
    sentence: 'a node of another architecture is refused',
    nodes: [aNode('a', { architecture: 'arm64' })],
    outcome: "0/1 nodes are available: 1 node(s) didn't match architecture amd64.",
  },
  {
    sentence: 'a named node is taken though another is freer',
    nodes: [aNode('a'), aNode('b')],
    pods: [aPod('p', 'b')],
    request: { nodeName: 'b' },
    outcome: 'b',
  },
  {
    sentence: 'a named node that does not exist is refused by every other',
    nodes: [aNode('a'), aNode('b')],
    request: { nodeName: 'z' },
    outcome: "0/2 nodes are available: 2 node(s) didn't match the requested node name.",
  },
  {
    sentence: 'a named node that is full says so beside the others',
    nodes: [aNode('a'), aNode('b')],
    pods: [aPod('p', 'a', { cpu: 8 })],
    request: { nodeName: 'a' },
    outcome: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match the requested node name.",
  },
  {
    sentence: 'cordoned, unready and tainted nodes are refused',
    nodes: [
      aNode('a', {
        cordoned: true,
        taints: [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }],
      }),
      aNode('b', { ready: false }),
      aNode('c', { taints: [{ key: 'team', value: 'x', effect: 'NoSchedule' }] }),
    ],
    outcome:
      '0/3 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were not ready, 1 node(s) were unschedulable.',
  },
  {
    sentence: 'a tolerated taint is no obstacle',
    nodes: [aNode('a', { taints: [{ key: 'team', value: 'x', effect: 'NoSchedule' }] })],
    request: { tolerations: [{ key: 'team', operator: 'Equal', value: 'x' }] },
    outcome: 'a',
  },
  {
    sentence: 'a soft taint only makes a node the second choice',
    nodes: [aNode('a', { taints: [{ key: 'old', effect: 'PreferNoSchedule' }] }), aNode('b')],
    pods: [aPod('p', 'b', { cpu: 4 })],
    outcome: 'b',
  },
  {
    sentence: 'a node reserved for another namespace is refused',
    nodes: [aNode('a', { reservedFor: 'team-a' })],
    outcome: '0/1 nodes are available: 1 node(s) were reserved for another namespace.',
  },
  {
    sentence: 'a node reserved for the namespace is taken',
    nodes: [aNode('a', { reservedFor: 'default' })],
    outcome: 'a',
  },
  {
    sentence: 'all resources that lack are named together',
    nodes: [aNode('a', { cpu: 1, memory: 1 })],
    pods: [aPod('p', 'a')],
    outcome: '0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.',
  },
  {
    sentence: 'pods of others count, also against the number of pods',
    nodes: [aNode('a', { pods: 1 })],
    pods: [aPod('p', 'a', { cpu: 0, memory: 0 })],
    outcome: '0/1 nodes are available: 1 Too many pods.',
  },
  {
    sentence: 'ephemeral storage counts where the kubelet manages it',
    nodes: [aNode('a', { ephemeral: 1 })],
    request: { ephemeralStorageBytes: 2 * Gi },
    outcome: '0/1 nodes are available: 1 Insufficient ephemeral-storage.',
  },
  {
    sentence: 'ephemeral storage is no obstacle where the kubelet does not manage it',
    nodes: [aNode('a', { ephemeral: 0, reportsEphemeralStorage: false })],
    request: { ephemeralStorageBytes: 2 * Gi },
    outcome: 'a',
  },
  {
    sentence: 'GPU rules 3 and 6: nodes not enabled and nodes in use are told apart',
    nodes: [
      ...['a', 'b'].map((name) => aNode(name, { gpuEnabled: true, gpu: 1 })),
      ...['c', 'd', 'e'].map((name) => aNode(name)),
    ],
    pods: [aPod('p', 'a', { gpu: 1 }), aPod('q', 'b', { gpu: 1 })],
    request: { gpu: true },
    outcome: '0/5 nodes are available: 2 GPU passthrough in use, 3 not enabled for GPU passthrough.',
  },
  {
    sentence: 'GPU rule 6: a node that claims 1,000 bundles still takes one VM',
    nodes: [aNode('a', { gpuEnabled: true, gpu: 1000 })],
    pods: [aPod('p', 'a', { gpu: 1 })],
    request: { gpu: true },
    outcome: '0/1 nodes are available: 1 GPU passthrough in use.',
  },
  {
    sentence: 'a node whose cards are gone is told apart from one in use',
    nodes: [aNode('a', { gpuEnabled: true, gpu: 0 })],
    request: { gpu: true },
    outcome: '0/1 nodes are available: 1 GPU passthrough device not ready.',
  },
  {
    sentence: 'kvm is refused where the hardware has none',
    nodes: [aNode('a')],
    request: { accelerator: 'kvm' },
    outcome: '0/1 nodes are available: 1 node(s) without hardware virtualisation.',
  },
  {
    sentence: 'kvm whose device the kubelet does not have yet is waited for, elsewhere or here',
    nodes: [aNode('a', { foundKvm: true }), aNode('b', { cpu: 0, foundKvm: false })],
    outcome: '0/2 nodes are available: 1 Insufficient cpu, 1 hardware virtualisation device not ready.',
  },
  {
    sentence: 'a node that emulates is taken though another will have kvm',
    nodes: [aNode('a', { foundKvm: true }), aNode('b', { foundKvm: false })],
    outcome: 'b',
  },
  {
    sentence: 'nobody waits for the device of kvm who emulates',
    nodes: [aNode('a', { foundKvm: true })],
    request: { accelerator: 'tcg' },
    outcome: 'a',
  },
  {
    sentence: 'nobody waits for it on a node that is labelled to emulate',
    nodes: [aNode('a', { foundKvm: true, accelerator: 'tcg' })],
    outcome: 'a',
  },
  {
    sentence: 'a node whose agent has not reported yet is waited for',
    nodes: [aNode('a')],
    pods: [aPod('agent', 'a', { isNodeAgent: true })],
    outcome: '0/1 nodes are available: 1 hardware virtualisation not reported yet.',
  },
  {
    sentence: 'also where the VM names it',
    nodes: [aNode('a')],
    pods: [aPod('agent', 'a', { isNodeAgent: true })],
    request: { nodeName: 'a' },
    outcome: '0/1 nodes are available: 1 hardware virtualisation not reported yet.',
  },
  {
    sentence: 'nobody waits for what an agent says who emulates',
    nodes: [aNode('a')],
    pods: [aPod('agent', 'a', { isNodeAgent: true })],
    request: { accelerator: 'tcg' },
    outcome: 'a',
  },
  {
    sentence: "the emulator's memory counts where the node emulates",
    nodes: [aNode('a', { memory: 1 })],
    request: { emulationBytes: 1 },
    outcome: '0/1 nodes are available: 1 Insufficient memory.',
  },
  {
    sentence: "the emulator's memory does not count under kvm",
    nodes: [aNode('a', { memory: 1, kvm: 10 })],
    request: { emulationBytes: 1 },
    outcome: 'a',
  },
  {
    sentence: 'a reserved port that is taken everywhere is refused',
    nodes: [aNode('a')],
    pods: [aPod('p', 'a', { ports: [{ port: 20000, protocol: 'TCP' }] })],
    request: { reservedPorts: [{ port: 20000, protocol: 'TCP' }] },
    outcome: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
  },
  {
    sentence: 'a reserved port that is taken for UDP is free for TCP',
    nodes: [aNode('a')],
    pods: [aPod('p', 'a', { ports: [{ port: 20000, protocol: 'UDP' }] })],
    request: { reservedPorts: [{ port: 20000, protocol: 'TCP' }] },
    outcome: 'a',
  },
  {
    sentence: 'a node whose range of SSH ports is used up is refused',
    nodes: [aNode('a', { cpu: 100, memory: 100 })],
    pods: Array.from({ length: 50 }, (_, i) =>
      aPod(`p${i}`, 'a', { ports: [{ port: 8822 + i, protocol: 'TCP' }] }),
    ),
    request: { services: ['ssh'] },
    outcome: "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
  },
  { sentence: 'without any node it says so', nodes: [], outcome: 'no nodes available to schedule pods' },
  {
    sentence: 'a node that does not run Linux is refused',
    nodes: [aNode('a', { operatingSystem: 'windows' })],
    outcome: '0/1 nodes are available: 1 node(s) did not run Linux.',
  },
];

describe('place', () => {
  test.each(rows)('$sentence', ({ nodes, pods = [], request = {}, outcome }) => {
    const result = place(inventoryOf(nodes, pods), aRequest(request));
    expect(result.kind === 'placed' ? result.node : result.message).toBe(outcome);
  });

  test('services get the first free port of their range', () => {
    const inventory = inventoryOf(
      [aNode('a')],
      [aPod('p', 'a', { ports: [{ port: 8822, protocol: 'TCP' }] })],
    );
    const result = place(
      inventory,
      aRequest({ services: ['ssh', 'screenshare', 'vnc'], reservedPorts: [{ port: 8823, protocol: 'TCP' }] }),
    );
    expect(result).toMatchObject({ kind: 'placed', ports: { ssh: 8824, screenshare: 5900 } });
  });

  test('what is assumed of a decision is all that its pod will take', () => {
    const inventory = inventoryOf([aNode('a', { kvm: 1, gpuEnabled: true, gpu: 1 })]);
    const reserved = { port: 20000, protocol: 'UDP' as const };
    const result = place(
      inventory,
      aRequest({
        gpu: true,
        ephemeralStorageBytes: 3 * Gi,
        emulationBytes: Gi,
        services: ['ssh', 'vnc'],
        reservedPorts: [reserved],
      }),
    );
    expect(result).toMatchObject({
      kind: 'placed',
      node: 'a',
      ports: { ssh: 8822 },
      requestsEphemeralStorage: true,
      usage: { node: 'a', ports: [{ port: 8822, protocol: 'TCP' }, reserved] },
    });
    const requests = result.kind === 'placed' ? result.usage.requests : [];
    const expected = amounts({ cpu: 1, memory: 1, ephemeral: 3, pods: 1, gpu: 1, kvm: 1 });
    expect(requests.slice(0, KVM + 1)).toEqual(expected.slice(0, KVM + 1));
  });

  test('where the node emulates, its memory is assumed too', () => {
    const result = place(inventoryOf([aNode('a')]), aRequest({ emulationBytes: 2 * Gi }));
    expect(result).toMatchObject({ usage: { requests: expect.arrayContaining([3 * Gi]) } });
  });

  test('a pod does not request local storage where the kubelet does not manage it', () => {
    const inventory = inventoryOf([aNode('a', { reportsEphemeralStorage: false })]);
    expect(place(inventory, aRequest())).toMatchObject({ requestsEphemeralStorage: false });
  });

  test.each([
    ['auto', undefined, 1, 'kvm'],
    ['auto', undefined, 0, 'tcg'],
    ['tcg', undefined, 1, 'tcg'],
    ['auto', 'tcg', 1, 'tcg'],
    ['tcg', 'kvm', 1, 'kvm'],
  ] as const)('setting %s, label %s and %i kvm slots give %s', (accelerator, label, kvm, expected) => {
    const inventory = inventoryOf([aNode('a', { accelerator: label, kvm })]);
    expect(place(inventory, aRequest({ accelerator }))).toMatchObject({ accelerator: expected });
  });

  test.each([
    ['has found kvm', true, 'kvm'],
    ['has found none', false, 'tcg'],
  ] as const)('a new node is taken once its agent has reported and %s', (_what, foundKvm, accelerator) => {
    const inventory = inventoryOf([aNode('a')], [aPod('agent', 'a', { isNodeAgent: true })]);
    expect(place(inventory, aRequest()).kind).toBe('refused');
    inventory.setNode(aNode('a', { foundKvm, kvm: foundKvm ? 1 : 0 }));
    expect(place(inventory, aRequest())).toMatchObject({ node: 'a', accelerator });
  });

  test('a node whose agent is gone without a report is waited for no longer', () => {
    const inventory = inventoryOf([aNode('a')]);
    expect(place(inventory, aRequest())).toMatchObject({ accelerator: 'tcg' });
    for (const uid of ['old', 'new']) inventory.setPod(aPod(uid, 'a', { isNodeAgent: true }));
    inventory.removePod('old');
    expect(place(inventory, aRequest()).kind).toBe('refused');
    inventory.removePod('new');
    expect(place(inventory, aRequest())).toMatchObject({ accelerator: 'tcg' });
  });
});

describe.each(['ssh', 'screenshare', 'vnc'] as const)('a port for %s', (service) => {
  const number = { ssh: 8822, screenshare: 5900, vnc: 6900 }[service];
  const oneEach = { [service]: { first: number, last: number } };
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const taken = (node: string): PodFacts =>
    aPod(`on-${node}`, node, { cpu: 0, ports: [{ port: number, protocol: 'TCP' }] });

  function outcomeOf(nodes: readonly NodeFacts[], pods: readonly PodFacts[]): unknown {
    const inventory = new Inventory(oneEach);
    for (const node of nodes) inventory.setNode(node);
    for (const pod of pods) inventory.setPod(pod);
    const result = place(inventory, aRequest({ services: [service] }));
    return result.kind === 'placed' ? [result.node, result.ports] : result.message;
  }

  test.each(names)('is found where only node %s has it left', (free) => {
    const pods = names.filter((each) => each !== free).map(taken);
    expect(
      outcomeOf(
        names.map((each) => aNode(each)),
        pods,
      ),
    ).toEqual([free, { [service]: number }]);
  });

  test('is what a node is refused by that has neither it nor cpu', () => {
    const nodes = ['a', 'b'].map((each) => aNode(each, { cpu: 0 }));
    expect(outcomeOf(nodes, [taken('a')])).toBe(
      "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't have free ports for the requested pod ports.",
    );
  });
});

describe('the inventory', () => {
  const gpuNode = aNode('a', { gpuEnabled: true, gpu: 1 });

  test('an assumed decision counts until it is forgotten', () => {
    const inventory = inventoryOf([gpuNode]);
    const first = place(inventory, aRequest({ gpu: true }));
    if (first.kind === 'placed') inventory.assume('vm-1', first.usage);
    expect(place(inventory, aRequest({ gpu: true }))).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough in use.',
    });
    inventory.forget('vm-1');
    expect(place(inventory, aRequest({ gpu: true })).kind).toBe('placed');
  });

  test('the pod of a VM takes the place of what was assumed for it', () => {
    const inventory = inventoryOf([aNode('a')]);
    const first = place(inventory, aRequest());
    if (first.kind === 'placed') inventory.assume('vm-1', first.usage);
    inventory.setPod(aPod('p', 'a', { assumedAs: 'vm-1' }));
    expect(explain(inventory, aRequest())).toMatchObject([{ free: 92 }]);
    inventory.forget('vm-1');
    expect(explain(inventory, aRequest())).toMatchObject([{ free: 92 }]);
  });

  test('pods seen before their node count when the node comes, and again when it comes back', () => {
    const inventory = inventoryOf([], [aPod('p', 'a', { gpu: 1 })]);
    expect(place(inventory, aRequest()).kind).toBe('refused');
    inventory.setNode(gpuNode);
    expect(place(inventory, aRequest({ gpu: true })).kind).toBe('refused');
    inventory.removeNode('a');
    inventory.setNode(gpuNode);
    expect(place(inventory, aRequest({ gpu: true })).kind).toBe('refused');
    inventory.removePod('p');
    expect(place(inventory, aRequest({ gpu: true })).kind).toBe('placed');
  });

  test('capacity that goes from 1 to 0 while the VM runs refuses the next and keeps the count', () => {
    const inventory = inventoryOf([gpuNode], [aPod('p', 'a', { gpu: 1 })]);
    inventory.setNode(aNode('a', { gpuEnabled: true, gpu: 0 }));
    expect(place(inventory, aRequest({ gpu: true }))).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough device not ready.',
    });
    inventory.setNode(gpuNode);
    expect(place(inventory, aRequest({ gpu: true }))).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough in use.',
    });
  });

  test('the verdict on each node names all of its reasons', () => {
    const inventory = inventoryOf(
      [aNode('b', { cpu: 1, memory: 1 }), aNode('a'), aNode('c', { cordoned: true })],
      [aPod('p', 'b')],
    );
    expect(explain(inventory, aRequest())).toEqual([
      { node: 'a', fits: true, reasons: [], free: 100 },
      { node: 'b', fits: false, reasons: ['Insufficient cpu', 'Insufficient memory'], free: 0 },
      { node: 'c', fits: false, reasons: ['node(s) were unschedulable'], free: 100 },
    ]);
  });

  test('the verdict of a VM that names its node speaks of the others by that alone', () => {
    const inventory = inventoryOf([aNode('c'), aNode('b', { cordoned: true }), aNode('a')]);
    const notNamed = "node(s) didn't match the requested node name";
    expect(
      explain(inventory, aRequest({ nodeName: 'c' })).map(({ node, reasons }) => [node, reasons]),
    ).toEqual([
      ['a', [notNamed]],
      ['b', [notNamed]],
      ['c', []],
    ]);
  });

  test('the verdict on a node whose ports are taken says so', () => {
    const port = { port: 20000, protocol: 'TCP' as const };
    const inventory = inventoryOf([aNode('a', { cpu: 1 })], [aPod('p', 'a', { ports: [port] })]);
    expect(explain(inventory, aRequest({ reservedPorts: [port] }))).toMatchObject([
      { fits: false, reasons: ["node(s) didn't have free ports for the requested pod ports"] },
    ]);
  });
});
