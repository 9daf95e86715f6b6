import type { Node, Pod } from '../../api/core.ts';
import { controllerOf, isOwnedBy, isTerminating } from '../../api/owner.ts';
import { conditionTypes } from '../../api/reasons.ts';
import { pods, typeMeta, vmPools } from '../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import type { VmPool, VmPoolStatus } from '../../api/vmpool.ts';
import { findCondition } from '../../controller/conditions.ts';
import { keyOf, splitKey } from '../../controller/controller.ts';
import { createExpectations } from '../../controller/expectations.ts';
import { Failures } from '../../controller/failures.ts';
import { ignoring } from '../../controller/ignoring.ts';
import { readyStatus } from '../../controller/kstatus.ts';
import { isRefusal } from '../../controller/refusal.ts';
import { applyStatus, isSameStatus } from '../../controller/status.ts';
import { isSvc3Error, messageOf } from '../../errors.ts';
import type { EventRecorder, Informer, KubeClient, ReconcileResult } from '../../kube/types.ts';
import { nodeOf } from '../../placement/podfacts.ts';
import { placeLeavingOut, type PlacedWithout } from '../../placement/leaveout.ts';
import { place, type PlacementRequest } from '../../placement/place.ts';
import type { Shared } from '../vm/controller.ts';
import { renewControlKeys } from '../vm/pod/controlkeys.ts';
import { isLost, isPodReady } from '../vm/facts/podstate.ts';
import { placementRequest } from '../vm/pod/request.ts';
import { isLeftOfPool, isOfPool, isWithoutPod, selectorOf, standbyRefusal } from '../vm/facts/standby.ts';
import { hasMemory, memoryToGoOnFrom } from '../vm/resolve/imagememory.ts';
import { digestOf } from '../vm/resolve/imageref.ts';
import {
  type Asking,
  resolveVm,
  type Resolved,
  type ResolveSources,
  type Unresolved,
} from '../vm/resolve/resolve.ts';
import { runnerPullsWith, type VmSettings } from '../vm/settings.ts';
import { PoolBackoff } from './backoff.ts';
import { decidePool, type ObservedPool, type PoolPlan } from './decide.ts';
import { countVms } from './members.ts';
import type { PoolCounts } from './metrics.ts';
import { awaitedMs, heldBack, type Outcome, outcomeOf, preparingMessage, progressOf } from './outcome.ts';
import { PoolRevisions } from './revisions.ts';
import { buildStandby, imagesOf, newStandbyName, revisionOf, templateVm } from './standbypod.ts';

export interface PoolCaches {
  readonly pools: Pick<Informer<VmPool>, 'get'>;
  /** With `poolIndex`. */
  readonly pods: Pick<Informer<Pod>, 'byIndex' | 'get'>;
  /** With index `pool`. */
  readonly vms: Pick<Informer<Vm>, 'byIndex'>;
  readonly nodes: Pick<Informer<Node>, 'get'>;
}

export interface PoolReconcilerParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly caches: PoolCaches;
  readonly sources: ResolveSources;
  readonly settings: VmSettings;
  readonly shared: Shared;
  /** What the pool has, for metrics; undefined: it is gone. */
  counted?(key: string, counts: PoolCounts | undefined): void;
  /** A guest of the pool has been made, for metrics. */
  made?(key: string): void;
  /** Wall clock. */
  now(): Date;
}

/** Pods made in one pass: claims have their turns at kube-apiserver between the passes. */
const mostPerPass = 5;
const nextBatchMs = 200;

/** A guest that has not come to wait in this time beyond what a guest may take to answer is replaced, in milliseconds. */
const bootMs = 600_000;

/** What a tag of a registry means is asked again, in milliseconds. */
const resolveAgainMs = 60_000;

/** One pass over one pool: observe, decide, act, report. */
export class PoolReconciler {
  readonly #parts: PoolReconcilerParts;
  /** By UID: the cache does not show them yet, and the room that was assumed for them is theirs. */
  readonly #made = new Map<string, Pod>();
  readonly #deleted = new Set<string>();
  readonly #failed = new Set<string>();
  /** By the UID of a pool: what an outdated guest of it went for last, where a quota was used up, and that could not be made yet. */
  readonly #wentFor = new Map<string, string>();
  readonly #backoff: PoolBackoff;
  readonly #revisions = new PoolRevisions();
  /** By the UID of a pool: why its template could not be resolved last, and of which generation that was. */
  readonly #unresolved = new Map<
    string,
    { readonly generation: number | undefined; readonly why: Unresolved }
  >();
  /** Another pool of the same name is another pool. */
  readonly #uids = new Map<string, string>();
  readonly #written = createExpectations<VmPool>();

