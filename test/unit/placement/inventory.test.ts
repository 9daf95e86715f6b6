import { describe, expect, test } from 'vitest';
import { explain } from '../../../src/placement/explain.ts';
import type { NodeFacts } from '../../../src/placement/facts.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place } from '../../../src/placement/place.ts';
import { podFacts } from '../../../src/placement/podfacts.ts';
import { CPU } from '../../../src/placement/resources.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { type Amounts, aNode, aPod, aRequest, ranges } from './builders.ts';

const tcp = (port: number) => ({ port, protocol: 'TCP' as const });

function inventoryOf(...nodes: NodeFacts[]): Inventory {
  const inventory = new Inventory(ranges);
  for (const node of nodes) inventory.setNode(node);
  return inventory;
}

/** Percent that is free, by node. */
function freeOn(inventory: Inventory): Record<string, number> {
  return Object.fromEntries(explain(inventory, aRequest()).map(({ node, free }) => [node, free]));
}

const noPorts = "node(s) didn't have free ports for the requested pod ports";

/** What is said of a VM that wants port 20000. */
function wanting20000(inventory: Inventory): string {
  const result = place(inventory, aRequest({ reservedPorts: [tcp(20000)] }));
  return result.kind === 'placed' ? result.node : result.message;
}

describe('a pod', () => {
  test('is left out of one decision, and counts again after it, also where that throws', () => {
    const inventory = inventoryOf(aNode('a'));
    inventory.setPod(aPod('p', 'a', { cpu: 8, ports: [tcp(20000)] }));
    expect(wanting20000(inventory)).toContain(noPorts);
    expect(inventory.without(['p', 'nobody'], () => wanting20000(inventory))).toBe('a');
    expect(wanting20000(inventory)).toContain(noPorts);
    const fail = () => inventory.without(['p'], () => JSON.parse('?') as unknown);
    expect(fail).toThrow(SyntaxError);
    expect(wanting20000(inventory)).toContain(noPorts);
    expect(freeOn(inventory)).toEqual({ a: 48 });
  });

  test.each([
    ['1e30', '1e30'],
    ['more than a number can be', '9'.repeat(330)],
  ])('that asks for %s leaves the node as it was when it goes', (_much, much) => {
    const inventory = inventoryOf(aNode('a'));
    inventory.setPod(aPod('small', 'a', { cpu: 4, memory: 16 }));
    const before = [...(inventory.node('a')?.used ?? [])];
    const requests = { cpu: much, memory: much, 'ephemeral-storage': much };
    const huge = Array.from({ length: 1_000 }, (_, i) =>
      podFacts({
        metadata: storedMeta({ name: `huge-${i}`, uid: `huge-${i}` }),
        spec: { nodeName: 'a', containers: [{ name: 'c', resources: { requests } }] },
      }),
    );
    for (const facts of huge) if (facts !== undefined) inventory.setPod(facts);
    expect(inventory.node('a')?.free[CPU]).toBeLessThan(0);
    for (const facts of huge) inventory.removePod(facts?.uid ?? '');
    expect(inventory.node('a')?.used).toEqual(before);
    expect(freeOn(inventory)).toEqual({ a: 50 });
  });

  test('says whether it had been counted when it goes, and goes once', () => {
    const inventory = inventoryOf(aNode('a'));
    inventory.setPod(aPod('p', 'a', { cpu: 8 }));
    inventory.setPod(aPod('q', 'a', { cpu: 0 }));
    expect(inventory.removePod('nobody')).toBe(false);
    expect(inventory.removePod('p')).toBe(true);
    expect(inventory.removePod('p')).toBe(false);
    expect(freeOn(inventory)).toEqual({ a: 98 });
  });

  test.each<[string, Amounts & { node?: string; ports?: ReturnType<typeof tcp>[] }, number]>([
    ['is counted once', { cpu: 4 }, 73],
    ['is counted as it is now when it takes less', { cpu: 2 }, 86],
    ['is counted as it is now when its ports change', { cpu: 4, ports: [tcp(20001)] }, 73],
    ['is counted where it is now', { cpu: 4, node: 'b' }, 100],
  ])('that is seen again %s', (_sentence, { node = 'a', ...now }, free) => {
    const inventory = inventoryOf(aNode('a'), aNode('b'));
    inventory.setPod(aPod('p', 'a', { cpu: 4, ports: [tcp(20000)] }));
    inventory.setPod(aPod('p', node, { ports: [tcp(20000)], ...now }));
    expect(freeOn(inventory)['a']).toBe(free);
    const portsOfP = now.ports ?? [tcp(20000)];
    for (const port of [tcp(20000), tcp(20001)]) {
      const users = [...inventory.usersOf(port)].map(({ name }) => name);
      expect(users).toEqual(portsOfP.some((own) => own.port === port.port) ? [node] : []);
    }
  });

  test.each<[string, number[], number[]]>([
    ['gains its first port', [], [20000]],
    ['gains another port', [20000], [20000, 20001]],
    ['loses a port', [20000, 20001], [20000]],
    ['loses its last port', [20000], []],
    ['changes one of two ports', [20000, 20001], [20000, 20002]],
    ['changes both', [20000, 20001], [20002, 20003]],
  ])('that %s is counted with those that it has now', (_what, then, now) => {
    const inventory = inventoryOf(aNode('a'));
    for (const ports of [then, now]) inventory.setPod(aPod('p', 'a', { ports: ports.map(tcp) }));
    for (const port of [20000, 20001, 20002, 20003]) {
      const result = place(inventory, aRequest({ reservedPorts: [tcp(port)] }));
      expect([port, result.kind]).toEqual([port, now.includes(port) ? 'refused' : 'placed']);
    }
  });

  test('that is seen again with the port of another protocol frees the first', () => {
    const inventory = inventoryOf(aNode('a'));
    inventory.setPod(aPod('p', 'a', { ports: [tcp(20000)] }));
    inventory.setPod(aPod('p', 'a', { ports: [{ port: 20000, protocol: 'UDP' }] }));
    expect(wanting20000(inventory)).toBe('a');
  });
});

