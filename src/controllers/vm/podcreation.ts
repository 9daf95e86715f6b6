import { configKeyOf } from '../../api/configkey.ts';
import type { Node, Pod } from '../../api/core.ts';
import type { Image } from '../../api/image.ts';
import { pods } from '../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import type { LiveList } from '../../controller/livelists.ts';
import { isRefusal } from '../../controller/refusal.ts';
import { isSvc3Error, messageOf } from '../../errors.ts';
import type { Informer, KubeClient, ReconcileResult } from '../../kube/types.ts';
import { awaitedImages } from '../image/saves.ts';
import type { Observed, PodPlan } from './decide.ts';
import type { VmExpectations } from './expectations.ts';
import type { VmSettings } from './settings.ts';
import type { Placed, PlacementRequest } from '../../placement/place.ts';
import type { HostPort } from '../../placement/ports.ts';
import type { ClaimHolder } from './facts/claim.ts';
import { keepsSettings } from './facts/hibernation.ts';
import { isDue } from './facts/requests.ts';
import { obtainClaims } from './pod/diskclaim.ts';
import { hasFinalizer } from '../../api/finalizer.ts';
import { holdVm } from './life/finalizer.ts';
import { podNameOf } from './names.ts';
import type { NextPod } from './nextpod.ts';
import type { NodeChoice } from './nodechoice.ts';
import type { Pass } from './pass.ts';
import type { VmMemory } from './vmmemory.ts';
import { type GuestSettings, hasOwnPod, isUnchanged, mayHavePod } from './pool/claims.ts';
import type { PoolClaims } from './pool/poolclaims.ts';
import { claimedSettings, isToRun, isWithoutPod } from './facts/standby.ts';
import type { StartTraces } from './starts/starttraces.ts';
import type { PodPlacement } from './pod/pod.ts';
import { reportPod } from './status/report.ts';
import { placementRequest } from './pod/request.ts';
import { warningsWith } from './resolve/adoption.ts';
import { plannedSettings } from './resolve/planned.ts';
import { memoryToGoOnFrom } from './resolve/imagememory.ts';
import { nextMedium, nextSettings, type NextStart } from './resolve/nextsettings.ts';
import {
  type Asking,
  pinMedium,
  type Resolved,
  type ResolveSources,
  resolveVm,
  type Unresolved,
} from './resolve/resolve.ts';
import { condition, type ConditionDrafts, type StatusDraft } from './status/statusdraft.ts';
import { asleepDraft, pendingDraft, waitingDraft } from './status/pending.ts';

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

export interface PodCreationParts {
  readonly client: KubeClient;
  readonly sources: ResolveSources;
  readonly settings: VmSettings;
  readonly nodeChoice: NodeChoice;
  readonly nextPod: NextPod;
  readonly poolClaims: PoolClaims;
  readonly expectations: VmExpectations;
  readonly nodes: Pick<Informer<Node>, 'get'>;
  /** Images of a namespace as kube-apiserver has them now. */
  readonly liveImages: LiveList<Image>;
  /** Where starts are traced. */
  readonly starts: StartTraces | undefined;
}

/** Gives VMs their pods: resolve, place, assume, create; or a guest of a pool that waits. */
export class PodCreation implements VmMemory {
  readonly #parts: PodCreationParts;

  constructor(parts: PodCreationParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    const { nodeChoice, nextPod, poolClaims } = this.#parts;
    for (const part of [nodeChoice, nextPod, poolClaims]) part.forget(vmUid);
  }

  /** The runner of the VM's guest has been told whose it is. */
  noteTold(vmUid: string): void {
    this.#parts.poolClaims.noteTold(vmUid);
  }

  /** Whether this process has chosen the guest that the VM has not got yet. */
  isChosenHere(vmUid: string): boolean {
    return this.#parts.poolClaims.isChosenHere(vmUid);
  }

  /** The guest that was chosen for the VM goes. */
  noteGivenUp(vmUid: string): void {
    this.#parts.poolClaims.noteGivenUp(vmUid);
  }

