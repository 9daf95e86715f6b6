import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import {
  decidePool,
  type ObservedPool,
  type PoolPlan,
  type StandbyView,
} from '../../../../src/controllers/vmpool/decide.ts';
import { revisionOf } from '../../../../src/controllers/vmpool/standbypod.ts';
import { runnerPullsWith, type VmSettings } from '../../../../src/controllers/vm/settings.ts';
import { vmSettings } from '../../../support/operator.ts';
import { effective } from '../vm/builders.ts';
import { aNode, aPool, aStandby, bornAt, type StandbyGiven, unpulled } from './builders.ts';

const startMs = 60_000;
const revision = revisionOf(aPool(), effective, vmSettings());

function view(name: string, given: StandbyGiven & Partial<Omit<StandbyView, 'pod'>> = {}): StandbyView {
  return { pod: aStandby(name, given), node: aNode(), isTaken: false, ...given };
}

const booting = (name: string, createdAt = bornAt) => view(name, { isIdle: false, createdAt });
const outdated = (name: string, given: StandbyGiven = {}) =>
  view(name, { installation: { runnerImage: 'svc3-runner:before' }, ...given });
const at = (second: number) => new Date(Date.parse(bornAt) + second * 1000).toISOString();

function decided(
  standbys: StandbyView[],
  given: Partial<ObservedPool> & { minIdle?: number; maxSize?: number } = {},
): PoolPlan {
  const { minIdle = 1, maxSize } = given;
  return decidePool({
    pool: aPool({ minIdle, ...(maxSize === undefined ? {} : { maxSize }) }),
    standbys,
    claimed: 0,
    withPod: given.claimed ?? 0,
    revisions: [revision],
    resolution: 'resolved',
    pullSecretVersion: undefined,
    pullsWith: runnerPullsWith(vmSettings()),
    isLeaving: false,
    now: Date.parse(bornAt) + 1_000,
    startMs,
    ...given,
  });
}

const given = ({ delete: doomed }: PoolPlan) =>
  doomed.map(({ pod, why }) => `${pod.metadata.name.replace('svc3-pool-', '')}: ${why}`);

describe('a pool makes', () => {
  test('as many guests as are to wait', () => {
    expect(decided([], { minIdle: 3 })).toMatchObject({ create: 3, idle: 0, isFull: false });
    expect(decided([view('1')], { minIdle: 3 })).toMatchObject({ create: 2, idle: 1 });
  });

  test('none for those that boot still', () => {
    expect(decided([booting('1')])).toMatchObject({ create: 0, idle: 0, preparing: 1 });
  });

  test('another for each that a VM has chosen, which is none of its business any more', () => {
    const plan = decided([view('1', { isTaken: true, node: aNode({ isLost: true }) })]);
    expect(plan).toMatchObject({ create: 1, idle: 0, delete: [] });
  });

  test('another for each that is being deleted', () => {
    const one = view('1');
    const pod: Pod = { ...one.pod, metadata: { ...one.pod.metadata, deletionTimestamp: bornAt } };
    expect(decided([{ ...one, pod }])).toMatchObject({ create: 1, idle: 0, delete: [] });
  });

  test.each([
    { sentence: 'as maxSize leaves beside its VMs', claimed: 2, create: 1, isFull: true },
    { sentence: 'none where its VMs are as many as maxSize', claimed: 3, create: 0, isFull: true },
    { sentence: 'none where its VMs are more than maxSize', claimed: 9, create: 0, isFull: true },
    { sentence: 'all where maxSize has room', claimed: 1, create: 2, isFull: false },
  ])('no more than $sentence', ({ claimed, create, isFull }) => {
    expect(decided([], { minIdle: 2, maxSize: 3, claimed })).toMatchObject({ create, isFull });
  });
});

describe('a pool that is to have fewer', () => {
  const waiting = () => ['1', '2', '3'].map((name) => view(name));

  test.each([
    ['those that its VMs and maxSize leave no room', { claimed: 2 }, 1],
    ['all where its VMs are as many as maxSize', { claimed: 5 }, 0],
    ['none for VMs that may take one of them', { claimed: 2, withPod: 0 }, 3],
    ['none where there is no maxSize', { claimed: 9, maxSize: undefined }, 3],
  ])('gives up %s', (_sentence, counts, idle) => {
    const plan = decided(waiting(), { minIdle: 3, maxSize: 3, ...counts } as never);
    expect(plan).toMatchObject({ create: 0, idle });
    expect(plan.delete).toHaveLength(3 - idle);
  });

  test('gives up those that boot, then the newest', () => {
    const plan = decided([view('new', { createdAt: at(5) }), view('old'), booting('boots')], { minIdle: 1 });
    expect(given(plan)).toEqual(['new: fewer are to wait', 'boots: fewer are to wait']);
    expect(plan).toMatchObject({ create: 0, idle: 1, preparing: 0 });
  });

  test('gives up all at zero', () => {
    expect(given(decided([view('1'), outdated('2')], { minIdle: 0 }))).toHaveLength(2);
  });
});

