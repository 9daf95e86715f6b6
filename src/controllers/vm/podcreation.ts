import type { Submitted } from '../../api/object.ts';
import { configKeyOf } from '../../api/configkey.ts';
import type { Node, Pod } from '../../api/core.ts';
import { pods } from '../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import { isSvc3Error, messageOf } from '../../errors.ts';
import type { Informer, KubeClient, ReconcileResult } from '../../kube/types.ts';
import type { Inventory } from '../../placement/inventory.ts';
import type { PlacementDecided } from '../metrics/placements.ts';
import type { PodPlan } from './decide.ts';
import type { DeployBackoff } from './deploybackoff.ts';
import type { VmExpectations } from './expectations.ts';
import type { VmSettings } from './settings.ts';
import type { WaitingVms } from './waiting.ts';
import { placeLeavingOut, type PlacedWithout } from '../../placement/leaveout.ts';
import { place, type Placed, type PlacementRequest, unpinnedAccelerator } from '../../placement/place.ts';
import type { HostPort } from '../../placement/ports.ts';
import { type ClaimHolder, claimNameOf, hasClaims, isPersistent } from './pod/claim.ts';
import { obtainClaims } from './pod/diskclaim.ts';
import { hasFinalizer } from '../../api/finalizer.ts';
import { holdVm } from './life/finalizer.ts';
import { podNameOf } from './names.ts';
import type { Pass, VmMemory } from './parts.ts';
import { type ClaimParts, choosePod, hasOwnPod, isUnchanged, mayHavePod, takePod } from './pool/claims.ts';
import type { ClaimObserver } from './pool/claimobserver.ts';
import { claimedSettings, isWithoutPod, poolIndex } from './pool/standby.ts';
import type { Standbys } from './pool/standbys.ts';
import type { StartTraces } from './starts/starttraces.ts';
import { buildPod, type PodPlacement } from './pod/pod.ts';
import { reportPod } from './status/report.ts';
import { placementRequest } from './pod/request.ts';
import { plannedSettings } from './resolve/planned.ts';
import { hasMemory, memoryToGoOnFrom } from './resolve/imagememory.ts';
import { nextMedium, nextSettings } from './resolve/nextsettings.ts';
import {
  type Asking,
  pinMedium,
  type Resolved,
  type ResolveSources,
  resolveVm,
  type Unresolved,
} from './resolve/resolve.ts';
import { condition, type ConditionDrafts, type StatusDraft } from './status/statusdraft.ts';
import { pendingDraft } from './status/pending.ts';

/** A VM that nobody takes is looked at again, should an event have been missed. */
const waitingMs = 60_000;

/** Somebody else's claim is not in the cache, and nothing tells that it is gone; in milliseconds. */
const claimWaitMs = { going: 2_000, foreign: 30_000, missing: 30_000 } as const;

/** What was written wakes the VM as well, in milliseconds. */
const claimAgainMs = 1;

/** The cache does not show a pod yet that kube-apiserver has, in milliseconds. */
const cacheLagMs = 1_000;

/** A registry that takes longer to answer shows in the VM's status, in milliseconds. */
const slowAnswerMs = 1_000;

/** A kubelet that has just started rejects pods whose devices it does not have yet: so often is its node tried again for the sake of a VM's volumes. */
const mostRejections = 5;

export interface PodCreationParts {
  readonly client: KubeClient;
  readonly sources: ResolveSources;
  readonly settings: VmSettings;
  readonly inventory: Inventory;
  readonly waiting: WaitingVms;
  readonly backoff: DeployBackoff;
  readonly expectations: VmExpectations;
  readonly nodes: Pick<Informer<Node>, 'get'>;
  readonly status: ClaimParts['status'];
  /** Guests that wait for a VM. */
  readonly standbys: Standbys;
  readonly claims: ClaimObserver;
  /** Where starts are traced. */
  readonly starts: StartTraces | undefined;
  /** Milliseconds of a clock that never jumps. */
  monotonic(): number;
  placed: PlacementDecided | undefined;
  /** Public halves of the control keys, for the pods' annotation. */
  controlKeys(): string;
  /** Groups of /dev/kvm on a node; without one on all nodes. */
  kvmGroups(node: string | undefined): readonly number[];
  /** resourceVersion of the pull Secret of a namespace. */
  pullSecretVersion(namespace: string): string | undefined;
}

