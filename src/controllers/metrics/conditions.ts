import { Gauge, type Registry } from 'prom-client';
import type { KubeObject } from '../../api/object.ts';
import { group } from '../../api/meta.ts';
import { nodes, ownResources } from '../../api/resources.ts';
import type { Informers } from '../../controller/informers.ts';

interface WithConditions extends KubeObject {
  readonly status?: { readonly conditions?: readonly ConditionState[] };
}

interface ConditionState {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly lastTransitionTime?: string;
}

/** What the objects of one kind and namespace have in common. */
interface ConditionLabels {
  readonly kind: string;
  readonly namespace: string;
  readonly type: string;
  readonly status: string;
  readonly reason: string;
}

/** Where the objects of a kind are listed from; a Node's conditions are those of svc3's own types. */
export interface ConditionSource {
  readonly kind: string;
  list(): readonly WithConditions[];
  isCounted(type: string): boolean;
}

/** All kinds of svc3 and the conditions that it gives Nodes, from the caches of a process. To be asked for before they run. */
export function conditionSources(informers: Informers): ConditionSource[] {
  const own = ownResources.map((resource) => {
    const informer = informers.get(resource);
    return {
      kind: resource.kind,
      list: () => informer.list(),
      isCounted: () => true,
    };
  });
  const nodeInformer = informers.get(nodes);
  return [
    ...own,
    {
      kind: nodes.kind,
      list: () => nodeInformer.list(),
      isCounted: (type) => type.startsWith(`${group}/`),
    },
  ];
}

const labelNames = ['kind', 'namespace', 'type', 'status', 'reason'] as const;

/**
 * `svc3_object_conditions` and `svc3_object_condition_oldest_seconds`: objects that have a condition, and for how long the
 * first of them has had its status, counted when somebody asks. No object is named, so the series grow with namespaces
 * and reasons and not with objects.
 */
export function createConditionMetrics(
  registry: Registry,
  sources: readonly ConditionSource[],
  now: () => number = Date.now,
): void {
  const oldest = new Gauge({
    name: 'svc3_object_condition_oldest_seconds',
    help: 'For how long one of the objects has had this status of the condition, the longest of them.',
    labelNames,
    registers: [],
  });
  const count = new Gauge({
    name: 'svc3_object_conditions',
    help: 'Objects that have this condition.',
    labelNames,
    registers: [],
    // Both at once: there may be ten thousands of objects. It is the first that a registry asks.
    collect() {
      this.reset();
      oldest.reset();
      for (const { labels, objects, since } of countConditions(sources)) {
        this.set({ ...labels }, objects);
        if (since !== undefined) oldest.set({ ...labels }, Math.max(0, now() - since) / 1000);
      }
    },
  });
  registry.registerMetric(count);
  registry.registerMetric(oldest);
}

interface Counted {
  readonly labels: ConditionLabels;
  objects: number;
  /** When the first of them changed its status, in Unix milliseconds. */
  since: number | undefined;
}

function countConditions(sources: readonly ConditionSource[]): Iterable<Counted> {
  const counts = new Map<string, Counted>();
  for (const { kind, list, isCounted } of sources) {
    for (const { metadata, status: { conditions = [] } = {} } of list()) {
      for (const { type, status, reason = '', lastTransitionTime } of conditions) {
        if (!isCounted(type)) continue;
        const namespace = metadata?.namespace ?? '';
        const counted = countedAs(counts, { kind, namespace, type, status, reason });
        counted.objects += 1;
        const since = lastTransitionTime === undefined ? undefined : Date.parse(lastTransitionTime);
        if (since !== undefined && since < (counted.since ?? Infinity)) counted.since = since;
      }
    }
  }
  return counts.values();
}

function countedAs(counts: Map<string, Counted>, labels: ConditionLabels): Counted {
  const { kind, namespace, type, status, reason } = labels;
  const key = `${kind} ${namespace} ${type} ${status} ${reason}`;
  const known = counts.get(key);
  if (known !== undefined) return known;
  const counted = { labels, objects: 0, since: undefined };
  counts.set(key, counted);
  return counted;
}
