import { Counter, type Registry } from 'prom-client';
import { Durations } from '../../durations.ts';
import { reasonKind } from '../../placement/reasons.ts';
import type { PlacementDecided } from '../vm/nodechoice.ts';

/** Half a microsecond for a small cluster, milliseconds where labels of many nodes have a say. */
const buckets = [0.00001, 0.0001, 0.001, 0.01, 0.1, 1];

/** Of a cluster in which there is none that could be looked at. */
const noNodes = 'no nodes available';

/** `svc3_placements_total`, `svc3_placement_refusals_total` and `svc3_placement_duration_seconds`. */
export function createPlacementMetrics(registry: Registry): PlacementDecided {
  const decisions = new Counter({
    name: 'svc3_placements_total',
    help: 'Decisions about a node for a VM, by result: placed, refused.',
    labelNames: ['result'] as const,
    registers: [registry],
  });
  // Queries see only what a series grows by: one that began with the first decision would not have it.
  for (const result of ['placed', 'refused'] as const) decisions.inc({ result }, 0);
  const refusals = new Counter({
    name: 'svc3_placement_refusals_total',
    help: 'Refused placements, by reason; one that has several counts for each.',
    labelNames: ['reason'] as const,
    registers: [registry],
  });
  const durations = new Durations({
    name: 'svc3_placement_duration_seconds',
    help: 'Time to decide about a node for a VM.',
    label: 'result',
    buckets,
    registry,
  });
  return (result, seconds) => {
    decisions.inc({ result: result.kind });
    durations.add(result.kind, seconds);
    if (result.kind === 'placed') return;
    const reasons = result.counts.size === 0 ? [noNodes] : [...result.counts.keys()].map(reasonKind);
    for (const reason of new Set(reasons)) refusals.inc({ reason });
  };
}