  /** The VM has a pod: it does not wait for a node or for a pod any more. */
  stopWaiting(vmUid: string): void {
    this.#parts.nodeChoice.stopWaiting(vmUid);
    this.#parts.nextPod.forget(vmUid);
  }

  /** The pod of the VM lives. */
  noteAlive(vmUid: string, pod: { isBound: boolean; isReady: boolean }): void {
    this.#parts.nodeChoice.noteAlive(vmUid, pod);
    if (pod.isBound) this.#parts.poolClaims.noteBound(vmUid);
  }

  /** Whether a guest of the VM's pool waits; it is promised to the VM from now on. */
  promiseGuest(vm: Vm): boolean {
    return this.#parts.poolClaims.ofPool(vm) !== undefined;
  }

  /** The VM keeps the pod that it has. */
  releaseGuest(vmUid: string): void {
    this.#parts.poolClaims.release(vmUid);
  }

  /** Whether the VM could have a pod on another node, one that has not turned it away. */
  hasOtherNode(vm: Vm, pod: Pod): boolean {
    const { nodeChoice, settings, sources } = this.#parts;
    // It has no claim, and so no memory of a guest that is to be saved.
    const resolved = this.#settings({ vm, isSavedFirst: false });
    if (resolved.kind !== 'resolved') return false;
    const memory = memoryToGoOnFrom(vm, resolved.effective, sources);
    return nodeChoice.hasOther(vm, placementRequest(vm, resolved.effective, settings, memory), pod);
  }

  /**
   * The node that takes the VM now and cannot have the pod, for which kube-scheduler finds none; undefined where there is no such node. What a node
   * would have was only expected when the pod was made.
   */
  nodeForAnother(vm: Vm, pod: Pod, effective: EffectiveSettings): string | undefined {
    const { nodeChoice, settings, sources } = this.#parts;
    const memory = memoryToGoOnFrom(vm, effective, sources);
    const request = placementRequest(vm, effective, settings, memory);
    return nodeChoice.nodeForAnother(vm, effective, request, pod);
  }

  /** The pod cannot run on its node. */
  noteTurnedAway(vm: Vm, plan: Extract<PodPlan, { kind: 'replace' }>): void {
    this.#parts.nodeChoice.noteTurnedAway(vm, plan);
  }

  /**
   * One try; sets the status of the pass to what became of it. In this order, since each may make the next superfluous: a waiting guest where
   * the VM's own pod was refused, the backoff, a pod that the cache does not show yet, a waiting guest of the VM's pool, its settings, a waiting
   * guest with the same VMConfig, a node; where none fits, or all that fit have turned its pod away, a pod for kube-scheduler (`placement.whenFull: Pod`), or the wait for a node. Nobody gets
   * a pod for kube-scheduler because a node's hardware virtualisation is not known yet, or not ready.
   */
  async deploy(pass: Pass): Promise<ReconcileResult | void> {
    const { vm } = pass.observed;
    const { client, nodeChoice, poolClaims, settings, sources } = this.#parts;
    const uid = vm.metadata.uid;
    this.#parts.nextPod.noteWaiting(vm);
    // It was stopped before it got the guest that it was promised, which is for others then.
    if (!isToRun(vm)) poolClaims.release(uid);
    const instead = await this.#insteadOfOwn(vm);
    if (instead !== undefined) return this.#claim(pass, instead, this.#settingsWith(vm, instead));
    const waitMs = nodeChoice.waitMs(uid);
    if (waitMs > 0) {
      nodeChoice.release(uid);
      return { requeueAfterMs: waitMs };
    }
    if (await mayHavePod(client, vm)) return { requeueAfterMs: cacheLagMs };
    if (await this.#isSavedUnseen(pass)) return { requeueAfterMs: cacheLagMs };
    const waits = poolClaims.ofPoolUnclaimed(vm);
    if (waits !== undefined) return this.#claim(pass, waits, this.#settingsWith(vm, waits));
    const resolved = this.#settings(pass.observed);
    if (resolved.kind === 'asking') return this.#asking(pass, resolved);
    if (resolved.kind === 'unresolved') return this.#unresolved(pass, resolved);
    const served = isServed(vm) ? poolClaims.ofConfig(vm, resolved.effective) : undefined;
    if (served !== undefined) return this.#serve(pass, served, resolved);
    const memory = memoryToGoOnFrom(vm, resolved.effective, sources);
    const request = placementRequest(vm, resolved.effective, settings, memory);
    if (vm.spec.pool !== undefined && vm.status?.podName !== podNameOf(vm.metadata.name))
      return this.#withoutStandby(pass, request);
    const { result: placement, leftOut, unpinned } = nodeChoice.choose(vm, resolved.effective, request);
    if (unpinned !== undefined)
      return this.#create(pass, resolved, { node: undefined, ports: {}, leftOut, ...unpinned }, undefined);
    if (placement.kind === 'refused') return this.#unschedulable(pass, request, placement.message);
    return this.#create(pass, resolved, pinned(placement, leftOut), placement);
  }

  /** A guest that waits by now, for a VM of a pool whose own pod could not be made; that there is none is asked for, since it stays chosen. */
  async #insteadOfOwn(vm: Vm): Promise<Pod | undefined> {
    const { client, poolClaims } = this.#parts;
    const isRefused = isToRun(vm) && vm.status?.podName !== undefined && isWithoutPod(vm);
    const waits = isRefused ? poolClaims.ofPool(vm) : undefined;
    if (waits === undefined) return undefined;
    try {
      if (!(await hasOwnPod(client, vm))) return waits;
    } catch (error) {
      poolClaims.release(vm.metadata.uid);
      throw error;
    }
    poolClaims.release(vm.metadata.uid);
    return undefined;
  }

