import type { Pod } from '../../../api/core.ts';
import type { RunnerState } from '../../../api/runner.ts';
import type { Vm } from '../../../api/vm.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import { spanIdOf } from '../../../tracing/ids.ts';
import type { FinishedSpan, SpanAttributes, SpanEvent } from '../../../tracing/span.ts';
import { isStandby } from '../facts/standby.ts';
import { runnerStatus } from '../facts/podstate.ts';
import type { StartContext } from './startcontext.ts';

/** A time that has begun, and where it is over its end, in milliseconds since 1970. */
export interface Interval {
  readonly startMs: number;
  readonly endMs: number;
}

/** What this process has seen of a start, in milliseconds since 1970; another leader may have seen the rest. */
export interface SeenTimes {
  /** The VM waited for its pod. */
  waitsMs?: number;
  /** kube-apiserver was asked to make the pod. */
  made?: Interval;
  /** The pod was on a node. */
  boundMs?: number;
  /** The runner's container ran. */
  runnerMs?: number;
  /** No node was free, each with the reason. */
  readonly refusals: SpanEvent[];
  /** A guest of a pool was chosen. */
  claimingMs?: number;
  /** The guest's runner knew whose it is. */
  claimedMs?: number;
}

export interface StartFacts {
  readonly context: StartContext;
  readonly vm: Vm;
  readonly pod: Pod | undefined;
  readonly seen: SeenTimes;
  /** What its runner says of its first start; of a guest that waited for its VM that is another matter. */
  readonly runner: Pick<RunnerState, 'firstStart' | 'warmStart' | 'accelerator'> | undefined;
  /** When it was over. */
  readonly endMs: number;
  /** Reason of the condition that says how it ended. */
  readonly outcome: string;
  readonly hasFailed: boolean;
}

/**
 * The spans of one start that is over. Pure: the same start has the same spans in every process. Where this process has not seen something
 * itself, the times are those of the objects, which are whole seconds.
 */
export function startSpans(facts: StartFacts): FinishedSpan[] {
  const { context, pod, hasFailed, outcome } = facts;
  const times = timesOf(facts);
  const root = rootId(facts);
  const attributes = attributesOf(facts);
  const child = (name: string, span: Interval, more: Partial<FinishedSpan> = {}): FinishedSpan => ({
    service: 'svc3-operator',
    name,
    kind: 'internal',
    traceId: context.traceId,
    spanId: spanIdOf(root, pod?.metadata.uid ?? '', name),
    parentSpanId: root,
    attributes,
    ...span,
    ...more,
  });
  const start: FinishedSpan = {
    ...child('start VM', { startMs: times.beginMs, endMs: times.endMs }),
    spanId: root,
    parentSpanId: context.parentSpanId,
    attributes: { ...attributes, 'svc3.start.kind': kindOf(facts), 'svc3.outcome': outcome },
    ...(hasFailed ? { error: outcome } : {}),
    ...(context.first === undefined ? {} : { links: [context.first] }),
  };
  if (isClaim(facts)) return [start, ...claimSpans(facts, times, child)];
  return [start, ...podSpans(facts, times, child), ...runnerSpans(facts, times, child)];
}

type Child = (name: string, span: Interval, more?: Partial<FinishedSpan>) => FinishedSpan;

interface Times {
  readonly beginMs: number;
  readonly madeMs: number | undefined;
  readonly boundMs: number | undefined;
  readonly runnerMs: number | undefined;
  readonly endMs: number;
}

function timesOf({ context, vm, pod, seen, endMs }: StartFacts): Times {
  const created = refined(secondOf(pod?.metadata.creationTimestamp), seen.made?.endMs);
  const beginMs = context.isLater
    ? (seen.waitsMs ?? created ?? endMs)
    : (refined(secondOf(vm.metadata.creationTimestamp), seen.waitsMs) ?? endMs);
  // Clocks of several machines: nothing begins before what it follows from, or ends after the whole.
  const inOrder = (ms: number | undefined, after: number) =>
    ms === undefined ? undefined : Math.min(Math.max(ms, after), Math.max(endMs, beginMs));
  const madeMs = inOrder(created, beginMs);
  const scheduled = pod?.status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'True',
  );
  const boundMs = inOrder(refined(secondOf(scheduled?.lastTransitionTime), seen.boundMs), madeMs ?? beginMs);
  const running = pod === undefined ? undefined : runnerStatus(pod)?.state?.running;
  const runnerMs = inOrder(refined(secondOf(running?.startedAt), seen.runnerMs), boundMs ?? beginMs);
  return { beginMs, madeMs, boundMs, runnerMs, endMs: Math.max(endMs, beginMs) };
}