/** Gives VMs their pods: resolve, place, assume, create. It remembers who waits for a node, and for how long. */
export class PodCreation implements VmMemory {
  readonly #parts: PodCreationParts;
  /** When a guest was first chosen for a VM that has none yet, by the UID of the VM. */
  readonly #choseAt = new Map<string, number>();
  /** Since when VMs have waited for their next pod, in milliseconds since 1970, by their UID. */
  readonly #waitsSince = new Map<string, number>();
  /** UIDs of the VMs that had a pod on a node. */
  readonly #bound = new Set<string>();

  constructor(parts: PodCreationParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    const { inventory, waiting, backoff } = this.#parts;
    inventory.forget(vmUid);
    waiting.remove(vmUid);
    backoff.forget(vmUid);
    this.#parts.standbys.forget(vmUid);
    this.#choseAt.delete(vmUid);
    this.#waitsSince.delete(vmUid);
    this.#bound.delete(vmUid);
  }

  /** The runner of the VM's guest has been told whose it is. */
  told(vmUid: string): void {
    const { claims, monotonic } = this.#parts;
    const since = this.#choseAt.get(vmUid);
    if (since === undefined) return;
    this.#choseAt.delete(vmUid);
    this.#parts.starts?.claimed(vmUid);
    claims.told((monotonic() - since) / 1_000);
  }

  /** It does not wait for a node. */
  hasPod(vmUid: string): void {
    this.#parts.waiting.remove(vmUid);
    this.#waitsSince.delete(vmUid);
  }

  /** The pod of the VM lives: a bound one counts by itself, and for one that is as requested failures of before do not count. */
  seen(vmUid: string, { isBound, isReady }: { isBound: boolean; isReady: boolean }): void {
    if (isBound) this.#bound.add(vmUid);
    if (isReady) this.#parts.backoff.forget(vmUid);
    else if (isBound) this.#parts.inventory.forget(vmUid);
  }

  /** The pod cannot run on its node. */
  turnedAway(vm: Vm, { pod, reason, node }: Extract<PodPlan, { kind: 'replace' }>): void {
    const { backoff } = this.#parts;
    const { uid } = vm.metadata;
    const { effective } = vm.status ?? {};
    const isStarting = pod.status?.reason === 'UnexpectedAdmissionError';
    const hasVolumes = effective !== undefined && hasClaims(effective);
    if (isStarting && hasVolumes && backoff.failures(uid) < mostRejections) backoff.failed(uid);
    else backoff.failed(uid, node, reason === 'Unschedulable' && node !== this.#homeOf(vm));
  }

  /** Where the volumes of the VM may be: where it had a pod, and not where one was only tried. */
  #homeOf({ metadata, status }: Vm): string | undefined {
    const wasThere = status?.powerState !== undefined || this.#bound.has(metadata.uid);
    return wasThere ? status?.node : undefined;
  }

