import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import {
  conditionSources,
  type ConditionSource,
  createConditionMetrics,
} from '../../../../src/controllers/metrics/conditions.ts';

const ready = { type: 'Ready', status: 'True', reason: 'Running' };
const stalled = { type: 'Stalled', status: 'True', reason: 'GuestStopped' };

function source(kind: string, list: ConditionSource['list'], isCounted = (_type: string) => true) {
  return { kind, list, isCounted };
}

const aVm = (namespace: string, ...conditions: (typeof ready)[]) => ({
  metadata: { name: 'web', namespace },
  status: { conditions },
});

test('objects are counted by kind, namespace, type, status and reason', async () => {
  const registry = new Registry();
  createConditionMetrics(registry, [
    source('VM', () => [
      aVm('a', ready),
      aVm('a', ready, stalled),
      aVm('b', ready),
      { metadata: { name: 'new' } },
    ]),
    source(
      'Node',
      () => [
        {
          metadata: { name: 'n1' },
          status: {
            conditions: [ready, { type: 'svc3.dev/GPUUnavailable', status: 'True', reason: 'Busy' }],
          },
        },
      ],
      (type) => type.startsWith('svc3.dev/'),
    ),
  ]);
  const text = await registry.metrics();
  expect(text.match(/^svc3_object_conditions.*$/gm)).toEqual([
    'svc3_object_conditions{kind="VM",namespace="a",type="Ready",status="True",reason="Running"} 2',
    'svc3_object_conditions{kind="VM",namespace="a",type="Stalled",status="True",reason="GuestStopped"} 1',
    'svc3_object_conditions{kind="VM",namespace="b",type="Ready",status="True",reason="Running"} 1',
    'svc3_object_conditions{kind="Node",namespace="",type="svc3.dev/GPUUnavailable",status="True",reason="Busy"} 1',
  ]);
});

test('what no object has any more has no series', async () => {
  const registry = new Registry();
  const list = [aVm('a', stalled)];
  createConditionMetrics(registry, [source('VM', () => list)]);
  expect(await registry.metrics()).toContain('GuestStopped');
  list.pop();
  expect(await registry.metrics()).not.toContain('GuestStopped');
});

test('the longest time that one of them has had it', async () => {
  const registry = new Registry();
  const since = (lastTransitionTime: string) => ({ ...ready, lastTransitionTime });
  const list = () => [
    aVm('a', since('2026-01-01T00:00:30Z')),
    aVm('a', since('2026-01-01T00:00:10Z')),
    aVm('a', since('2026-01-01T00:00:50Z')),
    aVm('b', ready),
  ];
  createConditionMetrics(registry, [source('VM', list)], () => Date.UTC(2026, 0, 1, 0, 1, 0));
  const text = await registry.metrics();
  expect(text.match(/^svc3_object_condition_oldest_seconds.*$/gm)).toEqual([
    'svc3_object_condition_oldest_seconds{kind="VM",namespace="a",type="Ready",status="True",reason="Running",requested="",pool=""} 50',
  ]);
});

const aDay = '2025-12-31T00:01:00Z';
const tenMinutes = '2025-12-31T23:51:00Z';

/** Ages of the objects of one kind, by the labels that this test is about. */
async function agesOf(
  kind: string,
  objects: ReturnType<ConditionSource['list']>,
  pool?: string,
): Promise<string[]> {
  const registry = new Registry();
  const poolOf = () => (kind === 'VM' ? pool : undefined);
  createConditionMetrics(registry, [{ ...source(kind, () => objects), poolOf }], () =>
    Date.UTC(2026, 0, 1, 0, 1, 0),
  );
  const text = await registry.metrics();
  return [
    ...text.matchAll(/^svc3_object_condition_oldest_seconds\{.*type="Ready",status="\w+",(.*)\} (\d+)$/gm),
  ].map(([, labels = '', seconds = '']) => `${labels} ${seconds}`);
}

test('an age says what is requested of the object: the power state of a VM, that it is deleted, that a node is cordoned', async () => {
  const waits = { type: 'Ready', status: 'False', reason: 'Unschedulable', lastTransitionTime: aDay };
  const status = { conditions: [waits] };
  const of = (powerState: string) => ({ metadata: { namespace: 'a' }, spec: { powerState }, status });
  const deleted = {
    ...of('Running'),
    metadata: { namespace: 'a', deletionTimestamp: '2026-01-01T00:00:00Z' },
  };
  const labels = (requested: string) => `reason="Unschedulable",requested="${requested}",pool="" 86400`;
  expect(await agesOf('VM', [of('Running'), of('Stopped'), deleted])).toEqual(
    ['Running', 'Stopped', 'Deleted'].map(labels),
  );
  const node = (unschedulable: boolean) => ({ metadata: {}, spec: { unschedulable }, status });
  expect(await agesOf('Node', [node(true), node(false)])).toEqual(['Cordoned', ''].map(labels));
});