describe('a decision', () => {
  test('for the same VM takes the place of the one before', () => {
    const inventory = inventoryOf(aNode('a'), aNode('b'));
    const usageOn = (node: string) => ({ ...aPod('p', node, { cpu: 8, memory: 32 }) });
    inventory.assume('vm', usageOn('a'));
    inventory.assume('vm', usageOn('b'));
    expect(freeOn(inventory)).toEqual({ a: 100, b: 0 });
    inventory.forget('vm');
    inventory.forget('vm');
    expect(freeOn(inventory)).toEqual({ a: 100, b: 100 });
  });

  test('for a node that is not known counts once it is', () => {
    const inventory = inventoryOf();
    inventory.assume('vm', aPod('p', 'a', { cpu: 8, memory: 32 }));
    expect(inventory.size).toBe(0);
    inventory.setNode(aNode('a'));
    expect(freeOn(inventory)).toEqual({ a: 0 });
    expect(inventory.size).toBe(1);
  });
});

describe('a host port', () => {
  test('that two pods of a node have for a moment is free when both are gone', () => {
    const inventory = inventoryOf(aNode('a'));
    for (const uid of ['p', 'q', 'r']) inventory.setPod(aPod(uid, 'a', { ports: [tcp(20000)] }));
    for (const uid of ['p', 'q']) {
      inventory.removePod(uid);
      expect(wanting20000(inventory)).toBe(`0/1 nodes are available: 1 ${noPorts}.`);
    }
    inventory.removePod('r');
    expect(wanting20000(inventory)).toBe('a');
  });

  test('is taken on each node by itself, and told of each', () => {
    const inventory = inventoryOf(aNode('a'), aNode('b'), aNode('c'));
    for (const name of ['a', 'b', 'c']) inventory.setPod(aPod(name, name, { ports: [tcp(20000)] }));
    expect(wanting20000(inventory)).toBe(`0/3 nodes are available: 3 ${noPorts}.`);
    inventory.removePod('b');
    expect(wanting20000(inventory)).toBe('b');
    inventory.setNode(aNode('b', { cpu: 0 }));
    expect(wanting20000(inventory)).toBe(`0/3 nodes are available: 1 Insufficient cpu, 2 ${noPorts}.`);
    expect([...inventory.usersOf(tcp(20000))].map(({ name }) => name)).toEqual(['a', 'c']);
  });

  test('of a range counts once, however many have it', () => {
    const inventory = new Inventory({ ssh: { first: 8822, last: 8823 } });
    inventory.setNode(aNode('a'));
    const services = aRequest({ services: ['ssh'] });
    for (const uid of ['p', 'q']) inventory.setPod(aPod(uid, 'a', { ports: [tcp(8822)] }));
    expect(place(inventory, services)).toMatchObject({ ports: { ssh: 8823 } });
    inventory.removePod('p');
    expect(place(inventory, services)).toMatchObject({ ports: { ssh: 8823 } });
    inventory.removePod('q');
    expect(place(inventory, services)).toMatchObject({ ports: { ssh: 8822 } });
  });
});

