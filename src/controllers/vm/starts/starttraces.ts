import type { Pod } from '../../../api/core.ts';
import type { RunnerState } from '../../../api/runner.ts';
import type { Vm } from '../../../api/vm.ts';
import { findCondition } from '../../../controller/conditions.ts';
import { newTraceId } from '../../../tracing/ids.ts';
import type { Tracer } from '../../../tracing/span.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import type { Pass } from '../pass.ts';
import type { VmMemory } from '../vmmemory.ts';
import { isOfPool, isStandby } from '../facts/standby.ts';
import { isRunnerUp } from '../facts/podstate.ts';
import { firstStart, hasRun, podTraceparent, type StartContext, startInPod } from './startcontext.ts';
import { type SeenTimes, startSpans } from './startspans.ts';

/** Reasons of a VM that waits for a node change with the cluster; the first of them say enough. */
const mostRefusals = 8;

/** A runner that has not said by then how its start went is not waited for, in milliseconds. */
export const answerMs = 10_000;

/** A start that is not over. */
interface Start {
  vm: Vm;
  pod: Pod | undefined;
  readonly seen: SeenTimes;
  runner: RunnerState | undefined;
  /** Whether this process knows it to be the first in its pod: the VM had never run, or the pod was made here. */
  isOwn: boolean;
  /** Since when the VM has not been ready, in milliseconds since 1970, as its status said first. */
  readonly unreadySinceMs: number;
  /** The VM was reported to be ready, and its runner has not said yet how that went. */
  ready: { readonly outcome: string; readonly atMs: number; readonly timer: NodeJS.Timeout } | undefined;
}

/**
 * Tells the starts of VMs to a tracer, each as a whole when it is over (docs/tracing.md). What it remembers may be lost at any time: the
 * next leader tells the start then, with the times that the objects have.
 */
export class StartTraces implements VmMemory {
  readonly #tracer: Tracer;
  readonly #now: () => number;
  readonly #starts = new Map<string, Start>();
  /** UID of the pod whose start has been told, by the UID of its VM. */
  readonly #told = new Map<string, string>();
  /** Failures that have been told, by this leader or one before, by the UID of the VM. */
  readonly #failures = new Map<string, Set<string>>();
  /** VMs that were removed, and that the cache still has. */
  readonly #removed = new Set<string>();
  readonly #isSampled: (traceId: string) => boolean;

  /** @param now - milliseconds since 1970 */
  constructor(tracer: Tracer, now: () => number = () => Date.now()) {
    this.#tracer = tracer;
    this.#now = now;
    this.#isSampled = (traceId) => tracer.isSampled(traceId);
  }

