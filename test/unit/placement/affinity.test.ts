import { describe, expect, test, vi } from 'vitest';
import type { Affinity, TopologySpreadConstraint } from '../../../src/api/affinity.ts';
import type { NodeFacts, PodFacts } from '../../../src/placement/facts.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place, type PlacementRequest } from '../../../src/placement/place.ts';
import { aNode, aPod, aRequest, ranges } from './builders.ts';

/** Each node is a place of its own, and in a zone where one is named. */
const on = (host: string, zone?: string): NodeFacts =>
  aNode(host, { labels: { host, ...(zone === undefined ? {} : { zone }) } });
/** One without room. */
const full = (host: string, zone?: string): NodeFacts => ({
  ...aNode(host, { cpu: 0 }),
  labels: on(host, zone).labels,
});

/** A pod of an application; fifty of them fit on a node. */
const pod = (app: string, node: string, more: Partial<PodFacts['neighbour']> = {}): PodFacts =>
  aPod(`${app}-on-${node}`, node, {
    cpu: 0.1,
    memory: 0.1,
    neighbour: { namespace: 'default', labels: { app }, repels: [], ...more },
  });

type Term = Pick<TopologySpreadConstraint, 'labelSelector' | 'topologyKey'>;

const to = (app: string, topologyKey = 'host'): Term => ({
  labelSelector: { matchLabels: { app } },
  topologyKey,
});

const near = (...terms: Term[]): Affinity => ({
  podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms },
});
const awayFrom = (...terms: Term[]): Affinity => ({
  podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms },
});

type Weighed = [weight: number, app: string];
const weighed = (terms: readonly Weighed[]) =>
  terms.map(([weight, app]) => ({ weight, podAffinityTerm: to(app) }));

/** Near the first, away from the second, where it can be had. */
const preferring = (wanted: Weighed[], unwanted: Weighed[]): Affinity => ({
  podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: weighed(wanted) },
  podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: weighed(unwanted) },
});

const preferringHost = (host: string, weight = 1): NonNullable<Affinity['nodeAffinity']> => ({
  preferredDuringSchedulingIgnoredDuringExecution: [
    { weight, preference: { matchExpressions: [{ key: 'host', operator: 'In', values: [host] }] } },
  ],
});
const onlyHosts = (...values: string[]): NonNullable<Affinity['nodeAffinity']> => ({
  requiredDuringSchedulingIgnoredDuringExecution: {
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'host', operator: 'In', values }] }],
  },
});

const spread = (
  topologyKey: string,
  more: Partial<TopologySpreadConstraint> = {},
): TopologySpreadConstraint => ({
  maxSkew: 1,
  topologyKey,
  whenUnsatisfiable: 'DoNotSchedule',
  labelSelector: { matchLabels: { app: 'x' } },
  ...more,
});
const softly = (topologyKey: string, app = 'x'): TopologySpreadConstraint =>
  spread(topologyKey, {
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: { app } },
  });

type Row = [sentence: string, nodes: NodeFacts[], pods: PodFacts[], Partial<PlacementRequest>, string];

/** The node taken, or why none is. */
function outcome([, nodes, pods, request]: Row): string {
  const inventory = new Inventory(ranges);
  for (const node of nodes) inventory.setNode(node);
  for (const each of pods) inventory.setPod(each);
  const result = place(inventory, aRequest(request));
  return result.kind === 'placed' ? result.node : result.message;
}

const refused = (...reasons: string[]): string => `0/2 nodes are available: ${reasons.join(', ')}.`;

describe('labels of nodes', () => {
  test.each<Row>([
    [
      'keep a VM off nodes that it does not name',
      [on('a'), on('b')],
      [pod('x', 'b')],
      { affinity: { nodeAffinity: onlyHosts('b') } },
      'b',
    ],
    [
      'that no node has refuse it',
      [on('a'), on('b')],
      [],
      { affinity: { nodeAffinity: onlyHosts('z') } },
      refused("2 node(s) didn't match Pod's node affinity/selector"),
    ],
    [
      'that are preferred count for more than what is free',
      [on('a'), on('b')],
      [pod('x', 'b')],
      { affinity: { nodeAffinity: preferringHost('b') } },
      'b',
    ],
  ])('%s', (...row) => expect(outcome(row)).toBe(row[4]));
});