describe('nodes', () => {
  test.each<[string, Partial<NodeFacts> & Amounts]>([
    ['operating system', { operatingSystem: 'windows' }],
    ['architecture', { architecture: 'arm64' }],
    ['readiness', { ready: false }],
    ['cordon', { cordoned: true }],
    ['taints', { taints: [{ key: 'a', effect: 'NoSchedule' }] }],
    ['tags', { tags: ['ci'] }],
    ['reservation', { reservedFor: 'team' }],
    ['GPU label', { gpuEnabled: true }],
    ['accelerator label', { accelerator: 'tcg' }],
    ['local storage', { reportsEphemeralStorage: false }],
    ['cards', { gpu: 1 }],
    ['hardware virtualisation', { kvm: 1 }],
    ['hardware virtualisation without its device', { foundKvm: true }],
  ])('that differ only in their %s are told apart', (_what, different) => {
    const inventory = inventoryOf(aNode('a'), aNode('b', different));
    expect([...inventory.classes()]).toHaveLength(2);
    expect([...inventoryOf(aNode('a', different), aNode('b', different)).classes()]).toHaveLength(1);
  });

  const taint = { key: 'a', value: 'x', effect: 'NoSchedule' };
  const hostCpu = { model: 'One CPU', flags: ['avx', 'sse'] };

  test.each<[string, Partial<NodeFacts>, Partial<NodeFacts>]>([
    ['key of a taint', { taints: [taint] }, { taints: [{ ...taint, key: 'b' }] }],
    ['value of a taint', { taints: [taint] }, { taints: [{ ...taint, value: 'y' }] }],
    ['effect of a taint', { taints: [taint] }, { taints: [{ ...taint, effect: 'NoExecute' }] }],
    ['reservation', { reservedFor: 'team' }, { reservedFor: 'other' }],
    ['model of CPU', { hostCpu }, { hostCpu: { ...hostCpu, model: 'Other CPU' } }],
    ['features of CPU', { hostCpu }, { hostCpu: { ...hostCpu, flags: ['sse'] } }],
    ['report of a CPU', { hostCpu }, {}],
  ])('that have another %s are told apart', (_what, one, other) => {
    expect([...inventoryOf(aNode('a', one), aNode('b', other)).classes()]).toHaveLength(2);
    expect([...inventoryOf(aNode('a', one), aNode('b', one)).classes()]).toHaveLength(1);
  });

  test('that differ in the order of their tags or in what they have left are alike', () => {
    const [a, b] = [aNode('a', { tags: ['x', 'y'], cpu: 4 }), aNode('b', { tags: ['y', 'x'] })];
    expect([...inventoryOf(a, b).classes()].map(({ tree }) => tree.size)).toEqual([2]);
  });

  test('that are alike stay when one of them goes or changes', () => {
    const inventory = inventoryOf(aNode('a'), aNode('b'), aNode('c'));
    expect(place(inventory, aRequest())).toMatchObject({ node: 'a' });
    inventory.removeNode('a');
    inventory.removeNode('a');
    inventory.setNode(aNode('b', { cordoned: true }));
    expect(place(inventory, aRequest())).toMatchObject({ node: 'c' });
    expect(inventory.size).toBe(2);
    expect(inventory.nodes().map(({ name }) => name)).toEqual(['b', 'c']);
    expect([inventory.node('a'), inventory.node('b')?.name]).toEqual([undefined, 'b']);
    inventory.removeNode('c');
    expect([...inventory.classes()]).toHaveLength(1);
  });

  test('without cpu are as free as their memory is, halved', () => {
    const inventory = inventoryOf(aNode('a', { cpu: 0 }), aNode('b'), aNode('c', { memory: 0 }));
    expect(freeOn(inventory)).toEqual({ a: 50, b: 100, c: 50 });
    expect(place(inventory, aRequest({ cpuMilli: 0 }))).toMatchObject({ node: 'b' });
  });

  test('are as free as the mean of cpu and memory, never less than nothing', () => {
    const inventory = inventoryOf(aNode('a'), aNode('b'));
    inventory.setPod(aPod('p', 'a', { cpu: 2, memory: 24 }));
    inventory.setPod(aPod('q', 'b', { cpu: 16, memory: 40 }));
    expect(freeOn(inventory)).toEqual({ a: 50, b: 0 });
  });
});
