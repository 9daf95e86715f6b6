import { describe, expect, test } from 'vitest';
import { check, type Promised, type Walls, type World } from './model.ts';

const walls: Walls = { placement: true, assume: true, scheduler: true, kubelet: true, kernel: true };
const none = { crashes: 0, staleSchedulers: 0, deletions: 0, forcedDeletions: 0, lostRecords: 0 };
/** One node, two VMs that want its bundle, two operators whose caches may be as old as they like. */
const duel: World = { nodes: 1, vms: 2, operators: 2, walls, podsPerVm: 1, ...none };
const timeout = 120_000;

const once = 'no node has its groups open for two VMs';
const started = 'no node starts a VM while another has its bundle';
const bound = 'no two pods that live are bound to one node';
const meant = 'no two pods that live are meant for one node';

const without = (...names: (keyof Walls)[]): Walls => ({
  ...walls,
  ...Object.fromEntries(names.map((name) => [name, false])),
});

describe('at most one GPU VM per x86 node (spec: Limits), all reachable states', () => {
  /** Fewer states than this would mean that the world has lost its faults. */
  const rows: [string, World, Promised[], number][] = [
    ['two operators with stale caches', { ...duel, podsPerVm: 2 }, [meant], 1_900],
    ['and one of them crashes', { ...duel, podsPerVm: 2, crashes: 1 }, [meant], 3_000],
    [
      'and a second scheduler starts with an old list',
      { ...duel, staleSchedulers: 1 },
      [meant, bound],
      5_000,
    ],
    ['and a user deletes a VM', { ...duel, deletions: 1 }, [meant], 5_000],
    ['and somebody deletes a running pod by force', { ...duel, forcedDeletions: 1 }, [meant, started], 5_000],
    ['and a kubelet loses its record', { ...duel, podsPerVm: 2, lostRecords: 1 }, [meant], 3_000],
    ['two nodes and two VMs', { ...duel, podsPerVm: 2, nodes: 2, crashes: 1 }, [meant], 20_000],
  ];
  test.each(rows)(
    '%s: the groups are open for one VM, and no node stays idle',
    (_sentence, world, broken, states) => {
      const finding = check(world);
      expect([...finding.broken.keys()].toSorted()).toEqual(broken.toSorted());
      expect(finding.isComplete).toBe(true);
      expect(finding.starved).toBe(0);
      expect(finding.states).toBeGreaterThan(states);
    },
    timeout,
  );

  /** Each in the world of a row above. */
  const flaws: [string, NonNullable<World['flaw']>, World][] = [
    ['keeps what it has assumed', 'keepsAssumptions', { ...duel, deletions: 1 }],
    ['never hears that a pod has ended', 'missesEnds', { ...duel, forcedDeletions: 1 }],
    ['replaces no pod', 'neverReplaces', { ...duel, podsPerVm: 2, nodes: 2, crashes: 1 }],
  ];
  test.each(flaws)(
    'operators of which each %s leave a node idle, and that is found',
    (_sentence, flaw, world) => {
      expect(check({ ...world, flaw }).starved).toBeGreaterThan(0);
    },
    timeout,
  );
});