test('an age says which pool a VM is of', async () => {
  const waits = { type: 'Ready', status: 'False', reason: 'Unschedulable', lastTransitionTime: aDay };
  const vm = {
    metadata: { namespace: 'a' },
    spec: { powerState: 'Running' },
    status: { conditions: [waits] },
  };
  expect(await agesOf('VM', [vm], 'ci')).toEqual([
    'reason="Unschedulable",requested="Running",pool="ci" 86400',
  ]);
});

test('the age of a VM that is on the way says what its pod waits for', async () => {
  const starting = { type: 'Ready', status: 'False', reason: 'Starting', lastTransitionTime: aDay };
  const prepared = (status: string, reason: string) => ({
    type: 'Prepared',
    status,
    reason,
    lastTransitionTime: tenMinutes,
  });
  const vm = (...conditions: object[]) => ({
    metadata: { namespace: 'a' },
    spec: { powerState: 'Running' },
    status: { conditions: conditions as (typeof ready)[] },
  });
  const labels = (reason: string) => `reason="${reason}",requested="Running",pool="" 86400`;
  expect(
    await agesOf('VM', [
      vm(starting, prepared('False', 'PullingImage')),
      vm(starting, prepared('False', 'ImagePullFailed')),
      vm(starting, prepared('True', 'Prepared')),
      vm({ ...starting, reason: 'Stopping' }, prepared('False', 'VolumePending')),
      vm({ ...starting, reason: 'Suspending' }, prepared('True', 'Prepared')),
      vm({ ...starting, reason: 'GuestStopped' }, prepared('False', 'PullingImage')),
    ]),
  ).toEqual(
    ['PullingImage', 'ImagePullFailed', 'Starting', 'VolumePending', 'Suspending', 'GuestStopped'].map(
      labels,
    ),
  );
});

test('the age of a VM that has got its node counts from then, and that of one whose pod waits for a node says so', async () => {
  const condition = (type: string, status: string, reason: string, lastTransitionTime: string) => ({
    type,
    status,
    reason,
    lastTransitionTime,
  });
  const vm = (...conditions: ReturnType<typeof condition>[]) => ({
    metadata: { namespace: 'a' },
    spec: { powerState: 'Running' },
    status: {
      conditions: [
        condition('Ready', 'False', 'Starting', aDay),
        condition('Reconciling', 'True', 'Progressing', aDay),
        condition('Prepared', 'False', 'PullingImage', tenMinutes),
        ...conditions,
      ],
    },
  });
  const labels = (reason: string, seconds: number) =>
    `reason="${reason}",requested="Running",pool="" ${seconds}`;
  expect(
    await agesOf('VM', [
      vm(condition('Scheduled', 'True', 'Scheduled', tenMinutes)),
      vm(condition('Scheduled', 'False', 'Unschedulable', tenMinutes)),
    ]),
  ).toEqual([labels('PullingImage', 600), labels('Unschedulable', 86_400)]);
});

/** Condition Scheduled at one scrape: its status and reason, and the minute since when; none where the VM has no such condition. */
type Seen = [minute: number, scheduled?: [status: string, reason: string, since: number]];