  /** One try; sets the status of the pass to what became of it. */
  async deploy(pass: Pass): Promise<ReconcileResult | void> {
    const { vm } = pass.observed;
    const { backoff, inventory } = this.#parts;
    const uid = vm.metadata.uid;
    if (!this.#waitsSince.has(uid)) this.#waitsSince.set(uid, waitsSince(vm, Date.now()));
    const instead = await this.#insteadOfOwn(vm);
    if (instead !== undefined) return this.#claim(pass, instead, claimedSettings(vm, instead));
    const waitMs = backoff.waitMs(uid);
    if (waitMs > 0) {
      inventory.forget(uid);
      return { requeueAfterMs: waitMs };
    }
    if (await mayHavePod(this.#parts.client, vm)) return { requeueAfterMs: cacheLagMs };
    const waits = isUnclaimed(vm) ? this.#parts.standbys.ofPool(vm) : undefined;
    if (waits !== undefined) return this.#claim(pass, waits, claimedSettings(vm, waits));
    const resolved = this.#settings(vm);
    if (resolved.kind === 'asking') return this.#asking(pass, resolved);
    if (resolved.kind === 'unresolved') return this.#unresolved(pass, resolved);
    const served = isServed(vm) ? this.#parts.standbys.ofConfig(vm, resolved.effective) : undefined;
    if (served !== undefined) return this.#serve(pass, served, resolved.effective);
    const { settings, sources } = this.#parts;
    const memory = memoryToGoOnFrom(vm, resolved.effective, sources);
    const request = placementRequest(vm, resolved.effective, settings, memory);
    if (vm.spec.pool !== undefined && vm.status?.podName !== podNameOf(vm.metadata.name))
      return this.#withoutStandby(pass, request);
    const began = performance.now();
    const { result: placement, leftOut } = this.#place(vm, resolved.effective, request);
    this.#parts.placed?.(placement, (performance.now() - began) / 1000);
    if (placement.kind === 'placed')
      return this.#create(pass, resolved, pinned(placement, leftOut), placement);
    if (this.#parts.settings.whenFull === 'Pod') {
      const accelerator = unpinnedAccelerator(this.#parts.inventory, request);
      return this.#create(pass, resolved, { ...unpinned, accelerator }, undefined);
    }
    return this.#unschedulable(pass, request, placement.message);
  }

  /** A guest that waits by now, for a VM of a pool whose own pod could not be made; that there is none is asked for, since it stays chosen. */
  async #insteadOfOwn(vm: Vm): Promise<Pod | undefined> {
    const { client, standbys } = this.#parts;
    const isRefused = isToRun(vm) && vm.status?.podName !== undefined && isWithoutPod(vm);
    const waits = isRefused ? standbys.ofPool(vm) : undefined;
    if (waits === undefined) return undefined;
    try {
      if (!(await hasOwnPod(client, vm))) return waits;
    } catch (error) {
      standbys.forget(vm.metadata.uid);
      throw error;
    }
    standbys.forget(vm.metadata.uid);
    return undefined;
  }

  #unschedulable(pass: Pass, request: PlacementRequest, told: string): ReconcileResult {
    const { vm } = pass.observed;
    // What it waits for is a node; ports that are taken then are left out.
    const bare = { ...request, reservedPorts: [] };
    const created = vm.metadata.creationTimestamp ?? '';
    this.#parts.waiting.add(vm.metadata.uid, { key: pass.key, created, request: bare, told });
    this.#parts.starts?.refused(vm, told);
    pass.status = this.#pending(vm, { scheduled: condition('False', 'Unschedulable', told) });
    return { requeueAfterMs: waitingMs };
  }

  /** The pod was promised to the VM, or its status names it already. A policy of the cluster may refuse what the VM's labels make of it. */
  async take(pass: Pass, pod: Pod): Promise<ReconcileResult> {
    const { claims, standbys } = this.#parts;
    const vm = pass.written ?? pass.observed.vm;
    try {
      const { kind } = await takePod(this.#parts, vm, pod);
      for (const pool of poolIndex.pool(pod)) claims.claimed(pool, kind === 'taken' ? 'warm' : 'lost');
      if (kind === 'lost') standbys.forget(vm.metadata.uid);
      return { requeueAfterMs: claimAgainMs };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return this.#refused(pass, messageOf(error));
    }
  }

  /** Of a VM that knows of no pool: its VMConfig is asked for beside what would be asked anyway. */
  async #serve(pass: Pass, pod: Pod, effective: EffectiveSettings): Promise<ReconcileResult> {
    const { client, sources, standbys } = this.#parts;
    const { vm } = pass.observed;
    const { name, namespace } = configKeyOf(vm) ?? { name: '', namespace: '' };
    const config = sources.vmConfig(name, namespace);
    try {
      const [hasOwn, isCurrent] = await Promise.all([
        // Nothing else tells that the leader before has made a pod for the VM.
        hasFinalizer(vm) && hasOwnPod(client, vm),
        config !== undefined && isUnchanged(client, config),
      ]);
      if (!hasOwn && isCurrent) return await this.#claim(pass, pod, effective);
    } catch (error) {
      standbys.forget(vm.metadata.uid);
      throw error;
    }
    standbys.forget(vm.metadata.uid);
    return { requeueAfterMs: cacheLagMs };
  }

  /** Both writes of a claim; the runner is told in the pass that follows. */
  async #claim(pass: Pass, pod: Pod, effective: EffectiveSettings | undefined): Promise<ReconcileResult> {
    const { vm } = pass.observed;
    const { uid } = vm.metadata;
    this.#parts.inventory.forget(uid);
    this.#parts.waiting.remove(uid);
    if (!this.#choseAt.has(uid)) {
      this.#choseAt.set(uid, this.#parts.monotonic());
      this.#parts.starts?.claiming(vm);
    }
    try {
      const podName = pod.metadata.name;
      const message = `the guest of pod ${podName} is being claimed`;
      const written = await choosePod(this.#parts, pass, { podName, message, effective });
      if (written !== undefined) return await this.take(pass, pod);
    } catch (error) {
      this.#parts.standbys.forget(vm.metadata.uid);
      throw error;
    }
    return { requeueAfterMs: claimAgainMs };
  }

  /** A node has room for a VM of a pool for which no guest waits: that it gets a pod of its own is written down before there is one. */
  async #withoutStandby(pass: Pass, request: PlacementRequest): Promise<ReconcileResult> {
    const { vm } = pass.observed;
    this.#parts.inventory.forget(vm.metadata.uid);
    const placement = placeLeavingOut(this.#parts.inventory, request).result;
    if (placement.kind === 'refused' && this.#parts.settings.whenFull === 'Hold')
      return this.#unschedulable(pass, request, placement.message);
    // One that has run in a guest of the pool, and lost it, asks for no guest that waits.
    const isClaim = isToRun(vm);
    const podName = podNameOf(vm.metadata.name);
    const message = isClaim
      ? 'no guest of the pool waits; the VM is deployed from its template'
      : 'the pod of the VM is gone; the VM is deployed again, from the template of its pool';
    await choosePod(this.#parts, pass, { podName, message });
    this.#choseAt.delete(vm.metadata.uid);
    if (isClaim) this.#parts.claims.claimed(`${vm.metadata.namespace}/${vm.spec.pool}`, 'cold');
    return { requeueAfterMs: claimAgainMs };
  }

  #pending(vm: Vm, conditions: Partial<ConditionDrafts>): StatusDraft {
    if (vm.status?.effective !== undefined) return pendingDraft(vm, conditions);
    return pendingDraft(vm, conditions, plannedSettings(vm, this.#parts.sources));
  }

  /** The answer wakes the VM. It is told only where it takes long, and what was said before stays. */
  #asking(pass: Pass, { message, forMs }: Asking): ReconcileResult {
    const { vm } = pass.observed;
    if (forMs < slowAnswerMs) return { requeueAfterMs: slowAnswerMs - forMs };
    if (vm.status?.conditions === undefined)
      pass.status = this.#pending(vm, { scheduled: condition('False', 'AskingRegistry', message) });
    return { requeueAfterMs: waitingMs };
  }

  #unresolved(pass: Pass, unresolved: Unresolved): ReconcileResult {
    this.#parts.inventory.forget(pass.observed.vm.metadata.uid);
    const { condition: type, reason, message, retryMs = waitingMs } = unresolved;
    const told = condition(type === 'stalled' ? 'True' : 'False', reason, message);
    pass.status = this.#pending(pass.observed.vm, { [type]: told });
    return { requeueAfterMs: retryMs };
  }

  /** Frozen once the VM has been placed, with what has changed of its spec since; before that as VMConfig and image are now. */
  #settings(vm: Vm): ReturnType<typeof resolveVm> {
    const { sources, settings } = this.#parts;
    const frozen = vm.status?.effective;
    if (frozen === undefined) return resolveVm(vm, sources);
    const another = nextMedium(vm, frozen);
    const medium = another === undefined ? undefined : pinMedium(vm, another, sources);
    if (medium !== undefined && medium.kind !== 'pinned') return medium;
    return nextSettings(vm, frozen, settings, medium?.reference);
  }

  /**
   * Synchronous from here to `assume`: nobody decides in between. A Persistent disk goes back to its node, since its
   * volume may be there only; a node that turned the pod away is the last choice. Where others have refused it, that node
   * may be the only one, with ports of it that are taken.
   */
  #place(vm: Vm, effective: EffectiveSettings, request: PlacementRequest): PlacedWithout {
    const { inventory, backoff } = this.#parts;
    const uid = vm.metadata.uid;
    inventory.forget(uid);
    const avoid = backoff.avoided(uid);
    const hasVolumes = hasClaims(effective);
    const home = hasVolumes && request.nodeName === undefined ? this.#homeOf(vm) : undefined;
    const tries: PlacementRequest[] = [
      ...(home !== undefined && !avoid.has(home) ? [{ ...request, nodeName: home }] : []),
      ...(avoid.size > 0 ? [{ ...request, avoid }] : []),
    ];
    const leavesOut = hasVolumes && backoff.refused(uid).size > 0;
    for (const one of tries) {
      const placed = leavesOut
        ? placeLeavingOut(inventory, one)
        : { result: place(inventory, one), leftOut: [] };
      if (placed.result.kind === 'placed') return this.#assume(uid, placed);
    }
    const placed = placeLeavingOut(inventory, request);
    if (placed.result.kind === 'placed') backoff.forgetNodes(uid);
    return this.#assume(uid, placed);
  }

  #assume(uid: string, placed: PlacedWithout): PlacedWithout {
    if (placed.result.kind === 'placed') this.#parts.inventory.assume(uid, placed.result.usage);
    return placed;
  }