function secondOf(text: string | null | undefined): number | undefined {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

/** Objects have whole seconds: what this process saw in that second is more exact. */
function refined(secondMs: number | undefined, seenMs: number | undefined): number | undefined {
  if (secondMs === undefined || seenMs === undefined) return secondMs ?? seenMs;
  return seenMs >= secondMs && seenMs < secondMs + 1_000 ? seenMs : secondMs;
}

/** A start that failed is another one than that which works out later in the same trace. */
function rootId({ context, pod, hasFailed, outcome }: StartFacts): string {
  return hasFailed ? spanIdOf(context.spanId, pod?.metadata.uid ?? '', outcome) : context.spanId;
}

function isClaim({ pod }: StartFacts): boolean {
  return pod !== undefined && isStandby(pod);
}

function kindOf(facts: StartFacts): 'cold' | 'warm' | 'claimed' {
  if (isClaim(facts)) return 'claimed';
  return facts.runner?.warmStart?.fromMemory === true ? 'warm' : 'cold';
}

function attributesOf({ vm, pod }: StartFacts): SpanAttributes {
  const { namespace, name, uid } = vm.metadata;
  const node = pod === undefined ? undefined : nodeOf(pod);
  return {
    'k8s.namespace.name': namespace,
    'svc3.vm.name': name,
    'svc3.vm.uid': uid,
    ...(pod === undefined ? {} : { 'k8s.pod.name': pod.metadata.name, 'k8s.pod.uid': pod.metadata.uid }),
    ...(node === undefined ? {} : { 'k8s.node.name': node }),
  };
}

function claimSpans({ seen }: StartFacts, { beginMs, endMs }: Times, child: Child): FinishedSpan[] {
  const { claimingMs = beginMs, claimedMs = endMs } = seen;
  return [child('claim', { startMs: Math.max(beginMs, claimingMs), endMs: Math.min(claimedMs, endMs) })];
}

function podSpans({ seen, pod }: StartFacts, times: Times, child: Child): FinishedSpan[] {
  const { beginMs, madeMs, boundMs, runnerMs, endMs } = times;
  const decidedMs = Math.min(seen.made?.startMs ?? madeMs ?? endMs, madeMs ?? endMs);
  const placed = { startMs: beginMs, endMs: Math.max(beginMs, decidedMs) };
  const placement = child('placement', placed, {
    events: seen.refusals,
    ...(pod === undefined ? { error: 'Unschedulable' } : {}),
  });
  // Nothing had to be refused for a VM that fails before it is placed.
  if (pod === undefined || madeMs === undefined) return seen.refusals.length === 0 ? [] : [placement];
  return [
    placement,
    ...(seen.made === undefined
      ? []
      : [child('pod creation', { startMs: placed.endMs, endMs: madeMs }, { kind: 'client' })]),
    child('pod scheduled', { startMs: madeMs, endMs: boundMs ?? endMs }),
    ...(boundMs === undefined ? [] : [child('image pull', { startMs: boundMs, endMs: runnerMs ?? endMs })]),
  ];
}

/** What the runner says of itself is of its own VM only, and within the life of its pod. */
function runnerSpans({ runner }: StartFacts, { runnerMs, endMs }: Times, child: Child): FinishedSpan[] {
  const { firstStart, warmStart } = runner ?? {};
  if (firstStart === undefined || runnerMs === undefined) return [];
  const within = (ms: number) => Math.min(Math.max(ms, runnerMs), endMs);
  const startMs = within(firstStart.startedAtMs);
  const start = child('runner start', { startMs, endMs }, { service: 'svc3-runner' });
  const reason = warmStart === undefined ? {} : { 'svc3.start.reason': warmStart.reason };
  const spans: FinishedSpan[] = [];
  let atMs = startMs;
  const phases = [
    ['disk', firstStart.diskMs],
    ['boot', firstStart.machineMs],
    ['guest reachable', firstStart.guestMs],
  ] as const;
  for (const [name, tookMs] of phases) {
    if (tookMs === undefined) break;
    const phase = { startMs: atMs, endMs: within(atMs + tookMs) };
    const spanId = spanIdOf(start.spanId, name);
    spans.push(child(name, phase, { service: 'svc3-runner', spanId, parentSpanId: start.spanId }));
    atMs = phase.endMs;
  }
  const kind = warmStart?.fromMemory === true ? 'warm' : 'cold';
  return [
    { ...start, endMs: atMs, attributes: { ...start.attributes, 'svc3.start.kind': kind, ...reason } },
    ...spans,
  ];
}
