import { describe, expect, test } from 'vitest';
import { check, type Promised, type Walls, type World } from './model.ts';

const walls: Walls = { placement: true, assume: true, scheduler: true, kubelet: true };
const none = { crashes: 0, staleSchedulers: 0, deletions: 0, forcedDeletions: 0 };
/** One node, two VMs that want its bundle, two operators whose caches may be as old as they like. */
const duel: World = { nodes: 1, vms: 2, operators: 2, walls, podsPerVm: 2, ...none };
const timeout = 120_000;

const once = 'no node gives its bundle to two VMs';
const oncePerVm = 'no VM has two bundles by pods that exist';
const bound = 'no two pods that live are bound to one node';
const meant = 'no two pods that live are meant for one node';

const brokenIn = (world: World, depth: number): Promised[] =>
  [...check(world, depth).broken.keys()].toSorted();

describe('at most one GPU VM per x86 node (spec: Limits), every interleaving', () => {
  /** The depth is the bound in steps; fewer states than this would mean that the world has lost its faults. */
  const rows: [string, World, number, number][] = [
    ['two operators with stale caches', duel, 14, 3_000],
    ['and one of them crashes', { ...duel, crashes: 1 }, 11, 5_000],
    ['and a second scheduler starts with an old list', { ...duel, staleSchedulers: 1 }, 10, 5_000],
    ['and a user deletes a VM', { ...duel, deletions: 1 }, 9, 5_000],
    ['and somebody deletes a running pod by force', { ...duel, forcedDeletions: 1 }, 10, 5_000],
    [
      'and all of that together',
      { ...duel, crashes: 1, staleSchedulers: 1, deletions: 1, forcedDeletions: 1 },
      7,
      5_000,
    ],
    ['two nodes and three VMs', { ...duel, nodes: 2, vms: 3, crashes: 1, staleSchedulers: 1 }, 6, 5_000],
  ];
  test.each(rows)(
    '%s: no double allocation',
    (_sentence, world, depth, states) => {
      const finding = check(world, depth);
      expect(finding.broken.get(once)).toBeUndefined();
      expect(finding.broken.get(oncePerVm)).toBeUndefined();
      expect(finding.starved).toBe(0);
      expect(finding.states).toBeGreaterThan(states);
    },
    timeout,
  );

  test('one operator alone: all reachable states, every promise holds and no node stays idle', () => {
    const finding = check({ ...duel, operators: 1, crashes: 1, deletions: 1 }, 100);
    expect([...finding.broken.keys()]).toEqual([]);
    expect(finding.isComplete).toBe(true);
    expect(finding.starved).toBe(0);
  });

  test('kube-scheduler alone keeps two operators from binding two pods to a node', () => {
    expect(brokenIn({ ...duel, crashes: 1 }, 9)).toEqual([meant]);
  });
});

describe('the same checker finds what follows when a wall is taken out', () => {
  const without = (wall: keyof Walls): Walls => ({ ...walls, [wall]: false });

  test('without the kubelet: an old list of the scheduler lets two VMs have one bundle', () => {
    const finding = check({ ...duel, staleSchedulers: 1, walls: without('kubelet') }, 8);
    expect(finding.broken.get(once)).toEqual([
      'operator 0 reconciles vm 0',
      'operator 1 reconciles vm 1',
      'the scheduler takes vm 0',
      'the kubelet admits vm 0',
      'another scheduler starts with an old list',
      'the scheduler takes vm 1',
      'the kubelet admits vm 1',
    ]);
  });

  test('without kube-scheduler: two pods are bound to one node, and the kubelet still gives its bundle once', () => {
    expect(brokenIn({ ...duel, walls: without('scheduler') }, 10)).toEqual([bound, meant]);
  });

  test('without placement: one operator sends two VMs to one node, and the other walls still hold', () => {
    expect(brokenIn({ ...duel, operators: 1, walls: without('placement') }, 12)).toEqual([meant]);
  });

  test('without what is assumed: one operator sends two VMs to one node before it sees the first', () => {
    const finding = check({ ...duel, operators: 1, walls: without('assume') }, 12);
    expect(finding.broken.get(meant)).toEqual(['operator 0 reconciles vm 0', 'operator 0 reconciles vm 1']);
    expect(finding.broken.has(once)).toBe(false);
  });

  test('without kube-scheduler and kubelet: operators alone do not hold the limit', () => {
    const finding = check({ ...duel, walls: { ...walls, scheduler: false, kubelet: false } }, 8);
    expect(finding.broken.get(once)).toHaveLength(6);
  });
});