describe('a VM that needs neighbours', () => {
  const two = [on('a'), on('b')];
  const unmet = "node(s) didn't match pod affinity rules";

  test.each<Row>([
    ['goes where they are', two, [pod('x', 'b')], { affinity: near(to('x')) }, 'b'],
    ['waits where there are none', two, [pod('y', 'b')], { affinity: near(to('x')) }, refused(`2 ${unmet}`)],
    [
      'does not count those of other namespaces',
      two,
      [pod('x', 'b', { namespace: 'other' })],
      { affinity: near(to('x')) },
      refused(`2 ${unmet}`),
    ],
    [
      'goes anywhere in their zone',
      [on('a'), on('b', 'z'), on('c', 'z')],
      [pod('x', 'b')],
      { affinity: near(to('x', 'zone')) },
      'c',
    ],
    [
      'needs all of them: one that is only one of them is none',
      two,
      [pod('x', 'a'), pod('y', 'b')],
      { affinity: near(to('x'), to('y')) },
      refused(`2 ${unmet}`),
    ],
    [
      'on its node is not content with some in its zone',
      [full('a', 'z'), on('b', 'z')],
      [pod('x', 'a')],
      { affinity: near(to('x'), to('x', 'zone')) },
      refused('1 Insufficient cpu', `1 ${unmet}`),
    ],
    [
      'that is one of them may be the first',
      two,
      [pod('y', 'a')],
      { labels: { app: 'x' }, affinity: near(to('x')) },
      'b',
    ],
    [
      'that is only one of those it needs is not the first',
      two,
      [],
      { labels: { app: 'x' }, affinity: near(to('x'), to('y')) },
      refused(`2 ${unmet}`),
    ],
    [
      'that is one of them is not the first where another is',
      two,
      [pod('x', 'b')],
      { labels: { app: 'x' }, affinity: near(to('x')) },
      'b',
    ],
    [
      'is the first where those that are there are in no place, and goes where a place can be told',
      [on('a'), on('b', 'z')],
      [pod('x', 'a'), pod('y', 'b')],
      { labels: { app: 'x' }, affinity: near(to('x', 'zone')) },
      'b',
    ],
    [
      'that is the first has to be in each of its places',
      [on('a'), on('b', 'z')],
      [pod('y', 'b')],
      { labels: { app: 'x' }, affinity: near(to('x'), to('x', 'zone')) },
      'b',
    ],
  ])('%s', (...row) => expect(outcome(row)).toBe(row[4]));
});

describe('a VM that bears no neighbours', () => {
  const two = [on('a'), on('b')];

  test.each<Row>([
    ['goes where none of them is', two, [pod('x', 'a')], { affinity: awayFrom(to('x')) }, 'b'],
    [
      'goes where others are',
      two,
      [pod('x', 'a'), pod('y', 'b'), pod('z', 'b')],
      { affinity: awayFrom(to('x')) },
      'b',
    ],
    [
      'is told where they are everywhere',
      two,
      [pod('x', 'a'), pod('y', 'b')],
      { affinity: awayFrom(to('x'), to('y')) },
      refused("2 node(s) didn't match pod anti-affinity rules"),
    ],
    [
      'does not mind nodes that are in no place',
      [on('a', 'z'), on('b')],
      [pod('x', 'a'), pod('x', 'b')],
      { affinity: awayFrom(to('x', 'zone')) },
      'b',
    ],
  ])('%s', (...row) => expect(outcome(row)).toBe(row[4]));

  const repels = [to('x')];

  test.each<Row>([
    ['keeps later VMs away', two, [pod('y', 'a', { repels })], { labels: { app: 'x' } }, 'b'],
    [
      'keeps no others away',
      two,
      [pod('y', 'a', { repels }), pod('z', 'b'), pod('w', 'b')],
      { labels: { app: 'z' } },
      'a',
    ],
    [
      'keeps none of other namespaces away',
      two,
      [pod('y', 'a', { repels, namespace: 'other' }), pod('z', 'b'), pod('w', 'b')],
      { labels: { app: 'x' } },
      'a',
    ],
    [
      'keeps them away wherever there is one',
      two,
      [pod('y', 'a', { repels }), pod('y', 'b', { repels })],
      { labels: { app: 'x' } },
      refused("2 node(s) didn't satisfy existing pods anti-affinity rules"),
    ],
  ])('that is there already %s', (...row) => expect(outcome(row)).toBe(row[4]));
});

