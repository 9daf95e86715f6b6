import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import { labels, standbyNamePrefix } from '../../../../../src/api/meta.ts';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import {
  type SeenTimes,
  type StartFacts,
  startSpans,
} from '../../../../../src/controllers/vm/starts/startspans.ts';
import { spanIdOf } from '../../../../../src/tracing/ids.ts';
import type { FinishedSpan } from '../../../../../src/tracing/span.ts';
import { aPod, aVm, runnerState, runningStatus } from '../builders.ts';

/** Times are told in milliseconds since this second, in which the VM was made. */
const base = Date.parse('2026-11-01T10:00:00Z');
const at = (ms: number) => new Date(base + ms).toISOString();

const context: StartFacts['context'] = {
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  spanId: '00f067aa0ba902b7',
  parentSpanId: 'aaaaaaaaaaaaaaaa',
  isLater: false,
  first: undefined,
};

interface Given {
  readonly context?: Partial<StartFacts['context']>;
  readonly pod?: Pod | undefined;
  readonly seen?: Partial<SeenTimes>;
  readonly runner?: Partial<RunnerState>;
  readonly endMs?: number;
  readonly failed?: string;
}

/** A pod that was made after 2 s, bound after 3 s and whose runner ran after 4 s, as its object says. */
function podOf({
  made = 2_000,
  bound = 3_000,
  ran = 4_000,
}: Record<'made' | 'bound' | 'ran', number | undefined>): Pod {
  const { containerStatuses = [], ...status } = runningStatus(true);
  const [container] = containerStatuses;
  const pod = aPod({
    metadata: { creationTimestamp: at(made) },
    nodeName: 'n1',
    status: {
      ...status,
      conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: at(bound) }],
      containerStatuses: [{ ...container!, state: { running: { startedAt: at(ran) } } }],
    },
  });
  return pod;
}
const whole = podOf({ made: 2_000, bound: 3_000, ran: 4_000 });
/** It is on no node yet. */
const unbound: Pod = { ...whole, status: { phase: 'Pending' } };
/** It is on a node that pulls its image. */
const pulling: Pod = { ...whole, status: { ...whole.status, containerStatuses: [] } };
const standby: Pod = {
  ...whole,
  metadata: { ...whole.metadata, name: `${standbyNamePrefix}1`, labels: { [labels.pool]: 'ci' } },
};

function spansOf(given: Given): FinishedSpan[] {
  const { seen = {}, runner, endMs = 9_000, failed } = given;
  return startSpans({
    context: { ...context, ...given.context },
    vm: aVm(),
    pod: 'pod' in given ? given.pod : whole,
    seen: { refusals: [], ...absolute(seen) },
    runner: runner === undefined ? undefined : runnerState(runner),
    endMs: base + endMs,
    outcome: failed ?? 'Running',
    hasFailed: failed !== undefined,
  });
}

function absolute({ made, refusals, ...times }: Partial<SeenTimes>): Partial<SeenTimes> {
  const shifted = Object.entries(times).map(([name, ms]) => [name, base + ms]);
  return {
    ...(Object.fromEntries(shifted) as Partial<SeenTimes>),
    ...(made === undefined ? {} : { made: { startMs: base + made.startMs, endMs: base + made.endMs } }),
    ...(refusals === undefined ? {} : { refusals }),
  };
}

/** Names of the spans with their begins and ends. */
const timesOf = (given: Given) =>
  Object.fromEntries(
    spansOf(given).map(({ name, startMs, endMs }) => [name, [startMs - base, endMs - base]]),
  );

const refusal = { name: 'unschedulable', atMs: base + 500 };
const made = { startMs: 2_100, endMs: 2_300 };