describe('a guest is replaced', () => {
  const other = aPool({ template: { image: effective.image, cpu: 2 } });
  test.each<[sentence: string, standby: StandbyView, why: RegExp, isFailure: boolean]>([
    ['of another template, at once', view('1', { pool: other }), /template has changed/, false],
    [
      'of another way to wait, at once',
      view('1', { pool: aPool({ standby: 'Running' }) }),
      /template/,
      false,
    ],
    ['on a cordoned node', view('1', { node: aNode({ isCordoned: true }) }), /cordoned, lost or gone/, false],
    ['on a lost node', view('1', { node: aNode({ isLost: true }) }), /cordoned, lost or gone/, false],
    ['on a node that is gone', view('1', { node: undefined }), /cordoned, lost or gone/, false],
    [
      'on a node of another namespace',
      view('1', { node: aNode({ reservedFor: 'others' }) }),
      /^node n1 is reserved for another namespace$/,
      false,
    ],
    ['whose pod has ended', ended(view('1')), /OOM/, true],
  ])('%s', (_sentence, standby, why, isFailure) => {
    const plan = decided([standby]);
    expect(plan.delete).toMatchObject([{ why: expect.stringMatching(why), isFailure }]);
    expect(plan).toMatchObject({ create: 1, idle: 0 });
  });

  test.each(['team', ''])('not on a node with label svc3.dev/namespace=%s', (reservedFor) => {
    expect(decided([view('1', { node: aNode({ reservedFor }) })]).delete).toEqual([]);
  });

  describe('whose image cannot be pulled', () => {
    const words = 'no basic auth credentials';
    const guest = (version?: string): StandbyView => ({ ...view('1'), pod: unpulled('1', words, version) });

    test.each<[sentence: string, made: string | undefined, now: string | undefined, isReplaced: boolean]>([
      ['at once where there is a pull Secret by now', undefined, '7', true],
      ['at once where that is another by now', '6', '7', true],
      ['not where it was made with that', '7', '7', false],
      ['not where there is none', undefined, undefined, false],
      ['not where there is none any more', '7', undefined, false],
    ])('%s', (_sentence, made, pullSecretVersion, isReplaced) => {
      const plan = decided([guest(made)], { pullSecretVersion });
      expect(given(plan)).toEqual(isReplaced ? [`1: ${words}`] : []);
      expect([plan.create, plan.preparing]).toEqual(isReplaced ? [1, 0] : [0, 1]);
      expect(plan.unpulled).toBe(isReplaced ? undefined : words);
    });

    test('is no failure also where its time is over', () => {
      const late = { now: Date.parse(bornAt) + startMs };
      expect(decided([guest()], { ...late, pullSecretVersion: '7' }).delete).toMatchObject([
        { isFailure: false },
      ]);
      expect(decided([guest('7')], { ...late, pullSecretVersion: '7' }).delete).toMatchObject([
        { why: words, isFailure: true },
      ]);
    });

    test('not where it waits, or has begun: it has what it needs', () => {
      expect(decided([view('1'), booting('2')], { minIdle: 2, pullSecretVersion: '7' }).delete).toEqual([]);
    });
  });

  test('that is not ready in time, and is looked at when that time is over', () => {
    const one = booting('1');
    expect(decided([one], { now: Date.parse(bornAt) + 10_000 }).lookAgainMs).toBe(50_000);
    const late = decided([one], { now: Date.parse(bornAt) + startMs });
    expect(late.delete).toMatchObject([{ why: 'its guest was not ready after 60 seconds', isFailure: true }]);
    expect(decided([view('1')], { now: Date.parse(bornAt) + startMs })).toMatchObject({
      delete: [],
      lookAgainMs: undefined,
    });
  });

  test('that no node takes, unless kube-scheduler makes room for it on its own', () => {
    const { pod, ...one } = booting('1');
    const { nodeName: _nodeName, ...spec } = pod.spec;
    const conditions = [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'Insufficient cpu' },
    ];
    const unbound = (nominatedNodeName: string): StandbyView => ({
      ...one,
      pod: { ...pod, spec, status: { conditions, nominatedNodeName } },
    });
    expect(decided([unbound('')]).delete).toMatchObject([{ why: 'Insufficient cpu', isFailure: true }]);
    expect(decided([unbound('n1')])).toMatchObject({ delete: [], lookAgainMs: 59_000 });
  });

  test('that has waited and starts again has as long as any other', () => {
    const restarted = startsAgain(booting('1'), at(3_600));
    const again = decided([restarted], { now: Date.parse(at(3_601)) });
    expect(again).toMatchObject({ delete: [], preparing: 1, lookAgainMs: 59_000 });
    expect(decided([restarted], { now: Date.parse(at(3_660)) }).delete).toMatchObject([{ isFailure: true }]);
  });

  test('not because nobody knows what it would be made from now', () => {
    expect(decided([outdated('1')], { revisions: undefined })).toMatchObject({
      delete: [],
      create: 0,
      idle: 1,
    });
  });
});

