import type { Node, Pod } from '../api/core.ts';
import { annotations } from '../api/meta.ts';
import { persistentVolumeClaims, pods, typeMeta, vms } from '../api/resources.ts';
import { EffectiveSettings, type Vm, type VmStatus } from '../api/vm.ts';
import { isSvc3Error, messageOf } from '../errors.ts';
import type { EventRecorder, Informer, KubeClient, ReconcileResult } from '../kube/types.ts';
import type { Inventory } from '../placement/inventory.ts';
import { place, type Placed, type PlacementRequest, type Refused } from '../placement/place.ts';
import type { Attempts } from './attempts.ts';
import type { OwnWrites } from './caches.ts';
import { buildClaim, isPersistent } from './claim.ts';
import { decide, type Observed, type Plan } from './decide.ts';
import { effectiveAnnotation, podNameOf } from './names.ts';
import { buildPod, type PodPlacement } from './pod.ts';
import { reportPod, type RunnerObservation } from './report.ts';
import { placementRequest } from './request.ts';
import { type ResolveSources, resolveVm, type Resolved, type Unresolved } from './resolve.ts';
import { pollMs } from './runnerlinks.ts';
import type { VmSettings } from './settings.ts';
import { differsOnlyInProgress, row, type Rows, type StatusDraft, statusOf } from './statusdraft.ts';
import { eventsBetween } from './statusevents.ts';
import { startDeadline } from './startdeadline.ts';
import type { WaitingVms } from './waiting.ts';

/** The talk with the runners, as a pass uses it. */
export interface Runners {
  observe(key: string, vm: Vm, pod: Pod): RunnerObservation | undefined;
  forget(vmUid: string): void;
}

export interface VmReconcilerParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly vms: Informer<Vm>;
  readonly nodes: Informer<Node>;
  readonly sources: ResolveSources;
  readonly settings: VmSettings;
  readonly inventory: Inventory;
  readonly waiting: WaitingVms;
  readonly attempts: Attempts;
  readonly own: OwnWrites;
  readonly runners: Runners | undefined;
  /** Public halves of the control keys, for the pods' annotation. */
  controlKeys(): string;
  /** Group of /dev/kvm on a node. */
  kvmGroup(node: string): number | undefined;
  /** resourceVersion of the pull Secret of a namespace. */
  pullSecretVersion(namespace: string): string | undefined;
  /** Wall clock, for times that people read and for deadlines. */
  now(): Date;
}

/** A start that takes longer than this shows how far it is. */
const slowStartMs = 10_000;
/** A VM that nobody takes is looked at again, should an event have been missed or its sentence have changed. */
const waitingMs = 60_000;

/** One pass over one VM: observe, decide, act, report. */
export class VmReconciler {
  readonly #parts: VmReconcilerParts;
  readonly #uids = new Map<string, string>();

  constructor(parts: VmReconcilerParts) {
    this.#parts = parts;
  }

  async reconcile(key: string): Promise<ReconcileResult | void> {
    const observed = this.#observe(key);
    if (observed === undefined) {
      this.#forget(key);
      return;
    }
    const plan = decide(observed);
    const result = await this.#act(key, observed, plan);
    return withDeadline(result, observed);
  }

  #observe(key: string): Observed | undefined {
    const { own, pullSecretVersion, now } = this.#parts;
    const slash = key.indexOf('/');
    const namespace = key.slice(0, slash);
    const cached = this.#parts.vms.get(key.slice(slash + 1), namespace);
    if (cached === undefined) return undefined;
    const uid = cached.metadata.uid ?? '';
    if ((this.#uids.get(key) ?? uid) !== uid) this.#forget(key);
    this.#uids.set(key, uid);
    return {
      vm: own.vm(cached),
      pod: own.pod(podNameOf(cached.metadata.name ?? ''), namespace),
      pullSecretVersion: pullSecretVersion(namespace),
      now: now().getTime(),
    };
  }

  #forget(key: string): void {
    const uid = this.#uids.get(key);
    if (uid === undefined) return;
    const { inventory, waiting, attempts, own, runners } = this.#parts;
    this.#uids.delete(key);
    inventory.forget(uid);
    waiting.remove(uid);
    attempts.clear(uid);
    own.forget(uid);
    runners?.forget(uid);
  }