describe('a VM that is spread', () => {
  const labels = { app: 'x' };
  const others = (node: string): PodFacts[] => ['u', 'v', 'w'].map((app) => pod(app, node));

  test.each<Row>([
    [
      'goes where the fewest are',
      [on('a'), on('b')],
      [pod('x', 'a'), ...others('b')],
      { labels, topologySpreadConstraints: [spread('host')] },
      'b',
    ],
    [
      'may be one more than the fewest',
      [on('a', 'z'), on('b', 'z')],
      [...others('b')],
      { labels, topologySpreadConstraints: [spread('host')] },
      'a',
    ],
    [
      'may be as many more as it says',
      [full('a'), on('b')],
      [pod('x', 'b')],
      { labels, topologySpreadConstraints: [spread('host', { maxSkew: 2 })] },
      'b',
    ],
    [
      'does not count itself where it is not one of them',
      [full('a'), on('b')],
      [pod('x', 'b')],
      { topologySpreadConstraints: [spread('host')] },
      'b',
    ],
    [
      'counts all of a zone together',
      [on('a', 'y'), on('b', 'z'), on('c', 'z')],
      [pod('x', 'b'), ...others('a')],
      { labels, topologySpreadConstraints: [spread('zone')] },
      'a',
    ],
    [
      'goes on no node that is in no place',
      [on('a'), on('b', 'z')],
      [pod('x', 'b')],
      { labels, topologySpreadConstraints: [spread('zone')] },
      'b',
    ],
    [
      'does not count places that its node affinity does not take',
      [on('a'), on('b')],
      [pod('x', 'b')],
      { labels, affinity: { nodeAffinity: onlyHosts('b') }, topologySpreadConstraints: [spread('host')] },
      'b',
    ],
    [
      'does not count pods on nodes that its node affinity does not take, also in a place with others',
      [on('a', 'y'), on('b', 'z'), on('c', 'z')],
      [pod('x', 'c'), pod('x', 'c'), ...others('a')],
      {
        labels,
        affinity: { nodeAffinity: onlyHosts('a', 'b') },
        topologySpreadConstraints: [spread('zone')],
      },
      'b',
    ],
    [
      'does not count nodes that are not in a place of each constraint',
      [on('a', 'y'), on('b', 'z'), on('c')],
      [pod('x', 'a'), pod('x', 'b'), ...others('b')],
      { labels, topologySpreadConstraints: [spread('zone'), spread('host')] },
      'a',
    ],
    [
      'waits where the place of the fewest has no room',
      [full('a'), on('b')],
      [pod('x', 'b')],
      { labels, topologySpreadConstraints: [spread('host')] },
      refused('1 Insufficient cpu', "1 node(s) didn't match pod topology spread constraints"),
    ],
    [
      'is told of nodes that are in no place',
      [on('a'), on('b')],
      [],
      { labels, topologySpreadConstraints: [spread('zone')] },
      refused("2 node(s) didn't match pod topology spread constraints (missing required label)"),
    ],
    [
      'where it can be had does not wait',
      [full('a'), on('b')],
      [pod('x', 'b')],
      { labels, topologySpreadConstraints: [softly('host')] },
      'b',
    ],
    [
      'where it can be had goes where the fewest are',
      [on('a'), on('b')],
      [pod('x', 'a'), ...others('b')],
      { labels, topologySpreadConstraints: [softly('host')] },
      'b',
    ],
    [
      'where it can be had goes to a place rather than to none',
      [on('a'), on('b', 'z'), on('c', 'z')],
      [pod('x', 'c'), ...others('b'), ...others('c')],
      { labels, topologySpreadConstraints: [softly('zone')] },
      'b',
    ],
    [
      'where it can be had finds a node that is not in a place of each constraint the worst',
      [on('a'), on('b', 'z')],
      [pod('y', 'b')],
      { labels, topologySpreadConstraints: [softly('zone'), softly('host', 'y')] },
      'b',
    ],
  ])('%s', (...row) => expect(outcome(row)).toBe(row[4]));
});