describe('the times of a start', () => {
  test.each<[what: string, given: Given, expected: Record<string, number[]>]>([
    [
      'are those of the objects where this process has seen nothing',
      {},
      {
        'start VM': [0, 9_000],
        placement: [0, 2_000],
        'pod scheduled': [2_000, 3_000],
        'image pull': [3_000, 4_000],
      },
    ],
    [
      'are what it saw in the seconds that the objects say',
      { seen: { waitsMs: 200, made, boundMs: 3_999, runnerMs: 4_000 } },
      {
        'start VM': [200, 9_000],
        placement: [200, 2_100],
        'pod creation': [2_100, 2_300],
        'pod scheduled': [2_300, 3_999],
        'image pull': [3_999, 4_000],
      },
    ],
    [
      'are not what it saw before or after these seconds',
      { seen: { waitsMs: 1_000, boundMs: 2_999, runnerMs: 5_000 } },
      {
        'start VM': [0, 9_000],
        placement: [0, 2_000],
        'pod scheduled': [2_000, 3_000],
        'image pull': [3_000, 4_000],
      },
    ],
    [
      'end with the start where the pod is on no node',
      { pod: unbound },
      { 'start VM': [0, 9_000], placement: [0, 2_000], 'pod scheduled': [2_000, 9_000] },
    ],
    [
      'end with the start where the image is still pulled',
      { pod: pulling },
      {
        'start VM': [0, 9_000],
        placement: [0, 2_000],
        'pod scheduled': [2_000, 3_000],
        'image pull': [3_000, 9_000],
      },
    ],
    [
      'are in order, whatever the clocks say',
      { pod: podOf({ made: 6_000, bound: 1_000, ran: 20_000 }), endMs: 8_000 },
      {
        'start VM': [0, 8_000],
        placement: [0, 6_000],
        'pod scheduled': [6_000, 6_000],
        'image pull': [6_000, 8_000],
      },
    ],
    [
      'are never before the VM',
      { endMs: -1_000 },
      {
        'start VM': [0, 0],
        placement: [0, 0],
        'pod scheduled': [0, 0],
        'image pull': [0, 0],
      },
    ],
    [
      'of a later one begin when the VM waited for its pod',
      { context: { isLater: true }, seen: { waitsMs: 1_500 } },
      {
        'start VM': [1_500, 9_000],
        placement: [1_500, 2_000],
        'pod scheduled': [2_000, 3_000],
        'image pull': [3_000, 4_000],
      },
    ],
    [
      'of a later one begin with its pod where nobody saw that',
      { context: { isLater: true } },
      {
        'start VM': [2_000, 9_000],
        placement: [2_000, 2_000],
        'pod scheduled': [2_000, 3_000],
        'image pull': [3_000, 4_000],
      },
    ],
    [
      'of a later one without a pod are its end',
      { context: { isLater: true }, pod: undefined },
      { 'start VM': [9_000, 9_000] },
    ],
    ['without a pod and a refusal are those of the whole', { pod: undefined }, { 'start VM': [0, 9_000] }],
    [
      'without a pod are those in which no node took it',
      { pod: undefined, seen: { refusals: [refusal] } },
      { 'start VM': [0, 9_000], placement: [0, 9_000] },
    ],
    [
      'of a guest that waited are those of the claim',
      { pod: standby },
      { 'start VM': [0, 9_000], claim: [0, 9_000] },
    ],
    [
      'of a claim are as it was seen',
      { pod: standby, seen: { claimingMs: 300, claimedMs: 700 } },
      { 'start VM': [0, 9_000], claim: [300, 700] },
    ],
    [
      'of a claim are within the start',
      { pod: standby, seen: { claimingMs: -300, claimedMs: 9_700 } },
      { 'start VM': [0, 9_000], claim: [0, 9_000] },
    ],
  ])('%s', (_what, given, expected) => {
    expect(timesOf(given)).toEqual(expected);
  });
});