  async #create(
    pass: Pass,
    resolved: Resolved,
    placement: PodPlacement,
    placed: Placed | undefined,
  ): Promise<ReconcileResult | void> {
    const { client, expectations, inventory, nodes } = this.#parts;
    const { vm } = pass.observed;
    const uid = vm.metadata.uid;
    let pod: Pod;
    let askedMs = 0;
    try {
      await holdVm(this.#parts, pass);
      const claim = await obtainClaims(client, vm, resolved.effective, this.#parts.settings);
      if (claim.kind !== 'own') return this.#withoutClaim(pass, claim);
      askedMs = Date.now();
      pod = await client.create(pods, this.#pod(vm, resolved, placement, askedMs));
    } catch (error) {
      // The cache is behind: its event brings us back; nothing that is there is touched.
      if (isSvc3Error(error, 'AlreadyExists')) return { requeueAfterMs: 1_000 };
      if (placed !== undefined) inventory.forget(uid);
      if (!isRefusal(error)) throw error;
      return this.#refused(pass, messageOf(error));
    }
    // The assumption ends when the cache shows the pod, which is pinned and counts from then on.
    expectations.madePod(pod);
    this.#parts.starts?.made(vm, pod, askedMs);
    const node = placement.node === undefined ? undefined : nodes.get(placement.node);
    pass.status = reportPod({ vm, pod, node, runner: undefined, ...resolved });
    return undefined;
  }

  /** Nothing under the claim's name is touched; the end of one of ours wakes this VM. */
  #withoutClaim(pass: Pass, { kind, message }: Exclude<ClaimHolder, { kind: 'own' }>): ReconcileResult {
    const { vm } = pass.observed;
    this.#parts.inventory.forget(vm.metadata.uid);
    pass.status = this.#pending(vm, claimConditions(kind, message));
    return { requeueAfterMs: claimWaitMs[kind] };
  }

  #refused(pass: Pass, message: string): ReconcileResult {
    const vm = pass.written ?? pass.observed.vm;
    pass.status = this.#pending(vm, { scheduled: condition('False', 'PodRefused', message) });
    return { requeueAfterMs: this.#parts.backoff.failed(vm.metadata.uid) };
  }

  #pod(vm: Vm, resolved: Resolved, placement: PodPlacement, madeAtMs: number): Submitted<Pod> {
    const { settings, controlKeys, kvmGroups, pullSecretVersion, sources, starts } = this.#parts;
    const { node, accelerator } = placement;
    return buildPod({
      vm,
      effective: resolved.effective,
      placement,
      settings,
      controlKeys: controlKeys(),
      kvmGroups: accelerator === 'kvm' ? kvmGroups(node) : [],
      pullSecretVersion: pullSecretVersion(vm.metadata.namespace),
      isWarm: hasMemory(vm.metadata.namespace, resolved.effective, sources),
      claimName: isPersistent(resolved.effective) ? claimNameOf(vm) : undefined,
      traceparent: starts?.traceparent(vm),
      times: { waitedSinceMs: this.#waitsSince.get(vm.metadata.uid) ?? madeAtMs, madeAtMs },
    });
  }
}

/**
 * A new VM waits since it was made, whoever led then; that is known in whole seconds, and this process more exactly in the first of them. Any
 * other one waits since this process sees that it has no pod.
 */
function waitsSince({ metadata, status }: Vm, nowMs: number): number {
  const createdMs = Date.parse(metadata.creationTimestamp ?? '');
  return status?.effective === undefined && nowMs - createdMs >= 1_000 ? createdMs : nowMs;
}

/** Whether a VM of a pool may still get a guest that waits: no pod was made for it. */
function isUnclaimed(vm: Vm): boolean {
  return isToRun(vm) && vm.status?.podName !== podNameOf(vm.metadata.name);
}

/** A VM of a pool that has never run. */
function isToRun({ spec, status }: Vm): boolean {
  return spec.pool !== undefined && spec.powerState === 'Running' && status?.powerState === undefined;
}

/** Whether a VM that knows of no pool may get one's guest: nothing has been made for it. */
function isServed({ spec, status }: Vm): boolean {
  return (
    spec.pool === undefined &&
    spec.config !== undefined &&
    spec.powerState === 'Running' &&
    spec.hostname === undefined &&
    spec.disks === undefined &&
    status?.effective === undefined &&
    status?.powerState === undefined
  );
}

function claimConditions(
  kind: Exclude<ClaimHolder['kind'], 'own'>,
  message: string,
): Partial<ConditionDrafts> {
  switch (kind) {
    case 'going':
      return { scheduled: condition('False', 'ClaimTerminating', message) };
    case 'missing':
      return { stalled: condition('True', 'ClaimNotFound', message) };
    default:
      return { stalled: condition('True', 'ClaimConflict', message) };
  }
}

const unpinned: Omit<PodPlacement, 'accelerator'> = {
  node: undefined,
  ports: {},
  requestsEphemeralStorage: true,
};

function pinned(placed: Placed, leftOut: readonly HostPort[]): PodPlacement {
  const { node, accelerator, ports, requestsEphemeralStorage } = placed;
  return { node, accelerator, ports, leftOut, requestsEphemeralStorage };
}

/** What somebody decided, in contrast to what failed: Pod Security, quota, LimitRange, webhooks, validation. */
export function isRefusal(error: unknown): boolean {
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