describe('what a VM prefers', () => {
  const two = [on('a'), on('b')];
  const both = [pod('x', 'a'), pod('y', 'a')];

  test.each<Row>([
    ['is near some', two, [pod('x', 'a')], { affinity: preferring([[1, 'x']], []) }, 'a'],
    ['is away from others', two, [pod('y', 'a')], { affinity: preferring([], [[1, 'y']]) }, 'b'],
    ['is weighed: near by more', two, both, { affinity: preferring([[4, 'x']], [[3, 'y']]) }, 'a'],
    ['is weighed: away by more', two, both, { affinity: preferring([[3, 'x']], [[4, 'y']]) }, 'b'],
    [
      'of one kind counts no more than what it prefers of another, whatever the weights are',
      [on('a'), on('b', 'z')],
      [pod('y', 'b'), pod('x', 'a')],
      {
        affinity: { ...preferring([[1, 'y']], []), nodeAffinity: preferringHost('a', 100) },
        topologySpreadConstraints: [softly('host')],
      },
      'b',
    ],
    [
      'is forgotten where it does not fit',
      [full('a'), on('b')],
      [pod('x', 'a')],
      { affinity: preferring([[100, 'x']], []) },
      'b',
    ],
    [
      'leaves the freest of those that are equally good',
      [on('a'), on('b'), on('c')],
      [pod('x', 'a'), pod('x', 'b'), pod('u', 'a')],
      { affinity: preferring([[1, 'x']], []) },
      'b',
    ],
  ])('%s', (...row) => expect(outcome(row)).toBe(row[4]));

  test.each<Row>([
    [
      'a tag that it asks for',
      [on('a'), aNode('b', { labels: { host: 'b' }, tags: ['ci'] })],
      [pod('x', 'a')],
      { tag: 'ci', affinity: preferring([[100, 'x']], []) },
      'b',
    ],
    [
      'a node without soft taints',
      [aNode('a', { labels: { host: 'a' }, taints: [{ key: 'old', effect: 'PreferNoSchedule' }] }), on('b')],
      [pod('x', 'a')],
      { affinity: preferring([[100, 'x']], []) },
      'b',
    ],
  ])('comes after %s', (...row) => expect(outcome(row)).toBe(row[4]));
});

describe('pods are counted only where they decide', () => {
  const eager = {
    affinity: { ...near(to('x')), ...preferring([[1, 'x']], [[1, 'y']]) },
    topologySpreadConstraints: [spread('host'), softly('host')],
  };
  /** How often the pods of the namespace are gone through. */
  const countsFor = (nodes: NodeFacts[], request: Partial<PlacementRequest>): number => {
    const inventory = new Inventory(ranges);
    for (const node of nodes) inventory.setNode(node);
    inventory.setPod(pod('x', 'a'));
    const counted = vi.spyOn(inventory, 'neighboursIn');
    place(inventory, aRequest(request));
    return counted.mock.calls.length;
  };

  test('not where no node has room for the VM', () => {
    expect(countsFor([full('a'), full('b')], eager)).toBe(0);
  });

  test('not where labels of the nodes refuse it', () => {
    const affinity = { ...eager.affinity, nodeAffinity: onlyHosts('c') };
    expect(countsFor([on('a'), on('b')], { ...eager, affinity })).toBe(0);
  });

  test('no further than to the first reason against it, and not for a choice that is none', () => {
    const wanting = near(to('nobody'));
    const preferred = { ...preferring([[1, 'x']], [[1, 'y']]), ...wanting };
    expect(countsFor([on('a'), on('b')], { affinity: preferred })).toBe(
      countsFor([on('a')], { affinity: wanting }),
    );
    const weighed = preferring([[1, 'x']], [[1, 'y']]);
    expect(countsFor([on('a'), full('b')], { affinity: weighed })).toBeLessThan(
      countsFor([on('a'), on('b')], { affinity: weighed }),
    );
  });
});