describe('what a runner says of its start', () => {
  const firstStart = { startedAtMs: base + 4_500, diskMs: 500, machineMs: 1_000, guestMs: 2_000 };
  const { guestMs: _guest, ...booted } = firstStart;
  const { machineMs: _machine, ...withoutMachine } = firstStart;

  test.each<[what: string, given: Given, expected: Record<string, number[]>]>([
    ['is nothing where it says nothing', { runner: {} }, {}],
    ['is nothing before its container has run', { pod: pulling, runner: { firstStart } }, {}],
    ['is nothing of a VM that was given a guest that waited', { pod: standby, runner: { firstStart } }, {}],
    [
      'is how long each phase took',
      { runner: { firstStart } },
      {
        'runner start': [4_500, 8_000],
        disk: [4_500, 5_000],
        boot: [5_000, 6_000],
        'guest reachable': [6_000, 8_000],
      },
    ],
    [
      'ends with the last phase that is over',
      { runner: { firstStart: booted } },
      { 'runner start': [4_500, 6_000], disk: [4_500, 5_000], boot: [5_000, 6_000] },
    ],
    [
      'ends before a phase that is missing',
      { runner: { firstStart: withoutMachine } },
      { 'runner start': [4_500, 5_000], disk: [4_500, 5_000] },
    ],
    [
      'is within the life of its container and of the start',
      { runner: { firstStart: { ...firstStart, startedAtMs: base, machineMs: 1e9 } } },
      {
        'runner start': [4_000, 9_000],
        disk: [4_000, 4_500],
        boot: [4_500, 9_000],
        'guest reachable': [9_000, 9_000],
      },
    ],
  ])('%s', (_what, given, expected) => {
    const { 'start VM': _start, placement, claim, ...times } = timesOf(given);
    const { 'pod scheduled': _scheduled, 'image pull': _pull, ...ofRunner } = times;
    expect(placement ?? claim).toBeDefined();
    expect(ofRunner).toEqual(expected);
  });

  test.each<[fromMemory: boolean | undefined, kind: string, reason: string | undefined]>([
    [undefined, 'cold', undefined],
    [false, 'cold', 'OtherHost'],
    [true, 'warm', 'OtherHost'],
  ])('is, from memory: %s, a start of kind %s with reason %s', (fromMemory, kind, reason) => {
    const warmStart = { fromMemory: fromMemory === true, reason: 'OtherHost', message: 'why' };
    const spans = spansOf({
      runner: { firstStart, ...(fromMemory === undefined ? {} : { warmStart }) },
    });
    const [start] = spans;
    const runner = spans.find(({ name }) => name === 'runner start');
    expect(start?.attributes['svc3.start.kind']).toBe(kind);
    expect(runner?.attributes).toMatchObject({ 'svc3.start.kind': kind });
    expect(runner?.attributes['svc3.start.reason']).toBe(reason);
  });
});

describe('the whole of a start', () => {
  test('that failed is another span than that which works out later, and names its reason', () => {
    const [worked] = spansOf({});
    const [failed] = spansOf({ failed: 'DiskFileMissing' });
    expect(worked).toMatchObject({ spanId: context.spanId, parentSpanId: context.parentSpanId });
    expect(worked).not.toHaveProperty('error');
    expect(failed).toMatchObject({
      spanId: spanIdOf(context.spanId, 'pod-uid', 'DiskFileMissing'),
      error: 'DiskFileMissing',
      attributes: { 'svc3.outcome': 'DiskFileMissing' },
    });
    for (const { parentSpanId } of spansOf({ failed: 'DiskFileMissing' }).slice(1))
      expect(parentSpanId).toBe(failed?.spanId);
  });

  test('of a later one names the first, where that is recorded', () => {
    const first = { traceId: 'f'.repeat(32), spanId: 'f'.repeat(16) };
    expect(spansOf({ context: { first } })[0]?.links).toEqual([first]);
    expect(spansOf({})[0]).not.toHaveProperty('links');
  });

  test('of a guest that waited is a claim', () => {
    expect(spansOf({ pod: standby })[0]?.attributes['svc3.start.kind']).toBe('claimed');
  });

  test('without a pod names none, and its placement says so with every refusal', () => {
    const [start, placement] = spansOf({ pod: undefined, seen: { refusals: [refusal] } });
    expect(Object.keys(start?.attributes ?? {}).filter((name) => name.startsWith('k8s.'))).toEqual([
      'k8s.namespace.name',
    ]);
    expect(placement).toMatchObject({ error: 'Unschedulable', events: [refusal] });
    const placed = spansOf({ seen: { refusals: [refusal] } })[1];
    expect(placed).toMatchObject({ name: 'placement', events: [refusal] });
    expect(placed).not.toHaveProperty('error');
  });
});