  async #act(key: string, { vm, pod }: Observed, plan: Plan): Promise<ReconcileResult | void> {
    if (plan.kind !== 'deploy') this.#parts.waiting.remove(vm.metadata.uid ?? '');
    switch (plan.kind) {
      case 'finalize':
        return this.#finalize(key, vm, plan.finalizers);
      case 'expire':
        return this.#expire(vm, plan.message);
      case 'conflict':
        await this.#report(vm, this.#pending(vm, { scheduled: row('False', 'PodConflict', plan.message) }));
        return { requeueAfterMs: 30_000 };
      case 'wait':
        return this.#wait(vm, plan.pod);
      case 'replace':
        return this.#replace(vm, plan);
      case 'deploy':
        return this.#deploy(key, vm);
      default:
        return this.#reportPod(key, vm, pod ?? plan.pod);
    }
  }

  /** The pod and the claim follow by their owner references. */
  async #finalize(key: string, vm: Vm, finalizers: readonly string[] | undefined): Promise<void> {
    this.#forget(key);
    if (finalizers === undefined) return;
    const { name = '', namespace = '', resourceVersion } = vm.metadata;
    await this.#parts.client.patch(
      vms,
      { name, namespace },
      { type: 'merge', body: { metadata: { finalizers, resourceVersion } } },
    );
  }

  async #expire(vm: Vm, message: string): Promise<void> {
    const { client, recorder } = this.#parts;
    const { name = '', namespace = '', uid = '' } = vm.metadata;
    recorder.event(typed(vm), { type: 'Warning', reason: 'StartDeadlineExceeded', message });
    await ignoring(['NotFound', 'Conflict'], client.delete(vms, { name, namespace }, { uid }));
  }

  /** Its node is free when it is gone: the pod's end wakes this VM. */
  async #wait(vm: Vm, pod: Pod): Promise<void> {
    const message = `pod ${pod.metadata.name ?? ''} is being deleted`;
    const reason = vm.status?.conditions?.find(({ type }) => type === 'Scheduled');
    // A refusal that led here stays readable until there is news.
    if (reason?.status === 'False') return;
    await this.#report(vm, this.#pending(vm, { ready: row('False', 'Starting', message) }));
  }

  async #replace(vm: Vm, plan: Extract<Plan, { kind: 'replace' }>): Promise<ReconcileResult | void> {
    const { client, attempts, own } = this.#parts;
    if (own.isDeleted(plan.pod)) return;
    const { name = '', namespace = '', uid = '', resourceVersion = '' } = plan.pod.metadata;
    // With resourceVersion: a pod that was bound meanwhile stays.
    await ignoring(['NotFound'], client.delete(pods, { name, namespace }, { uid, resourceVersion }));
    own.deletedPod(plan.pod);
    if (plan.reason === 'PullRetry') return;
    attempts.failed(vm.metadata.uid ?? '', plan.node);
    await this.#report(vm, this.#pending(vm, { scheduled: row('False', plan.reason, plan.message) }));
  }

  async #deploy(key: string, vm: Vm): Promise<ReconcileResult | void> {
    const { attempts, inventory, waiting } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    const waitMs = attempts.waitMs(uid);
    if (waitMs > 0) {
      inventory.forget(uid);
      return { requeueAfterMs: waitMs };
    }
    const resolved = await this.#settings(vm);
    if (resolved.kind === 'unresolved') return this.#unresolved(vm, resolved);
    const request = placementRequest(vm.metadata.namespace ?? '', resolved.effective, this.#parts.settings);
    const placement = this.#place(vm, resolved.effective, request);
    if (placement.kind === 'placed') return this.#create(vm, resolved, pinned(placement), placement);
    if (this.#parts.settings.whenFull === 'Pod') return this.#create(vm, resolved, unpinned, undefined);
    waiting.add(uid, { key, created: vm.metadata.creationTimestamp ?? '', request });
    const scheduled = row('False', 'Unschedulable', placement.message);
    await this.#report(vm, this.#pending(vm, { scheduled }));
    return { requeueAfterMs: waitingMs };
  }

  async #unresolved(vm: Vm, unresolved: Unresolved): Promise<ReconcileResult> {
    const { attempts, inventory } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    inventory.forget(uid);
    const { row: name, reason, message } = unresolved;
    const status = name === 'stalled' ? 'True' : 'False';
    await this.#report(vm, this.#pending(vm, { [name]: row(status, reason, message) }));
    return { requeueAfterMs: unresolved.poll ? attempts.failed(uid) : waitingMs };
  }

  /** Frozen once the VM has been placed; before that as VMConfig and image are now. */
  async #settings(vm: Vm): Promise<Awaited<ReturnType<typeof resolveVm>>> {
    const frozen = vm.status?.effective;
    if (frozen === undefined) return resolveVm(vm, this.#parts.sources);
    return { kind: 'resolved', effective: frozen, warnings: vm.status?.warnings ?? [] };
  }

  /**
   * Synchronous from here to `assume`: nobody decides in between. A Persistent disk goes back to its node, since its
   * volume may be there only; a node that turned the pod away is the last choice.
   */
  #place(vm: Vm, effective: EffectiveSettings, request: PlacementRequest): Placed | Refused {
    const { inventory, attempts } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    inventory.forget(uid);
    const avoid = attempts.avoided(uid);
    const before = vm.status?.node;
    const tries: PlacementRequest[] = [
      ...(isPersistent(effective) &&
      before !== undefined &&
      !avoid.has(before) &&
      request.nodeName === undefined
        ? [{ ...request, nodeName: before }]
        : []),
      ...(avoid.size > 0 ? [{ ...request, avoid }] : []),
    ];
    for (const one of tries) {
      const result = place(inventory, one);
      if (result.kind === 'placed') return this.#assume(uid, result);
    }
    const result = place(inventory, request);
    return result.kind === 'placed' ? this.#assume(uid, result) : result;
  }

  #assume(uid: string, placed: Placed): Placed {
    this.#parts.inventory.assume(uid, placed.usage);
    return placed;
  }

  async #create(
    vm: Vm,
    resolved: Resolved,
    placement: PodPlacement,
    placed: Placed | undefined,
  ): Promise<ReconcileResult | void> {
    const { client, own, inventory, attempts } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    try {
      if (isPersistent(resolved.effective)) await this.#ensureClaim(vm, resolved.effective);
      const pod = await client.create(pods, this.#pod(vm, resolved, placement));
      own.madePod(pod);
      // The assumption ends when the cache shows the pod, which is pinned and counts from then on.
      await this.#report(vm, this.#draft(vm, pod, undefined, resolved));
      return;
    } catch (error) {
      if (isSvc3Error(error, 'AlreadyExists')) {
        // The cache is behind: its event brings us back; nothing that is there is touched.
        return { requeueAfterMs: 1_000 };
      }
      if (placed !== undefined) inventory.forget(uid);
      if (!isRefusal(error)) throw error;
      const refused = row('False', 'PodRefused', messageOf(error));
      const pauseMs = attempts.failed(uid);
      await this.#report(vm, this.#pending(vm, { scheduled: refused }));
      return { requeueAfterMs: pauseMs };
    }
  }

  #pod(vm: Vm, resolved: Resolved, placement: PodPlacement): Pod {
    const { settings, controlKeys, kvmGroup, pullSecretVersion } = this.#parts;
    const { node, accelerator } = placement;
    return buildPod({
      vm,
      effective: resolved.effective,
      placement,
      settings,
      controlKeys: controlKeys(),
      kvmGroup: node !== undefined && accelerator === 'kvm' ? kvmGroup(node) : undefined,
      pullSecretVersion: pullSecretVersion(vm.metadata.namespace ?? ''),
      claimName: isPersistent(resolved.effective) ? podNameOf(vm.metadata.name ?? '') : undefined,
    });
  }

  async #ensureClaim(vm: Vm, effective: EffectiveSettings): Promise<void> {
    const { client, settings } = this.#parts;
    const claim = buildClaim(vm, effective, settings);
    await ignoring(['AlreadyExists'], client.create(persistentVolumeClaims, claim));
  }

  async #reportPod(key: string, vm: Vm, pod: Pod): Promise<ReconcileResult | void> {
    const { runners, attempts, inventory } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    if (this.#parts.own.isDeleted(pod)) return;
    await this.#renewControlKeys(pod);
    const runner = runners?.observe(key, vm, pod);
    const draft = this.#draft(vm, pod, runner, resolvedOf(vm, pod));
    const wrote = await this.#report(vm, draft, slowStartOf(pod, this.#parts.now()));
    if (draft.rows.ready.status === 'True') {
      attempts.clear(uid);
      return;
    }
    if (pod.spec.nodeName !== undefined) inventory.forget(uid);
    if (runner !== undefined && draft.reconciling) return { requeueAfterMs: pollMs };
    return wrote === 'later' ? { requeueAfterMs: slowStartMs } : undefined;
  }

  /** A rotation of the installation's keys reaches the runners through their pods' annotation. */
  async #renewControlKeys(pod: Pod): Promise<void> {
    const { client, controlKeys } = this.#parts;
    const keys = controlKeys();
    if (pod.metadata.annotations?.[annotations.controlKeys] === keys) return;
    const { name = '', namespace = '', uid } = pod.metadata;
    const body = { metadata: { uid, annotations: { [annotations.controlKeys]: keys } } };
    await ignoring(
      ['NotFound', 'Conflict'],
      client.patch(pods, { name, namespace }, { type: 'merge', body }),
    );
  }

  #draft(vm: Vm, pod: Pod, runner: RunnerObservation | undefined, resolved: Resolved): StatusDraft {
    const nodeName = pod.spec.nodeName ?? pinnedNode(pod);
    return reportPod({
      vm,
      pod,
      node: nodeName === undefined ? undefined : this.#parts.nodes.get(nodeName),
      runner,
      effective: resolved.effective,
      warnings: resolved.warnings,
    });
  }

  /** A VM without a pod: what froze stays, what belonged to the pod goes. */
  #pending(vm: Vm, rows: Partial<Rows>): StatusDraft {
    const { effective, node, diskSize, revertRequest, warnings, powerState } = vm.status ?? {};
    const cause = rows.stalled ?? rows.scheduled ?? rows.prepared;
    const sticky = effective !== undefined && isPersistent(effective);
    return {
      fields: {
        ...(effective === undefined ? {} : { effective }),
        // Where the disk is; other VMs may go anywhere.
        ...(sticky && node !== undefined ? { node } : {}),
        ...(diskSize === undefined ? {} : { diskSize }),
        ...(revertRequest === undefined ? {} : { revertRequest }),
        ...(warnings === undefined ? {} : { warnings }),
        // That it has ever booted is what the start deadline goes by.
        ...(powerState === undefined ? {} : { powerState: 'Stopped' as const }),
      },
      rows: { ready: row('False', 'Pending', cause?.message ?? ''), ...rows },
      reconciling: rows.stalled === undefined,
    };
  }

  /** At most one write of status in a pass, none when nothing has changed. Events follow what was written. */
  async #report(vm: Vm, draft: StatusDraft, isSlow = true): Promise<'written' | 'same' | 'later'> {
    const { client, own, recorder, now } = this.#parts;
    const status = statusOf(vm, draft, now());
    if (status === vm.status) return 'same';
    if (differsOnlyInProgress(vm.status, status) && (draft.rows.ready.status === 'True' || !isSlow))
      return 'later';
    const { name = '', namespace = '', uid = '' } = vm.metadata;
    const written = await ignoring(
      ['NotFound'],
      client.apply(vms, { ...typeMeta(vms), metadata: { name, namespace, uid }, status } as Vm, {
        subresource: 'status',
      }),
    );
    if (written !== undefined) {
      own.wroteVm(written);
      this.#record(vm, status, recorder);
    }
    return 'written';
  }

  #record(vm: Vm, status: VmStatus, recorder: EventRecorder): void {
    for (const event of eventsBetween(vm.status, status)) recorder.event(typed(vm), event);
  }
}