test.each<[sentence: string, scrapes: Seen[], seconds: number]>([
  [
    'whose pod its node rejects counts on',
    [
      [1, ['True', 'Scheduled', 0]],
      [2, ['False', 'RejectedByNode', 2]],
      [3, ['True', 'Scheduled', 3]],
    ],
    180,
  ],
  [
    'whose pod somebody deletes counts on',
    [[1, ['True', 'Scheduled', 0]], [2], [3, ['True', 'Scheduled', 3]]],
    180,
  ],
  [
    'that gets another pod between two scrapes counts on',
    [
      [1, ['True', 'Scheduled', 0]],
      [3, ['True', 'Scheduled', 2]],
    ],
    180,
  ],
  [
    'that waits for a node in between begins anew when it has one',
    [
      [1, ['True', 'Scheduled', 0]],
      [2, ['False', 'Unschedulable', 2]],
      [3, ['True', 'Scheduled', 3]],
      [4, ['True', 'Scheduled', 3]],
    ],
    60,
  ],
  [
    'that may have waited, since nobody has asked for long, begins anew',
    [
      [1, ['True', 'Scheduled', 0]],
      [20, ['True', 'Scheduled', 19]],
    ],
    60,
  ],
])('the age of a VM %s', async (_sentence, scrapes, seconds) => {
  const timeOf = (minute: number) => Date.UTC(2026, 0, 1, 0, minute);
  const since = (type: string, status: string, reason: string, minute: number) => ({
    type,
    status,
    reason,
    lastTransitionTime: new Date(timeOf(minute)).toISOString(),
  });
  let seen: Seen = [0];
  const vm = ([, scheduled]: Seen) => ({
    metadata: { uid: 'vm-uid' },
    status: {
      conditions: [
        since('Ready', 'False', 'Starting', 0),
        since('Reconciling', 'True', 'Progressing', 0),
        ...(scheduled === undefined ? [] : [since('Scheduled', ...scheduled)]),
      ],
    },
  });
  const registry = new Registry();
  createConditionMetrics(registry, [source('VM', () => [vm(seen)])], () => timeOf(seen[0]));
  let text = '';
  for (const scrape of scrapes) {
    seen = scrape;
    text = await registry.metrics();
  }
  expect(/_oldest_seconds\{.*type="Ready".* (\d+)$/m.exec(text)?.[1]).toBe(String(seconds));
});

test('what is tried again and again is as old as what svc3 does about it', async () => {
  const registry = new Registry();
  const condition = (type: string, status: string, reason: string, lastTransitionTime: string) => ({
    type,
    status,
    reason,
    lastTransitionTime,
  });
  const progressing = condition('Reconciling', 'True', 'Progressing', aDay);
  const object = (namespace: string, ...conditions: ReturnType<typeof condition>[]) => ({
    metadata: { namespace },
    status: { conditions },
  });
  createConditionMetrics(
    registry,
    [
      source('Image', () => [
        object('failed', condition('Committed', 'False', 'WorkerFailed', tenMinutes), progressing),
        object('working', progressing, condition('Committed', 'Unknown', 'Working', tenMinutes)),
        object('refused', condition('Committed', 'False', 'CommitRefused', tenMinutes)),
        object('done', condition('Committed', 'True', 'Stored', tenMinutes), progressing),
      ]),
      source('VM', () => [
        object('dies', condition('Ready', 'Unknown', 'RunnerUnreachable', tenMinutes), progressing),
        object('mended', condition('Ready', 'False', 'Starting', aDay), {
          ...progressing,
          lastTransitionTime: tenMinutes,
        }),
        object('waits', condition('Ready', 'False', 'GuestStopped', tenMinutes)),
        object('runs', condition('Ready', 'True', 'Running', tenMinutes), progressing),
      ]),
    ],
    () => Date.UTC(2026, 0, 1, 0, 1, 0),
  );
  const text = await registry.metrics();
  const ages = text.matchAll(
    /^svc3_object_condition_oldest_seconds\{.*namespace="(\w+)",type="(Ready|Committed)".* (\d+)$/gm,
  );
  expect(Object.fromEntries([...ages].map(([, namespace, , seconds]) => [namespace, seconds]))).toEqual({
    failed: '86400',
    working: '86400',
    refused: '600',
    done: '600',
    dies: '86400',
    mended: '86400',
    waits: '600',
    runs: '600',
  });
});

test('a VMPool is of itself', () => {
  const informers = { get: () => ({ list: () => [], get: () => undefined }) } as unknown as Parameters<
    typeof conditionSources
  >[0];
  const { poolOf } = conditionSources(informers).find(({ kind }) => kind === 'VMPool') ?? {};
  expect(poolOf?.({ metadata: { namespace: 'a', name: 'ci' } })).toBe('ci');
});

test('a pool is named only where there is one: anybody may name any other', async () => {
  const pool = { metadata: { name: 'ci', namespace: 'a' } };
  const informers = {
    get: () => ({
      list: () => [],
      get: (name: string, namespace: string) => (name === 'ci' && namespace === 'a' ? pool : undefined),
    }),
  } as unknown as Parameters<typeof conditionSources>[0];
  const { poolOf } = conditionSources(informers).find(({ kind }) => kind === 'VM') ?? {};
  const of = (namespace: string, name: string) => poolOf?.({ metadata: { namespace }, spec: { pool: name } });
  expect([of('a', 'ci'), of('a', 'any'), of('b', 'ci')]).toEqual(['ci', undefined, undefined]);
});
