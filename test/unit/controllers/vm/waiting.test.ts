import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Inventory } from '../../../../src/placement/inventory.ts';
import { place } from '../../../../src/placement/place.ts';
import { paced } from '../../../../src/controllers/vm/pacing.ts';
import { WaitingVms } from '../../../../src/controllers/vm/waiting.ts';
import { aNode, aPod, aRequest, ranges } from '../../placement/builders.ts';

const gpuRequest = aRequest({ gpu: true });
const inUse = '0/1 nodes are available: 1 GPU passthrough in use.';

describe('the sentences of VMs that wait', () => {
  let inventory: Inventory;
  let woken: string[];
  let waiting: WaitingVms;

  beforeEach(() => {
    inventory = new Inventory(ranges);
    inventory.setNode(aNode('n1', { gpuEnabled: true, gpu: 1 }));
    inventory.setPod(aPod('p1', 'n1', { gpu: 1 }));
    woken = [];
    waiting = new WaitingVms(inventory, (key) => woken.push(key));
    for (let i = 0; i < 3; i++)
      waiting.add(`${i}`, { key: `vm-${i}`, created: '', request: gpuRequest, told: inUse });
  });

  test('are true: nobody is woken, whatever else happened', () => {
    expect(place(inventory, gpuRequest)).toMatchObject({ message: inUse });
    inventory.setPod(aPod('p2', 'n1'));
    expect(waiting.wakeOutdated()).toBe(0);
    expect(woken).toEqual([]);
  });

  test('are outdated: everybody is woken whose sentence is another now', () => {
    inventory.setNode(aNode('n2'));
    const told = '0/2 nodes are available: 1 GPU passthrough in use, 1 not enabled for GPU passthrough.';
    waiting.add('1', { key: 'vm-1', created: '', request: gpuRequest, told });
    expect(waiting.wakeOutdated()).toBe(2);
    expect(woken).toEqual(['vm-0', 'vm-2']);
  });

  test('are those of the last node that went away', () => {
    inventory.removePod('p1');
    inventory.removeNode('n1');
    expect(waiting.wakeOutdated()).toBe(3);
  });

  test('do not matter where there is a place: one VM gets it, the others are not tried in vain', () => {
    inventory.removePod('p1');
    expect(waiting.wakeOutdated()).toBe(0);
    waiting.retry();
    expect(woken).toEqual(['vm-0']);
    expect(waiting.wakeOutdated()).toBe(0);
  });
});

describe('a VM that waits for a neighbour', () => {
  const host = 'kubernetes.io/hostname';
  const affinity = {
    podAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { labelSelector: { matchLabels: { app: 'db' } }, topologyKey: host },
      ],
    },
  };

  test('is woken when it is there, and asks for news as long as it waits', () => {
    const inventory = new Inventory(ranges);
    for (const name of ['n1', 'n2']) inventory.setNode(aNode(name, { labels: { [host]: name } }));
    const woken: string[] = [];
    const waiting = new WaitingVms(inventory, (key) => woken.push(key));
    expect(waiting.dependsOnOtherPods).toBe(false);
    waiting.add('0', { key: 'vm-0', created: '', request: aRequest({ affinity }), told: '' });
    waiting.retry();
    expect([woken, waiting.dependsOnOtherPods]).toEqual([[], true]);
    const neighbour = { namespace: 'default', labels: { app: 'db' }, repels: [] };
    expect(inventory.setPod(aPod('p', 'n2', { neighbour }))).toBe(true);
    waiting.retry();
    expect([woken, waiting.dependsOnOtherPods]).toEqual([['vm-0'], false]);
  });

  test('of another namespace goes on waiting, and one with other labels', () => {
    const inventory = new Inventory(ranges);
    inventory.setNode(aNode('n1', { labels: { [host]: 'n1' } }));
    const neighbour = { namespace: 'other', labels: { app: 'db' }, repels: [] };
    inventory.setPod(aPod('p', 'n1', { neighbour }));
    const request = aRequest({ affinity });
    expect(place(inventory, request)).toMatchObject({
      message: "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
    });
    const relabelled = { namespace: 'default', labels: { app: 'web' }, repels: [] };
    inventory.setPod(aPod('p', 'n1', { neighbour: relabelled }));
    expect(place(inventory, request).kind).toBe('refused');
    inventory.setPod(aPod('p', 'n1', { neighbour: { ...relabelled, labels: { app: 'db' } } }));
    expect(place(inventory, request).kind).toBe('placed');
  });
});

describe('the pace of rewriting', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('a hundred changes are one look, a second after the first of them', () => {
    const look = vi.fn(() => 0);
    const changed = paced(look, 1_000, 20);
    for (let i = 0; i < 100; i++) {
      changed();
      vi.advanceTimersByTime(5);
    }
    expect(look).not.toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(look).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(10_000);
    expect(look).toHaveBeenCalledTimes(1);
  });

  test('what was rewritten puts the next look off, and the last change is never lost', () => {
    const look = vi.fn(() => 450);
    const changed = paced(look, 1_000, 20);
    changed();
    vi.advanceTimersByTime(1_000);
    changed();
    vi.advanceTimersByTime(8_900);
    expect(look).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(100);
    expect(look).toHaveBeenCalledTimes(2);
  });
});