  /** `monotonic`: milliseconds of a clock that never jumps. */
  constructor(parts: PoolReconcilerParts, monotonic: () => number) {
    this.#parts = parts;
    this.#backoff = new PoolBackoff(monotonic);
  }

  /** A pod of a pool is in the cache, or has gone from it. */
  sawPod(pod: Pod, isGone: boolean): void {
    this.#forgetMade(pod);
    if (!isGone) return;
    this.#deleted.delete(pod.metadata.uid);
    this.#failed.delete(pod.metadata.uid);
  }

  /** The cache shows the pod, or that it is gone: what was assumed for it ends, whether its pool is known or not. */
  #forgetMade(pod: Pod): void {
    if (this.#made.delete(pod.metadata.uid)) this.#parts.shared.inventory.forget(keyOf(pod));
  }

  /** @param uid - undefined: there is no pool of this key */
  #remember(key: string, uid: string | undefined): void {
    const known = this.#uids.get(key);
    if (uid === undefined) this.#uids.delete(key);
    else this.#uids.set(key, uid);
    if (known === undefined || known === uid) return;
    this.#backoff.forget(known);
    this.#revisions.forget(known);
    this.#unresolved.delete(known);
    this.#wentFor.delete(known);
    for (const pod of this.#made.values()) if (controllerOf(pod)?.uid === known) this.#forgetMade(pod);
  }

  async reconcile(key: string): Promise<ReconcileResult | void> {
    const { namespace = '', name } = splitKey(key);
    const cached = this.#parts.caches.pools.get(name, namespace);
    this.#remember(key, cached?.metadata.uid);
    const pool = cached === undefined ? undefined : this.#written.current(key, cached);
    if (pool === undefined || isTerminating(pool)) {
      this.#parts.counted?.(key, undefined);
      const failures = new Failures();
      await this.#endLeft(key, failures);
      failures.throwFirst();
      return undefined;
    }
    const resolved = this.#resolve(pool);
    const observed = this.#observe(key, pool, resolved);
    const waiting = observed.standbys.filter(({ pod }) => isPodReady(pod));
    this.#backoff.look(
      pool.metadata.uid,
      waiting.map(({ pod }) => pod.metadata.uid),
    );
    const plan = decidePool(observed);
    this.#parts.counted?.(key, { ...plan, claimed: observed.claimed });
    let outcome: Outcome = { isReady: false, reason: 'Preparing', message: '' };
    const failures = new Failures();
    try {
      for (const one of plan.delete) await failures.attempt(this.#delete(pool, [one]), undefined);
      const create = createdBeside(failures.count, observed, plan);
      await this.#renewKeys(observed, failures);
      await this.#endLeft(key, failures);
      outcome = await this.#create(pool, { ...plan, create }, resolved);
    } finally {
      await this.#report(key, pool, observed, plan, outcome);
    }
    failures.throwFirst();
    const lookMs = [plan.lookAgainMs, awaitedMs(pool, outcome, this.#parts.now())];
    const times = [outcome.againMs, ...lookMs, resolveAgainMs].filter((time) => time !== undefined);
    return { requeueAfterMs: Math.min(...times) };
  }

  /** Ends the guests of a pool that is gone, whoever has its name now: they would have their room for ever. */
  async #endLeft(key: string, failures: Failures): Promise<void> {
    const { client, caches } = this.#parts;
    for (const pod of caches.pods.byIndex('pool', key)) {
      const { name, namespace, uid, resourceVersion } = pod.metadata;
      if (!isLeftOfPool(pod) || isTerminating(pod)) continue;
      // One that has changed brings us back by its event.
      const deleted = client.delete(pods, { name, namespace }, { uid, resourceVersion });
      await failures.attempt(ignoring(['NotFound', 'Conflict'], deleted), undefined);
    }
  }

  /** What was found to be wrong with a template stays told while a registry is asked again. */
  #resolve(pool: VmPool): Resolved | Unresolved | Asking {
    const { uid, generation } = pool.metadata;
    const resolved = this.#resolveNow(pool);
    if (resolved.kind === 'asking') {
      const before = this.#unresolved.get(uid);
      return before !== undefined && before.generation === generation ? before.why : resolved;
    }
    this.#unresolved.delete(uid);
    if (resolved.kind === 'unresolved') {
      // The answer wakes the pool.
      const { retryMs: _retryMs, ...why } = resolved;
      this.#unresolved.set(uid, { generation, why });
    }
    return resolved;
  }