  /** For the pod that is made for the VM, or becomes the VM's; undefined where its start is not recorded. */
  traceparent(vm: Vm): string | undefined {
    return podTraceparent(vm, this.#isSampled, newTraceId);
  }

  /** After the pass has written what it found out. */
  observe({ observed, written, status: draft, runner }: Pass): void {
    const { vm: before, pod: seenPod } = observed;
    const { uid, deletionTimestamp } = before.metadata;
    if (deletionTimestamp !== undefined || this.#removed.has(uid)) return;
    const pod = seenPod === undefined || isOfPool(seenPod) ? undefined : seenPod;
    if (pod !== undefined && this.#told.get(uid) === pod.metadata.uid) return;
    if (!this.#starts.has(uid) && isToldBefore(before, pod)) return this.#over(uid, pod);
    const start = this.#start(before, pod);
    start.vm = written ?? before;
    this.#see(start, pod, runner?.state);
    if (draft === undefined) return;
    const { ready, stalled } = draft.conditions;
    if (ready?.status === 'True') this.#becameReady(uid, start, ready.reason, draft.fields.powerState);
    else if (stalled?.status === 'True') this.#failed(uid, start, stalled.reason);
  }

  /** The pod of the VM was made; `askedMs`: since when, in milliseconds since 1970. */
  made(vm: Vm, pod: Pod, askedMs: number): void {
    const start = this.#start(vm);
    this.#take(start, pod);
    start.isOwn = true;
    start.seen.made = { startMs: askedMs, endMs: this.#now() };
  }

  /** No node takes the VM. */
  refused(vm: Vm, message: string): void {
    const { refusals } = this.#start(vm).seen;
    if (refusals.length >= mostRefusals) return;
    const isKnown = refusals.at(-1)?.attributes?.['svc3.reason'] === message;
    if (!isKnown)
      refusals.push({ name: 'unschedulable', atMs: this.#now(), attributes: { 'svc3.reason': message } });
  }

  /** A guest of a pool was chosen for the VM. */
  claiming(vm: Vm): void {
    this.#start(vm).seen.claimingMs ??= this.#now();
  }

  /** The guest's runner knows whose it is. */
  claimed(vmUid: string): void {
    const start = this.#starts.get(vmUid);
    if (start !== undefined) start.seen.claimedMs = this.#now();
  }

  /** The VM did not start in time and was removed. */
  expired(vm: Vm): void {
    const { uid } = vm.metadata;
    this.#start(vm);
    this.#removed.add(uid);
    this.#gone(uid, 'StartDeadlineExceeded');
  }

  forget(vmUid: string): void {
    this.#gone(vmUid, 'Deleted');
    this.#told.delete(vmUid);
    this.#removed.delete(vmUid);
    this.#failures.delete(vmUid);
  }

  /** Tells what is over and waits for its runner only. */
  flush(): void {
    for (const [uid, start] of this.#starts) if (start.ready !== undefined) this.#tellReady(uid, start);
  }

  /** @param pod - that the VM has when it is first looked at */
  #start(vm: Vm, pod?: Pod): Start {
    const { uid } = vm.metadata;
    let start = this.#starts.get(uid);
    if (start === undefined) {
      const stalled = findCondition(vm.status?.conditions, 'Stalled');
      // Whoever wrote it has told it.
      if (stalled?.status === 'True') this.#noteFailure(uid, pod, stalled.reason);
      const since = findCondition(vm.status?.conditions, 'Ready')?.lastTransitionTime;
      start = {
        vm,
        pod: undefined,
        seen: { refusals: [] },
        runner: undefined,
        isOwn: !hasRun(vm),
        unreadySinceMs: Date.parse(since ?? '') || 0,
        ready: undefined,
      };
      // Of one that was removed, all is told: what a pass still finds out about it leads nowhere.
      if (!this.#removed.has(uid)) this.#starts.set(uid, start);
    }
    return start;
  }

  /** What was seen of the pod before is not of this one. */
  #take(start: Start, pod: Pod): void {
    start.pod = pod;
    start.runner = undefined;
    delete start.seen.made;
    delete start.seen.boundMs;
    delete start.seen.runnerMs;
  }

  #see(start: Start, pod: Pod | undefined, state: RunnerState | undefined): void {
    const { seen } = start;
    const now = this.#now();
    if (pod === undefined) {
      if (start.pod === undefined) seen.waitsMs ??= now;
      return;
    }
    if (start.pod?.metadata.uid !== pod.metadata.uid) this.#take(start, pod);
    start.pod = pod;
    start.runner = state ?? start.runner;
    if (nodeOf(pod) !== undefined && isScheduled(pod)) seen.boundMs ??= now;
    if (isRunnerUp(pod)) seen.runnerMs ??= now;
  }

  #becameReady(uid: string, start: Start, outcome: string, powerState: string | undefined): void {
    // It is as requested, and nobody wants its guest to run.
    if (powerState !== 'Running' || start.pod === undefined) return this.#over(uid, start.pod);
    if (start.ready === undefined) {
      const timer = setTimeout(() => this.#tellReady(uid, start), answerMs);
      timer.unref();
      start.ready = { outcome, atMs: this.#now(), timer };
    }
    const isSaid = start.runner?.firstStart?.guestMs !== undefined;
    if (isSaid || isStandby(start.pod)) this.#tellReady(uid, start);
  }

  #tellReady(uid: string, start: Start): void {
    const { ready, pod, runner } = start;
    if (this.#starts.get(uid) !== start || ready === undefined || pod === undefined) return;
    if (isStandby(pod) ? start.isOwn : isOfThisPod(start)) {
      const context = startInPod(start.vm, pod, this.#isSampled);
      const { atMs, outcome } = ready;
      this.#tell(start, context, { endMs: atMs, outcome, hasFailed: false, runner });
    }
    this.#over(uid, pod);
  }

  #failed(uid: string, start: Start, outcome: string): void {
    if (start.isOwn && this.#noteFailure(uid, start.pod, outcome)) this.#tellFailed(start, outcome);
  }

  /** Remembers how the start in this pod has failed. Returns whether that is new. */
  #noteFailure(uid: string, pod: Pod | undefined, outcome: string): boolean {
    const known = this.#failures.get(uid) ?? new Set();
    const failure = `${pod?.metadata.uid ?? ''} ${outcome}`;
    if (known.has(failure)) return false;
    this.#failures.set(uid, known.add(failure));
    return true;
  }

  #gone(uid: string, outcome: string): void {
    const start = this.#starts.get(uid);
    if (start?.ready !== undefined) return this.#tellReady(uid, start);
    this.#over(uid, start?.pod);
    if (start?.isOwn === true) this.#tellFailed(start, outcome);
  }

  #tellFailed(start: Start, outcome: string): void {
    const { vm, pod, runner } = start;
    const context =
      pod === undefined ? firstStart(vm, this.#isSampled) : startInPod(vm, pod, this.#isSampled);
    this.#tell(start, context, { endMs: this.#now(), outcome, hasFailed: true, runner });
  }

  #tell(
    { vm, pod, seen }: Start,
    context: StartContext | undefined,
    end: Pick<Parameters<typeof startSpans>[0], 'endMs' | 'outcome' | 'hasFailed' | 'runner'>,
  ): void {
    if (context === undefined) return;
    for (const span of startSpans({ context, vm, pod, seen, ...end })) this.#tracer.record(span);
  }

  /** Nothing more is to be told of the start in this pod. */
  #over(uid: string, pod: Pod | undefined): void {
    clearTimeout(this.#starts.get(uid)?.ready?.timer);
    this.#starts.delete(uid);
    if (pod !== undefined) this.#told.set(uid, pod.metadata.uid);
  }
}

/** Whoever wrote that the VM is as requested, in this pod, has told its start. */
function isToldBefore({ status }: Vm, pod: Pod | undefined): boolean {
  if (pod === undefined || status?.runner?.podUid !== pod.metadata.uid) return false;
  return findCondition(status.conditions, 'Ready')?.status === 'True';
}

/**
 * Whether what is over now is the pod's first start. A guest that was ready before the VM was last reported not to be has only been
 * out of reach for a while.
 */
function isOfThisPod({ runner, isOwn, unreadySinceMs }: Start): boolean {
  const { startedAtMs, diskMs = 0, machineMs = 0, guestMs } = runner?.firstStart ?? {};
  if (startedAtMs === undefined || guestMs === undefined) return isOwn;
  return startedAtMs + diskMs + machineMs + guestMs >= unreadySinceMs;
}

function isScheduled({ status }: Pod): boolean {
  return status?.conditions?.some((one) => one.type === 'PodScheduled' && one.status === 'True') ?? false;
}