/** What each wall is for: docs/gpu.md has the table. Numbers are the steps of a shortest way to the broken promise. */
describe('walls taken out alone and in pairs', () => {
  /** Two operators, two schedulers of which one starts with an old list: every reachable state. */
  const rows: [(keyof Walls)[], Partial<Record<Promised, number>>][] = [
    [[], { [meant]: 2, [bound]: 5 }],
    [['placement'], { [meant]: 2, [bound]: 5 }],
    [['assume'], { [meant]: 2, [bound]: 5 }],
    [['scheduler'], { [meant]: 2, [bound]: 4 }],
    [['kubelet'], { [meant]: 2, [bound]: 5, [started]: 7 }],
    [['kernel'], { [meant]: 2, [bound]: 5 }],
    [['placement', 'assume'], { [meant]: 2, [bound]: 5 }],
    [['placement', 'scheduler'], { [meant]: 2, [bound]: 4 }],
    [['placement', 'kubelet'], { [meant]: 2, [bound]: 5, [started]: 7 }],
    [['placement', 'kernel'], { [meant]: 2, [bound]: 5 }],
    [['assume', 'scheduler'], { [meant]: 2, [bound]: 4 }],
    [['assume', 'kubelet'], { [meant]: 2, [bound]: 5, [started]: 7 }],
    [['assume', 'kernel'], { [meant]: 2, [bound]: 5 }],
    [['scheduler', 'kubelet'], { [meant]: 2, [bound]: 4, [started]: 6 }],
    [['scheduler', 'kernel'], { [meant]: 2, [bound]: 4 }],
    [['kubelet', 'kernel'], { [meant]: 2, [bound]: 5, [started]: 7, [once]: 9 }],
  ];
  test.each(rows)(
    'without %j, beside stale lists',
    (names, expected) => {
      const finding = check({ ...duel, staleSchedulers: 1, walls: without(...names) });
      expect(lengths(finding.broken)).toEqual(expected);
      expect(finding.isComplete).toBe(true);
    },
    timeout,
  );

  const faults: [string, Partial<World>, number][] = [
    ['a user deletes a VM', { deletions: 1 }, 70_000],
    ['VMs get a second pod', { podsPerVm: 2 }, 9_000],
  ];
  test.each(faults)(
    'the kubelet alone holds it, without kube-scheduler and the kernel, where an operator crashes and %s',
    (_sentence, world, states) => {
      const faulty = { ...duel, crashes: 1, ...world };
      const finding = check({ ...faulty, walls: without('scheduler', 'kernel') });
      expect([...finding.broken.keys()].toSorted()).toEqual([meant, bound].toSorted());
      expect(finding.isComplete).toBe(true);
      expect(finding.states).toBeGreaterThan(states);
      const nothing = check({ ...faulty, walls: without('scheduler', 'kubelet', 'kernel') }, [once]);
      expect(nothing.broken.get(once)).toBeDefined();
    },
    timeout,
  );

  test(
    'it does not hold it where its record is lost: the kernel is needed',
    () => {
      const faults = { ...duel, lostRecords: 1, staleSchedulers: 1 };
      const finding = check({ ...faults, walls: without('kernel') }, [once]);
      expect(finding.broken.get(once)).toEqual([
        'operator 0 reconciles vm 0',
        'operator 1 reconciles vm 1',
        'the scheduler takes vm 0',
        'the kubelet admits vm 0',
        'the kubelet of node 0 loses its record',
        'QEMU of vm 0 on node 0 opens the groups',
        'another scheduler starts with an old list',
        'the scheduler takes vm 1',
        'the kubelet admits vm 1',
        'QEMU of vm 1 on node 0 opens the groups',
      ]);
    },
    timeout,
  );

  test(
    'nor where somebody deletes a pod by force while its guest runs',
    () => {
      const finding = check({ ...duel, forcedDeletions: 1, walls: without('kernel') }, [once]);
      expect(finding.broken.get(once)).toContain('somebody deletes the pod of vm 0 by force');
    },
    timeout,
  );

  test('one operator alone never means two VMs for one node, unless placement or what it assumes is missing', () => {
    const alone = { ...duel, operators: 1, crashes: 1, deletions: 1 };
    expect([...check(alone).broken.keys()]).toEqual([]);
    expect(lengths(check({ ...alone, walls: without('placement') }, [meant]).broken)).toEqual({ [meant]: 2 });
    expect(lengths(check({ ...alone, walls: without('assume') }, [meant]).broken)).toEqual({ [meant]: 2 });
  });
});

function lengths(broken: ReadonlyMap<Promised, readonly string[]>): Partial<Record<Promised, number>> {
  return Object.fromEntries([...broken].map(([promised, way]) => [promised, way.length]));
}
