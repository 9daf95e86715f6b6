import { Gauge, type Registry } from 'prom-client';
import type { KubeObject } from '../../api/object.ts';
import { group } from '../../api/meta.ts';
import { conditionTypes } from '../../api/reasons.ts';
import { nodes, ownResources, vmPools } from '../../api/resources.ts';
import type { Informers } from '../../controller/informers.ts';

interface WithConditions extends KubeObject {
  readonly spec?: { readonly powerState?: string; readonly pool?: string; readonly unschedulable?: boolean };
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

interface AgeLabels extends ConditionLabels {
  /** What somebody wants of the objects: power state of VMs, `Deleted`, `Cordoned`; empty where it is what each of the kind is for. */
  readonly requested: string;
  /** Whose guests the VMs may get; of a VMPool its own name. */
  readonly pool: string;
}

/** Where the objects of a kind are listed from; a Node's conditions are those of svc3's own types. */
export interface ConditionSource {
  readonly kind: string;
  list(): readonly WithConditions[];
  isCounted(type: string): boolean;
  /** The pool of the namespace that an object is of; undefined where there is none. */
  poolOf?(object: WithConditions): string | undefined;
}

/** All kinds of svc3 and the conditions that it gives Nodes, from the caches of a process. To be asked for before they run. */
export function conditionSources(informers: Informers): ConditionSource[] {
  const pools = informers.get(vmPools);
  // Others than those that exist are as many as somebody likes.
  const poolOf = ({ metadata, spec }: WithConditions) =>
    spec?.pool === undefined ? undefined : pools.get(spec.pool, metadata?.namespace)?.metadata.name;
  const own = ownResources.map((resource) => {
    const informer = informers.get(resource);
    return {
      kind: resource.kind,
      list: () => informer.list(),
      isCounted: () => true,
      poolOf: resource === vmPools ? ({ metadata }: WithConditions) => metadata?.name : poolOf,
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
 * first of them has had its status, counted when somebody asks. No object is named but pools, so the series grow with
 * namespaces, pools and reasons and not with objects.
 */
export function createConditionMetrics(
  registry: Registry,
  sources: readonly ConditionSource[],
  now: () => number = Date.now,
): void {
  const nodeTimes = new NodeTimes();
  const oldest = new Gauge({
    name: 'svc3_object_condition_oldest_seconds',
    help: 'For how long one of the objects has had this status of the condition, the longest of them.',
    labelNames: [...labelNames, 'requested', 'pool'] as const,
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
      const nowMs = now();
      nodeTimes.begin(nowMs);
      const { objects, since } = countConditions(sources, nodeTimes);
      for (const [labels, number] of objects.entries()) this.set({ ...labels }, number);
      for (const [labels, at] of since.entries()) oldest.set({ ...labels }, Math.max(0, nowMs - at) / 1000);
    },
  });
  registry.registerMetric(count);
  registry.registerMetric(oldest);
}

interface Counted {
  readonly objects: ByLabels<ConditionLabels>;
  /** When the first of them changed its status, in Unix milliseconds. */
  readonly since: ByLabels<AgeLabels>;
}

function countConditions(sources: readonly ConditionSource[], nodeTimes: NodeTimes): Counted {
  const objects = new ByLabels<ConditionLabels>();
  const since = new ByLabels<AgeLabels>();
  for (const { kind, list, isCounted, poolOf } of sources)
    for (const object of list()) {
      const namespace = object.metadata?.namespace ?? '';
      const { conditions = [] } = object.status ?? {};
      const placedAt = nodeTimes.of(object, conditions);
      const asked = { requested: requestedOf(object), pool: poolOf?.(object) ?? '' };
      for (const one of conditions) {
        const { type, status, reason = '' } = one;
        if (!isCounted(type)) continue;
        objects.put({ kind, namespace, type, status, reason }, (number = 0) => number + 1);
        const at = sinceOf(one, conditions, placedAt);
        if (at === undefined) continue;
        const labels = { kind, namespace, type, status, reason: causeOf(one, conditions), ...asked };
        since.put(labels, (first = Infinity) => Math.min(first, at));
      }
    }
  return { objects, since };
}

/** What somebody wants of an object: of a VM its power state; whoever deletes it or cordons a Node wants nothing else of it. */
function requestedOf({ metadata, spec }: WithConditions): string {
  if (metadata?.deletionTimestamp !== undefined) return 'Deleted';
  return spec?.unschedulable === true ? 'Cordoned' : (spec?.powerState ?? '');
}

/** Of a VM that is on the way to what it is to be. */
const onTheWay: ReadonlySet<string> = new Set(['Starting', 'Stopping', 'Suspending']);

/** While condition Scheduled or Prepared is False there is no guest: the VM waits, and that condition knows for what, as for an image that the node pulls. */
function causeOf({ type, reason = '' }: ConditionState, conditions: readonly ConditionState[]): string {
  if (type !== conditionTypes.ready || !onTheWay.has(reason)) return reason;
  const scheduled = conditions.find((one) => one.type === conditionTypes.scheduled);
  // Its pod may be there, and wait for a node (chart value placement.whenFull).
  if (scheduled?.status === 'False') return scheduled.reason ?? reason;
  const prepared = conditions.find((one) => one.type === conditionTypes.prepared);
  return prepared?.status === 'False' ? (prepared.reason ?? reason) : reason;
}

/**
 * Since when, in Unix milliseconds. Where svc3 tries again and again the status may change with every try: a commit is Unknown while it works
 * and False between, a VM is False when its runner has died and Unknown until the next one answers. Reconciling is True all the while.
 */
function triedSince(one: ConditionState, conditions: readonly ConditionState[]): number | undefined {
  const own = timeOf(one);
  const reconciling = conditions.find(({ type }) => type === conditionTypes.reconciling);
  if (one.status === 'True' || reconciling?.status !== 'True') return own;
  const begun = timeOf(reconciling);
  if (begun === undefined || own === undefined) return own;
  // The commit before may have been refused; what is not Ready may have waited for somebody before.
  if (one.type === conditionTypes.committed) return begun;
  return one.type === conditionTypes.ready ? Math.min(own, begun) : own;
}

/**
 * The same, of a VM that has a node not from before that: one that has waited for its node for an hour and boots is no hour old, and where VMs
 * queue for a node each would be as old as its wait.
 */
function sinceOf(
  one: ConditionState,
  conditions: readonly ConditionState[],
  placedAt: number | undefined,
): number | undefined {
  const tried = triedSince(one, conditions);
  if (one.type !== conditionTypes.ready || one.status !== 'False' || tried === undefined) return tried;
  return Math.max(tried, placedAt ?? tried);
}

/** Who asks less often than this may not have seen that a VM waited for a node, in milliseconds. */
const rememberedMs = 300_000;

/**
 * Since when VMs have not had to wait for a node, in Unix milliseconds. Condition Scheduled begins anew with each pod, also with one that follows on
 * a pod that its node rejected or somebody deleted; such a VM would be young for ever. It remembers what it was asked before, and nothing that
 * anybody else would have to know: after a restart the time of the condition counts again.
 */
class NodeTimes {
  #before: ReadonlyMap<string, number> = new Map();
  #now = new Map<string, number>();
  #beganAt = -Infinity;

  /** All VMs are asked for once more. */
  begin(now: number): void {
    this.#before = now - this.#beganAt > rememberedMs ? new Map() : this.#now;
    this.#now = new Map();
    this.#beganAt = now;
  }

  /** Undefined for what waits for a node, and where nobody knows. */
  of({ metadata }: WithConditions, conditions: readonly ConditionState[]): number | undefined {
    const { uid = '' } = metadata ?? {};
    const scheduled = conditions.find(({ type }) => type === conditionTypes.scheduled);
    // Of a pod that its node rejected the next one is made at once, or after the backoff.
    if (scheduled?.status === 'False' && scheduled.reason !== 'RejectedByNode') return undefined;
    const at = this.#before.get(uid) ?? (scheduled?.status === 'True' ? timeOf(scheduled) : undefined);
    if (at !== undefined && uid !== '') this.#now.set(uid, at);
    return at;
  }
}

function timeOf({ lastTransitionTime }: ConditionState): number | undefined {
  return lastTransitionTime === undefined ? undefined : Date.parse(lastTransitionTime);
}

/** A number for each set of labels. */
class ByLabels<Labels extends ConditionLabels> {
  readonly #found = new Map<string, { readonly labels: Labels; value: number }>();

  put(labels: Labels, next: (value: number | undefined) => number): void {
    const key = Object.values(labels).join(' ');
    const known = this.#found.get(key);
    if (known === undefined) this.#found.set(key, { labels, value: next(undefined) });
    else known.value = next(known.value);
  }

  *entries(): Iterable<[Labels, number]> {
    for (const { labels, value } of this.#found.values()) yield [labels, value];
  }
}