  #resolveNow(pool: VmPool): Resolved | Unresolved | Asking {
    const resolved = resolveVm(templateVm(pool, pool.metadata.name), this.#parts.sources);
    if (resolved.kind !== 'resolved') return resolved;
    const refusal = standbyRefusal(resolved.effective);
    if (refusal === undefined) return resolved;
    return { kind: 'unresolved', condition: 'stalled', reason: 'InvalidSpec', message: refusal };
  }

  #observe(key: string, pool: VmPool, resolved: Resolved | Unresolved | Asking): ObservedPool {
    const { caches, settings, shared, now } = this.#parts;
    const cached = caches.pods.byIndex('pool', key);
    const all = this.#standbysOf(key, pool);
    const own = all.filter((pod) => !this.#deleted.has(pod.metadata.uid));
    const found =
      resolved.kind === 'resolved'
        ? { revision: revisionOf(pool, resolved.effective, settings), isPinned: isPinned(resolved) }
        : undefined;
    const { startDeadlineSeconds } = pool.spec.template;
    const vms = caches.vms.byIndex('pool', key);
    const count = (named: readonly Vm[]) => countVms(named, cached, (pod) => shared.standbys.holderOf(pod));
    return {
      pool,
      standbys: own.map((pod) => ({
        pod,
        node: caches.nodes.get(nodeOf(pod) ?? ''),
        isTaken: shared.standbys.holderOf(pod) !== undefined,
      })),
      claimed: count(vms),
      withPod: count(vms.filter((vm) => !isWithoutPod(vm))),
      revisions: this.#revisions.look(pool.metadata.uid, found),
      resolution: resolved.kind,
      pullSecretVersion: shared.pullSecretVersion(pool.metadata.namespace),
      pullsWith: runnerPullsWith(settings),
      isLeaving: all.some((pod) => this.#isLeaving(pod)),
      now: now().getTime(),
      startMs:
        startDeadlineSeconds === undefined
          ? bootMs + settings.readinessSeconds * 1_000
          : startDeadlineSeconds * 1_000,
    };
  }

  /** Whether the pod is about to give its room back: that of a node which is lost may never go, and what it has is nobody's. */
  #isLeaving(pod: Pod): boolean {
    if (!this.#deleted.has(pod.metadata.uid) && !isTerminating(pod)) return false;
    const node = this.#parts.caches.nodes.get(nodeOf(pod) ?? '');
    return node !== undefined && !isLost(node);
  }

  /** The pods of the pool that are no VM's, also those that the cache does not show yet. */
  #standbysOf(key: string, pool: VmPool): Pod[] {
    const cached = this.#parts.caches.pods.byIndex('pool', key);
    const made = [...this.#made.values()].filter(
      ({ metadata: { uid } }) => !cached.some((pod) => pod.metadata.uid === uid),
    );
    return [...cached, ...made].filter((pod) => isOfPool(pod) && isOwnedBy(pod, pool));
  }