describe('while a registry is asked what guests are made from', () => {
  const asking = { resolution: 'asking', minIdle: 2 } as const;

  test('those that boot in the place of outdated ones stay', () => {
    const refill = [outdated('1'), outdated('2'), booting('3'), booting('4')];
    const counts = { delete: [], create: 0, idle: 2, preparing: 2 };
    expect(decided(refill, asking)).toMatchObject(counts);
    // Nothing is known yet, as after a start of the operator.
    expect(decided(refill, { ...asking, revisions: undefined })).toMatchObject(counts);
  });

  test('more than are to wait go all the same, where it is known which are outdated', () => {
    expect(given(decided([view('1'), view('2'), booting('3')], asking))).toEqual(['3: fewer are to wait']);
  });

  test.each(['asking', 'unresolved'] as const)(
    'none makes room for one that cannot be made: %s',
    (resolution) => {
      const bounded = { minIdle: 1, maxSize: 1, resolution };
      expect(decided([outdated('1')], bounded)).toMatchObject({ delete: [], idle: 1 });
    },
  );
});

describe('guests of other chart values', () => {
  const { portRanges } = vmSettings();
  test.each<Partial<VmSettings>>([
    { portRanges: { ...portRanges, vnc: { first: 5999, last: 6048 } } },
    { portRanges: { ...portRanges, ssh: { first: 9000, last: 9049 } } },
    { vmMetrics: true },
    { graceSeconds: 7 },
    { readinessSeconds: 7 },
    { priorityClassName: 'low' },
    { ephemeralLimitBytes: 2 ** 30 },
    { runnerPullSecret: 'registry' },
    { cpuOvercommit: 8 },
    { accelerator: 'tcg' },
  ])('%j make way one by one', (installation) => {
    const before = [view('1', { installation }), view('2', { installation })];
    expect(decided(before, { minIdle: 2 })).toMatchObject({ delete: [], create: 2, idle: 2 });
    expect(given(decided([...before, view('3')], { minIdle: 2 }))).toEqual(['2: it is outdated']);
  });

  test('that are no part of a pod wait on', () => {
    const installation = { saveWaitMs: 1, storageClassName: 'fast', whenFull: 'Pod' } as const;
    expect(decided([view('1', { installation })])).toMatchObject({ delete: [], create: 0 });
  });
});

describe('guests of another VMConfig, image or runner', () => {
  test('wait on until there is one in the place of each', () => {
    const both = [outdated('1'), outdated('2')];
    expect(decided(both, { minIdle: 2 })).toMatchObject({ delete: [], create: 2, idle: 2 });
    const oneBoots = decided([...both, booting('3')], { minIdle: 2 });
    expect(oneBoots).toMatchObject({ delete: [], create: 1, idle: 2, preparing: 1 });
    expect(given(decided([...both, view('3')], { minIdle: 2 }))).toEqual(['2: it is outdated']);
    expect(given(decided([...both, view('3'), view('4')], { minIdle: 2 }))).toHaveLength(2);
  });

  test('go at once where they boot still', () => {
    expect(given(decided([outdated('1', { isIdle: false })]))).toEqual(['1: it is outdated']);
  });

  test('make room one by one where maxSize leaves none', () => {
    const both = [outdated('1'), outdated('2')];
    const full = { minIdle: 2, maxSize: 2 };
    const plan = decided(both, full);
    expect(given(plan)).toEqual(['2: it is outdated']);
    expect(plan).toMatchObject({ create: 0, idle: 1 });
    expect(decided([outdated('1')], full)).toMatchObject({ delete: [], create: 1, idle: 1 });
    expect(decided([outdated('1'), booting('3')], full)).toMatchObject({ delete: [], create: 0 });
    expect(given(decided([outdated('1'), view('3')], full))).toEqual(['1: it is outdated']);
  });
});

