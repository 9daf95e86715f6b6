import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createPlacementMetrics } from '../../../../src/controllers/metrics/placements.ts';
import type { Placed } from '../../../../src/placement/place.ts';
import { reasons } from '../../../../src/placement/reasons.ts';

test('decisions are counted by result, refusals by reason, without what VMs name', async () => {
  const registry = new Registry();
  const decided = createPlacementMetrics(registry);
  const refused = (...texts: string[]) =>
    ({ kind: 'refused', message: '', counts: new Map(texts.map((text) => [text, 1])) }) as const;
  decided({ kind: 'placed' } as Placed, 0.00002);
  decided(refused(reasons.tag('red'), reasons.tag('blue'), 'Insufficient cpu'), 0.00002);
  decided(refused(reasons.tag('green')), 0.002);
  decided(refused(), 0.002);
  const text = await registry.metrics();
  expect(text).toContain('svc3_placements_total{result="placed"} 1');
  expect(text).toContain('svc3_placements_total{result="refused"} 3');
  expect(text.match(/^svc3_placement_refusals_total.*$/gm)).toEqual([
    `svc3_placement_refusals_total{reason="node(s) didn't have tag"} 2`,
    'svc3_placement_refusals_total{reason="Insufficient cpu"} 1',
    'svc3_placement_refusals_total{reason="no nodes available"} 1',
  ]);
  expect(text).toContain('svc3_placement_duration_seconds_bucket{le="0.0001",result="refused"} 1');
  expect(text).toContain('svc3_placement_duration_seconds_count{result="refused"} 3');
});

test('decisions are counted from the beginning', async () => {
  const registry = new Registry();
  createPlacementMetrics(registry);
  const text = await registry.metrics();
  expect(text.match(/^svc3_placements_total.*$/gm)).toEqual([
    'svc3_placements_total{result="placed"} 0',
    'svc3_placements_total{result="refused"} 0',
  ]);
});