  /** Exactly as they were seen: one that a VM has taken meanwhile stays. */
  async #delete(pool: VmPool, doomed: PoolPlan['delete']): Promise<void> {
    const { client, recorder } = this.#parts;
    for (const { pod, why, isFailure } of doomed) {
      const { name, namespace, uid, resourceVersion } = pod.metadata;
      if (isFailure && !this.#failed.has(uid)) {
        this.#failed.add(uid);
        this.#backoff.failed(pool.metadata.uid, nodeOf(pod));
        const message = `pod ${name} is replaced: ${why}`;
        recorder.event(
          { ...pool, ...typeMeta(vmPools) },
          { type: 'Warning', reason: 'StandbyFailed', message },
        );
      }
      try {
        await ignoring(['NotFound'], client.delete(pods, { name, namespace }, { uid, resourceVersion }));
        this.#deleted.add(uid);
        this.#forgetMade(pod);
      } catch (error) {
        // The pod has changed, as it does when its kubelet writes: its event brings us back.
        if (!isSvc3Error(error, 'Conflict')) throw error;
      }
    }
  }

  /** A guest whose runner knows only keys of before takes no claim. */
  async #renewKeys({ standbys }: ObservedPool, failures: Failures): Promise<void> {
    const { client, shared } = this.#parts;
    for (const { pod } of standbys)
      if (!isTerminating(pod) && !this.#deleted.has(pod.metadata.uid))
        await failures.attempt(renewControlKeys(client, pod, shared.controlKeys()), undefined);
  }

  async #create(pool: VmPool, plan: PoolPlan, resolved: Resolved | Unresolved | Asking): Promise<Outcome> {
    const { uid } = pool.metadata;
    if (resolved.kind === 'unresolved') {
      const { reason, message, condition, retryMs } = resolved;
      return { isReady: false, reason, message, isStalled: condition === 'stalled', againMs: retryMs };
    }
    if (plan.create === 0) return outcomeOf(pool, plan);
    const waitMs = this.#backoff.waitMs(uid);
    if (waitMs > 0)
      return heldBack(pool, { reason: 'Preparing', message: 'the last one failed', againMs: waitMs });
    if (resolved.kind === 'asking')
      return heldBack(pool, { reason: 'AskingRegistry', message: resolved.message });
    // Room that has just become free is theirs who need it now. One that fits nowhere holds nobody up: it may be another tenant's.
    this.#parts.shared.waiting.retry();
    const now = Math.min(plan.create, mostPerPass);
    for (let i = 0; i < now; i++) {
      const refused = await this.#createOne(pool, resolved);
      if (refused !== undefined) {
        await this.#makeWay(pool, plan, { effective: resolved.effective, lacks: refused.lacks });
        return refused;
      }
    }
    return {
      isReady: false,
      reason: 'Preparing',
      message: preparingMessage(plan, plan.preparing + now, plan.create - now),
      againMs: plan.create > now ? nextBatchMs : undefined,
    };
  }

  /** Where outdated guests have the room of the next one, one of them goes for it. */
  async #makeWay(
    pool: VmPool,
    { spares }: PoolPlan,
    { effective, lacks }: { readonly effective: EffectiveSettings; readonly lacks: Outcome['lacks'] },
  ): Promise<void> {
    if (lacks === undefined || spares.length === 0) return;
    const revision = revisionOf(pool, effective, this.#parts.settings);
    const { uid } = pool.metadata;
    // Only kube-apiserver knows what a quota counts: where one that went has brought none, another would bring none either.
    if (lacks === 'quota' && this.#wentFor.get(uid) === revision) return;
    const pod = lacks === 'quota' ? spares[0] : this.#inTheWay(pool, effective, spares);
    if (pod === undefined) return;
    await this.#delete(pool, [{ pod, why: 'it is outdated', isFailure: false }]);
    if (lacks === 'quota' && this.#deleted.has(pod.metadata.uid)) this.#wentFor.set(uid, revision);
  }

  /** The one whose room the next guest needs; undefined where that fits on no node even once all of them are gone. */
  #inTheWay(pool: VmPool, effective: EffectiveSettings, spares: readonly Pod[]): Pod | undefined {
    const { request } = this.#wanted(pool, effective);
    const placedWithout = (gone: readonly Pod[]): string | undefined => {
      const uids = gone.map(({ metadata }) => metadata.uid);
      const place = () => this.#place(pool.metadata.uid, request).result;
      const result = this.#parts.shared.inventory.without(uids, place);
      return result.kind === 'placed' ? result.node : undefined;
    };
    const node = placedWithout(spares);
    if (node === undefined) return undefined;
    const alone = spares.find((spare) => placedWithout([spare]) !== undefined);
    return alone ?? spares.find((spare) => nodeOf(spare) === node) ?? spares[0];
  }

  /** The next guest under a new name, and what it asks of a node. */
  #wanted(
    pool: VmPool,
    effective: EffectiveSettings,
  ): { readonly vm: Vm; readonly request: PlacementRequest } {
    const { settings, sources } = this.#parts;
    const vm = templateVm(pool, newStandbyName(pool));
    const memory = memoryToGoOnFrom(vm, effective, sources);
    return { vm, request: placementRequest(vm, effective, settings, memory) };
  }

  /** Returns why there can be none now. */
  async #createOne(pool: VmPool, { effective }: Resolved): Promise<Outcome | undefined> {
    const { client, settings, shared, sources } = this.#parts;
    const { namespace, uid } = pool.metadata;
    const { vm, request } = this.#wanted(pool, effective);
    const { name } = vm.metadata;
    const { result, leftOut } = this.#place(uid, request);
    if (result.kind === 'refused')
      return {
        isReady: false,
        reason: 'Unschedulable',
        message: result.message,
        againMs: this.#backoff.failed(uid),
        lacks: 'node',
      };
    const assumed = `${namespace}/${name}`;
    shared.inventory.assume(assumed, result.usage);
    const { node, accelerator, ports, requestsEphemeralStorage } = result;
    const pod = buildStandby(pool, {
      vm,
      effective,
      placement: { node, accelerator, ports, leftOut, requestsEphemeralStorage },
      settings,
      controlKeys: shared.controlKeys(),
      kvmGroups: accelerator === 'kvm' ? shared.kvmGroups(node) : [],
      pullSecretVersion: shared.pullSecretVersion(namespace),
      isWarm: hasMemory(namespace, effective, sources),
      claimName: undefined,
    });
    try {
      const made = await client.create(pods, pod);
      this.#made.set(made.metadata.uid, made);
      this.#wentFor.delete(uid);
      this.#parts.made?.(keyOf(pool));
      if (this.#parts.caches.pods.get(name, namespace) !== undefined) this.#forgetMade(made);
      return undefined;
    } catch (error) {
      shared.inventory.forget(assumed);
      if (!isRefusal(error)) throw error;
      const message = messageOf(error);
      return {
        isReady: false,
        reason: 'PodRefused',
        message,
        againMs: this.#backoff.failed(uid),
        lacks: /exceeded quota/.test(message) ? 'quota' : undefined,
      };
    }
  }

  /** A node on which a guest has just failed is the last choice: without guests it is the freest, and looks best. */
  #place(poolUid: string, request: PlacementRequest): PlacedWithout {
    const { inventory } = this.#parts.shared;
    const avoid = this.#backoff.avoided(poolUid);
    if (avoid.size > 0) {
      const result = place(inventory, { ...request, avoid });
      if (result.kind === 'placed') return { result, leftOut: [] };
    }
    return placeLeavingOut(inventory, request);
  }

  async #report(
    key: string,
    pool: VmPool,
    { claimed }: ObservedPool,
    { idle, preparing }: PoolPlan,
    outcome: Outcome,
  ): Promise<void> {
    const { client, recorder, now } = this.#parts;
    const time = now();
    const status: VmPoolStatus = {
      ...readyStatus(pool, outcome, progressOf(pool, outcome, time), time),
      idle,
      preparing,
      claimed,
      selector: selectorOf(pool.metadata.name),
      ...imagesOf(this.#standbysOf(key, pool).filter(({ metadata }) => !this.#deleted.has(metadata.uid))),
    };
    if (isSameStatus(pool.status, status)) return;
    const written = await applyStatus(client, vmPools, pool, status);
    if (written === undefined) return;
    this.#written.wrote(key, written);
    const before = findCondition(pool.status?.conditions, conditionTypes.ready);
    if (before?.reason === outcome.reason) return;
    if (outcome.reason === 'Preparing' || outcome.reason === 'AskingRegistry') return;
    const type = outcome.isReady ? 'Normal' : 'Warning';
    recorder.event(
      { ...pool, ...typeMeta(vmPools) },
      { type, reason: outcome.reason, message: outcome.message },
    );
  }
}

/** Whether it is said by digests what a guest is made from: who does not know what a tag means does not know what is outdated. */
function isPinned({ effective: { image, iso } }: Resolved): boolean {
  return [image, iso].every((reference) => reference === undefined || digestOf(reference) !== undefined);
}

/**
 * How many guests are made where some that were to go could not be deleted: with these they are not more than the pool may have, nor, however often its
 * template changes, more than twice as many as are to wait.
 */
function createdBeside(staying: number, { pool, claimed }: ObservedPool, { create, kept }: PoolPlan): number {
  if (staying === 0) return create;
  const { minIdle, maxSize = Infinity } = pool.spec;
  const most = Math.min(2 * minIdle, maxSize - claimed) - kept - staying;
  return Math.max(0, Math.min(create, most));
}