describe('guests on a node with a taint', () => {
  const node = aNode({ taints: [{ key: 'karpenter.sh/disrupted', effect: 'NoSchedule' }] });
  const tainted = (name: string, standby: StandbyGiven = {}) => view(name, { node, ...standby });
  const why = 'its node has a taint that the pool does not tolerate';

  test('wait on until there is one elsewhere in the place of each, and are no VM’s meanwhile', () => {
    const both = [tainted('1'), tainted('2')];
    expect(decided(both, { minIdle: 2 })).toMatchObject({ delete: [], create: 2, idle: 0, kept: 2 });
    const one = decided([...both, view('3')], { minIdle: 2 });
    expect(one.delete).toMatchObject([{ why, isFailure: false, pod: both[1]?.pod }]);
    expect(one).toMatchObject({ create: 1, idle: 1, kept: 2 });
    expect(given(decided([...both, view('3'), view('4')], { minIdle: 2 }))).toEqual([
      `1: ${why}`,
      `2: ${why}`,
    ]);
  });

  test('go at once where they boot still, and before outdated ones that VMs can get', () => {
    expect(given(decided([tainted('1', { isIdle: false })]))).toEqual([`1: ${why}`]);
    const standbys = [tainted('1', { createdAt: at(-10) }), outdated('2'), view('3')];
    expect(given(decided(standbys, { minIdle: 2 }))).toEqual([`1: ${why}`]);
  });

  test('make room where maxSize leaves none', () => {
    expect(given(decided([tainted('1')], { minIdle: 1, maxSize: 1 }))).toEqual([`1: ${why}`]);
  });

  test.each<[sentence: string, standby: StandbyView]>([
    [
      'tolerate it',
      tainted('1', { settings: { tolerations: [{ key: 'karpenter.sh/disrupted', operator: 'Exists' }] } }),
    ],
    [
      'know that it passes by itself',
      view('1', {
        node: aNode({ taints: [{ key: 'node.kubernetes.io/disk-pressure', effect: 'NoSchedule' }] }),
      }),
    ],
  ])('are as all others where they %s', (_sentence, standby) => {
    // Nobody knows what its guests are to be made from.
    const plan = decided([standby], { revisions: undefined });
    expect(plan).toMatchObject({ delete: [], create: 0, idle: 1, kept: 1 });
  });
});

describe('of the outdated guests one makes way where there is no room for another', () => {
  const sparesOf = (...input: Parameters<typeof decided>) =>
    decided(...input).spares.map(({ metadata }) => metadata.name.replace('svc3-pool-', ''));

  test('the one that is worth least first, while nothing boots or leaves', () => {
    const both = [outdated('1', { createdAt: at(-10) }), outdated('2')];
    expect(sparesOf(both, { minIdle: 2 })).toEqual(['2', '1']);
    expect(sparesOf(both, { minIdle: 2, isLeaving: true })).toEqual([]);
    expect(sparesOf([...both, booting('3')], { minIdle: 3 })).toEqual([]);
    expect(sparesOf([...both, view('3')], { minIdle: 3 })).toEqual(['2', '1']);
  });

  test('none where all are as they should be', () => {
    expect(sparesOf([view('1')], { minIdle: 2 })).toEqual([]);
  });
});

/** The guest has not been ready since then. */
function startsAgain(one: StandbyView, lastTransitionTime: string): StandbyView {
  const conditions = [{ type: 'Ready', status: 'False' as const, lastTransitionTime }];
  return { ...one, pod: { ...one.pod, status: { ...one.pod.status, conditions } } };
}

function ended(one: StandbyView): StandbyView {
  const status = { phase: 'Failed' as const, reason: 'OOMKilled', message: 'OOM' };
  return { ...one, pod: { ...one.pod, status } };
}
