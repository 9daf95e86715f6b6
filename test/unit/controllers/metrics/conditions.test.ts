import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import {
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
    'svc3_object_condition_oldest_seconds{kind="VM",namespace="a",type="Ready",status="True",reason="Running"} 50',
  ]);
});
