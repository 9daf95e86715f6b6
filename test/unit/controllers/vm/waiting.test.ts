import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Inventory } from '../../../../src/placement/inventory.ts';
import { place } from '../../../../src/placement/place.ts';
import { paced } from '../../../../src/controllers/vm/pacing.ts';
import { WaitingVms } from '../../../../src/controllers/vm/waiting.ts';
import { aNode, aPod, aRequest, ranges } from '../../placement/builders.ts';

/** On a busy machine the time for one look is over after one VM: what is left then is looked at by tests of their own. */
const stillClock = () => 0;
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
    waiting = new WaitingVms(inventory, (key) => woken.push(key), { now: stillClock });
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
    const waiting = new WaitingVms(inventory, (key) => woken.push(key), { now: stillClock });
    expect(waiting.dependsOnOtherPods).toBe(false);
    waiting.add('0', { key: 'vm-0', created: '', request: aRequest({ affinity }), told: '' });
    waiting.retry();
    expect([woken, waiting.dependsOnOtherPods]).toEqual([[], true]);
    const neighbour = { namespace: 'default', labels: { app: 'db' }, repels: [] };
    expect(inventory.setPod(aPod('p', 'n2', { neighbour }))).toBe('other');
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

describe('VMs that take long to judge', () => {
  let inventory: Inventory;
  let woken: string[];
  let later: (() => void)[];
  let nowMs: number;
  let waiting: WaitingVms;
  /** What the process does when nothing else is to be done; returns how often it did. */
  const whileIdle = (most = 1_000): number => {
    let turns = 0;
    for (; turns < most && later.length > 0; turns += 1) later.shift()?.();
    return turns;
  };

  beforeEach(() => {
    inventory = new Inventory(ranges);
    woken = [];
    later = [];
    nowMs = 0;
    // A decision takes a millisecond.
    const now = (): number => (nowMs += 1);
    const times = { budgetMs: 3, now, later: (action: () => void) => void later.push(action) };
    waiting = new WaitingVms(inventory, (key) => woken.push(key), times);
  });

  /** VMs of a namespace, of which the first is the oldest; each wants a whole node. */
  function wait(namespace: string, count: number, told = ''): void {
    for (let i = 0; i < count; i += 1) {
      const request = { ...aRequest({ cpuMilli: 8_000 }), namespace, labels: { vm: `${i}` } };
      const key = `${namespace}/vm-${i}`;
      waiting.add(key, { key, created: `2026-01-0${i % 10}`, request, told });
    }
  }

  const free = (count: number, from = 0): void => {
    for (let i = from; i < from + count; i += 1) inventory.setNode(aNode(`n${i}`));
  };

  test('are tried a few at a time, and none is forgotten', () => {
    wait('team', 10);
    free(10);
    waiting.retry();
    expect(woken).toEqual(['team/vm-0', 'team/vm-1', 'team/vm-2']);
    expect(whileIdle()).toBe(3);
    expect(woken).toEqual(Array.from({ length: 10 }, (_, i) => `team/vm-${i}`));
    expect([waiting.size, later.length]).toEqual([0, 0]);
  });

  test('of one namespace hold up no other: they take turns, the oldest VM of each first', () => {
    wait('large', 9);
    wait('small', 2);
    free(11);
    waiting.retry();
    expect(woken).toEqual(['large/vm-0', 'small/vm-0', 'large/vm-1']);
    whileIdle(1);
    expect(woken).toContain('small/vm-1');
    whileIdle();
    expect(waiting.size).toBe(0);
  });

  test('have their turn however often something changes, and what has changed is tried on all of them', () => {
    wait('team', 9);
    wait('other', 1);
    for (let i = 0; i < 4; i += 1) {
      waiting.retry();
      whileIdle(1);
    }
    free(1);
    waiting.retry();
    whileIdle();
    expect(woken).toHaveLength(1);
    free(9, 1);
    waiting.retry();
    expect(whileIdle()).toBeGreaterThan(0);
    expect([woken.length, waiting.size]).toEqual([10, 0]);
  });

  test('and have been tried in vain are tried again after the last of their round', () => {
    wait('team', 5);
    waiting.retry();
    free(1);
    waiting.retry();
    whileIdle();
    inventory.setNode(aNode('n9'));
    expect(woken).toHaveLength(1);
    free(4, 1);
    waiting.retry();
    waiting.retry();
    whileIdle();
    expect(new Set(woken).size).toBe(5);
  });

  test('and go meanwhile are not tried any more', () => {
    wait('team', 6);
    waiting.retry();
    for (let i = 0; i < 6; i += 1) waiting.remove(`team/vm-${i}`);
    free(6);
    whileIdle();
    expect([woken, waiting.size]).toEqual([[], 0]);
  });

  test('have outdated sentences looked at a few at a time too', () => {
    free(1);
    inventory.setPod(aPod('p', 'n0', { cpu: 8 }));
    const told = '0/1 nodes are available: 1 Insufficient cpu.';
    expect(place(inventory, aRequest({ cpuMilli: 8_000 }))).toMatchObject({ message: told });
    wait('team', 5, 'another');
    wait('true', 1, told);
    expect([waiting.wakeOutdated(), waiting.hasMoreOutdated]).toEqual([2, true]);
    expect([waiting.wakeMoreOutdated(), waiting.hasMoreOutdated]).toEqual([3, false]);
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

  test('what is left of a look is looked at later, without a change', () => {
    let left = 3;
    const look = vi.fn(() => 10);
    const goOn = vi.fn(() => {
      left -= 1;
      return 10;
    });
    const changed = paced(look, 1_000, 200, { isLeft: () => left > 0, goOn });
    changed();
    vi.advanceTimersByTime(1_000);
    expect([look.mock.calls.length, goOn.mock.calls.length]).toEqual([1, 0]);
    vi.advanceTimersByTime(1_900);
    expect(goOn).not.toHaveBeenCalled();
    vi.advanceTimersByTime(100);
    expect(goOn).toHaveBeenCalledTimes(1);
    changed();
    vi.advanceTimersByTime(2_000);
    expect([look.mock.calls.length, goOn.mock.calls.length]).toEqual([2, 1]);
    vi.advanceTimersByTime(60_000);
    expect([look.mock.calls.length, goOn.mock.calls.length]).toEqual([2, 3]);
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