  #unschedulable(pass: Pass, request: PlacementRequest, told: string): ReconcileResult {
    const { vm } = pass.observed;
    this.#parts.nodeChoice.wait(pass.key, vm, { request, told });
    this.#parts.starts?.refused(vm, told);
    pass.status = this.#pending(pass, { scheduled: condition('False', 'Unschedulable', told) });
    return { requeueAfterMs: waitingMs };
  }

  /** The pod was promised to the VM, or its status names it already. A policy of the cluster may refuse what the VM's labels make of it. */
  async take(pass: Pass, pod: Pod): Promise<ReconcileResult> {
    const vm = pass.written ?? pass.observed.vm;
    try {
      await this.#parts.poolClaims.take(vm, pod);
      return { requeueAfterMs: claimAgainMs };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return this.#refused(pass, messageOf(error));
    }
  }

  /** Of a VM that names its pool; undefined where those of the guest cannot be read. */
  #settingsWith(vm: Vm, guest: Pod): GuestSettings | undefined {
    const effective = claimedSettings(vm, guest);
    if (effective === undefined) return undefined;
    return { effective, warnings: warningsWith(vm, guest, effective, this.#parts.sources) };
  }

  /** Of a VM that knows of no pool: its VMConfig is asked for beside what would be asked anyway. */
  async #serve(pass: Pass, pod: Pod, settings: GuestSettings): Promise<ReconcileResult> {
    const { client, sources, poolClaims } = this.#parts;
    const { vm } = pass.observed;
    const { name, namespace } = configKeyOf(vm) ?? { name: '', namespace: '' };
    const config = sources.vmConfig(name, namespace);
    try {
      const [hasOwn, isCurrent] = await Promise.all([
        // Nothing else tells that the previous leader has made a pod for the VM.
        hasFinalizer(vm) && hasOwnPod(client, vm),
        config !== undefined && isUnchanged(client, config),
      ]);
      if (!hasOwn && isCurrent) return await this.#claim(pass, pod, settings);
    } catch (error) {
      poolClaims.release(vm.metadata.uid);
      throw error;
    }
    poolClaims.release(vm.metadata.uid);
    return { requeueAfterMs: cacheLagMs };
  }

  /** Both writes of a claim; the runner is told in the pass that follows. */
  async #claim(pass: Pass, pod: Pod, settings: GuestSettings | undefined): Promise<ReconcileResult> {
    const { vm } = pass.observed;
    const { nodeChoice, poolClaims } = this.#parts;
    nodeChoice.release(vm.metadata.uid);
    nodeChoice.stopWaiting(vm.metadata.uid);
    poolClaims.noteChosen(vm);
    try {
      const podName = pod.metadata.name;
      const message = `the guest of pod ${podName} is being claimed`;
      const written = await poolClaims.choose(pass, { podName, message, settings });
      if (written !== undefined) return await this.take(pass, pod);
    } catch (error) {
      poolClaims.release(vm.metadata.uid);
      throw error;
    }
    return { requeueAfterMs: claimAgainMs };
  }

  /**
   * A node has room for a VM of a pool for which no guest waits, or kube-scheduler is to find one: that it gets a pod of its own is written down
   * before there is one.
   */
  async #withoutStandby(pass: Pass, request: PlacementRequest): Promise<ReconcileResult> {
    const { vm } = pass.observed;
    const { nodeChoice, poolClaims } = this.#parts;
    nodeChoice.release(vm.metadata.uid);
    const placement = nodeChoice.preview(request);
    if (placement.kind === 'refused' && nodeChoice.unpinned(request) === undefined)
      return this.#unschedulable(pass, request, placement.message);
    // One that has run in a guest of the pool, and lost it, asks for no guest that waits.
    const isClaim = isToRun(vm);
    const podName = podNameOf(vm.metadata.name);
    const message = isClaim
      ? 'no guest of the pool waits; the VM is deployed from its template'
      : 'the pod of the VM is gone; the VM is deployed again, from the template of its pool';
    await poolClaims.choose(pass, { podName, message });
    const isPlaced = placement.kind === 'placed';
    poolClaims.noteOwnPod(vm, isClaim && isPlaced);
    // Alert Svc3VMUnschedulable is silent while VMs of the pool get nodes: one that waits for a node too is no such VM.
    if (isClaim && !isPlaced) poolClaims.noteLeftToScheduler(vm);
    return { requeueAfterMs: claimAgainMs };
  }

  /** The status of a VM whose guest's memory is on its claim, with the changes that wait until it has gone on. */
  asleep(vm: Vm): StatusDraft {
    return this.#withWaiting(vm, asleepDraft(vm), {});
  }

  #pending({ written, observed }: Pass, conditions: Partial<ConditionDrafts>): StatusDraft {
    const vm = written ?? observed.vm;
    const { isSavedFirst } = observed;
    const { effective } = vm.status ?? {};
    const plan = effective === undefined ? plannedSettings(vm, this.#parts.sources) : undefined;
    return this.#withWaiting(vm, pendingDraft(vm, conditions, { plan, isSavedFirst }), { isSavedFirst });
  }

  #withWaiting(vm: Vm, draft: StatusDraft, next: NextStart): StatusDraft {
    const frozen = vm.status?.effective;
    if (frozen === undefined) return draft;
    return waitingDraft(draft, nextSettings(vm, frozen, this.#parts.settings, next));
  }

  /** The answer wakes the VM. It is told only where it takes long, and what was said before stays. */
  #asking(pass: Pass, { message, forMs }: Asking): ReconcileResult {
    const { vm } = pass.observed;
    if (forMs < slowAnswerMs) return { requeueAfterMs: slowAnswerMs - forMs };
    if (vm.status?.conditions === undefined)
      pass.status = this.#pending(pass, { scheduled: condition('False', 'AskingRegistry', message) });
    return { requeueAfterMs: waitingMs };
  }

  #unresolved(pass: Pass, unresolved: Unresolved): ReconcileResult {
    this.#parts.nodeChoice.release(pass.observed.vm.metadata.uid);
    const { condition: type, reason, message, retryMs = waitingMs } = unresolved;
    const told = condition(type === 'stalled' ? 'True' : 'False', reason, message);
    pass.status = this.#pending(pass, { [type]: told });
    return { requeueAfterMs: retryMs };
  }

  /** Frozen once the VM has been placed, with what has changed of its spec since; before that as VMConfig and image are now. */
  #settings({ vm, isSavedFirst }: Pick<Observed, 'vm' | 'isSavedFirst'>): ReturnType<typeof resolveVm> {
    const { sources, settings } = this.#parts;
    const frozen = vm.status?.effective;
    if (frozen === undefined) return resolveVm(vm, sources);
    const another = nextMedium(vm, frozen, { isSavedFirst });
    const medium = another === undefined ? undefined : pinMedium(vm, another, sources);
    if (medium !== undefined && medium.kind !== 'pinned') return medium;
    return nextSettings(vm, frozen, settings, { pinnedIso: medium?.reference, isSavedFirst });
  }

  /**
   * Whether kube-apiserver has Images that a revert waits for, and the cache does not show them yet: the guest could not go on from its memory in the pod
   * that would be made.
   */
  async #isSavedUnseen({ observed: { vm, isSavedFirst } }: Pass): Promise<boolean> {
    if (isSavedFirst || !isDue(vm, 'revertRequest') || !keepsSettings(vm, true)) return false;
    return awaitedImages(vm, await this.#parts.liveImages(vm.metadata.namespace)).length > 0;
  }

  async #create(
    pass: Pass,
    resolved: Resolved,
    placement: PodPlacement,
    placed: Placed | undefined,
  ): Promise<ReconcileResult | void> {
    const { client, expectations, nextPod, nodeChoice, nodes } = this.#parts;
    const { vm, isSavedFirst } = pass.observed;
    const uid = vm.metadata.uid;
    let pod: Pod;
    let askedMs = 0;
    try {
      await holdVm(this.#parts, pass);
      const claim = await obtainClaims(client, vm, resolved.effective, this.#parts.settings);
      if (claim.kind !== 'own') return this.#withoutClaim(pass, claim);
      askedMs = Date.now();
      pod = await client.create(pods, nextPod.of(vm, resolved, placement, askedMs));
    } catch (error) {
      // The cache is behind: its event brings us back; nothing that is there is touched.
      if (isSvc3Error(error, 'AlreadyExists')) return { requeueAfterMs: 1_000 };
      if (placed !== undefined) nodeChoice.release(uid);
      if (!isRefusal(error)) throw error;
      return this.#refused(pass, messageOf(error));
    }
    // The assumption ends when the cache shows the pod, which is pinned and counts from then on.
    expectations.madePod(pod);
    this.#parts.starts?.made(vm, pod, askedMs);
    this.#countUnserved(vm, resolved, placed !== undefined);
    const node = placement.node === undefined ? undefined : nodes.get(placement.node);
    pass.status = reportPod({ vm, pod, node, runner: undefined, isSavedFirst, ...resolved });
    return undefined;
  }

  /** A VM that a pool would have served is a cold start of that pool: by these pools are scaled. Its settings are frozen now: no later pod of it is one. */
  #countUnserved(vm: Vm, { effective }: Resolved, isPlaced: boolean): void {
    const { poolClaims, sources } = this.#parts;
    const pool = isServed(vm) ? poolClaims.poolOfConfig(vm, effective, sources) : undefined;
    if (pool !== undefined) poolClaims.madeUnserved(vm, pool, isPlaced);
  }

  /** Nothing under the claim's name is touched; the end of one of ours wakes this VM. */
  #withoutClaim(pass: Pass, { kind, message }: Exclude<ClaimHolder, { kind: 'own' }>): ReconcileResult {
    const { vm } = pass.observed;
    this.#parts.nodeChoice.release(vm.metadata.uid);
    pass.status = this.#pending(pass, claimConditions(kind, message));
    return { requeueAfterMs: claimWaitMs[kind] };
  }

  #refused(pass: Pass, message: string): ReconcileResult {
    pass.status = this.#pending(pass, { scheduled: condition('False', 'PodRefused', message) });
    return { requeueAfterMs: this.#parts.nodeChoice.failed(pass.observed.vm.metadata.uid) };
  }
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

function pinned(placed: Placed, leftOut: readonly HostPort[]): PodPlacement {
  const { node, accelerator, ports, requestsEphemeralStorage } = placed;
  return { node, accelerator, ports, leftOut, requestsEphemeralStorage };
}