/** Objects of a list come without their type, and an event must say what it regards. */
function typed(vm: Vm): Vm {
  return { ...vm, ...typeMeta(vms) };
}

const unpinned: PodPlacement = {
  node: undefined,
  accelerator: 'auto',
  ports: {},
  requestsEphemeralStorage: true,
};

function pinned(placed: Placed): PodPlacement {
  const { node, accelerator, ports, requestsEphemeralStorage } = placed;
  return { node, accelerator, ports, requestsEphemeralStorage };
}

/** Where the status does not know the settings yet, the pod does: the process died between the two writes. */
function resolvedOf(vm: Vm, pod: Pod): Resolved {
  const known = vm.status?.effective;
  const warnings = vm.status?.warnings ?? [];
  if (known !== undefined) return { kind: 'resolved', effective: known, warnings };
  const text = pod.metadata.annotations?.[effectiveAnnotation] ?? '{}';
  return { kind: 'resolved', effective: EffectiveSettings.parse(JSON.parse(text)), warnings };
}

function pinnedNode(pod: Pod): string | undefined {
  const terms =
    pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms?.[0]?.matchFields?.[0]?.values?.[0];
}

function slowStartOf(pod: Pod, now: Date): boolean {
  const created = pod.metadata.creationTimestamp;
  return created !== undefined && now.getTime() - Date.parse(created) >= slowStartMs;
}

/** What somebody decided, in contrast to what failed: Pod Security, quota, LimitRange, webhooks, validation. */
function isRefusal(error: unknown): boolean {
  return (
    isSvc3Error(
      error,
      'Forbidden',
      'Invalid',
      'BadRequest',
      'NotFound',
      'NotAcceptable',
      'MethodNotAllowed',
      'Gone',
    ) ||
    (isSvc3Error(error, 'InternalError') && /webhook/.test(messageOf(error)))
  );
}

async function ignoring<T>(
  reasons: Parameters<typeof isSvc3Error>[1][],
  call: Promise<T>,
): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isSvc3Error(error, ...reasons)) return undefined;
    throw error;
  }
}

function withDeadline(result: ReconcileResult | void, { vm, now }: Observed): ReconcileResult | void {
  const deadline = startDeadline(vm);
  if (deadline === undefined || vm.metadata.deletionTimestamp !== undefined) return result;
  const untilMs = Math.max(0, deadline - now);
  return { requeueAfterMs: Math.min(untilMs, result?.requeueAfterMs ?? untilMs) };
}
