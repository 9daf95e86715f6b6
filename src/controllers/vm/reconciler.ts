import { longestMessage } from '../../api/condition.ts';
import type { Pod } from '../../api/core.ts';
import { conditionTypes } from '../../api/reasons.ts';
import { pods, vms } from '../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import { findCondition } from '../../controller/conditions.ts';
import { Failures } from '../../controller/failures.ts';
import { ignoring } from '../../controller/ignoring.ts';
import { isRefusal } from '../../controller/refusal.ts';
import { messageOf, shortened } from '../../errors.ts';
import type { EventRecorder, KubeClient, ReconcileResult } from '../../kube/types.ts';
import { decide, type Observed, type Plan, type PodPlan, type ReplaceReason } from './decide.ts';
import type { VmExpectations } from './expectations.ts';
import { endGuest, type HoldPlan, letGo, stillWanted } from './life/deletion.ts';
import { holdVm } from './life/finalizer.ts';
import { RevertHolds } from './life/revertholds.ts';
import { expired, expiryPollMs } from './life/expiry.ts';
import type { LiveList } from '../../controller/livelists.ts';
import { isPodOf } from './facts/ownpod.ts';
import { waitsForGuest } from './facts/standby.ts';
import { untilSlowMs } from './facts/unprepared.ts';
import { startDeadline } from './facts/startdeadline.ts';
import { isUntaken } from './facts/unbound.ts';
import { observe, type ObserverParts } from './observe.ts';
import type { Pass } from './pass.ts';
import type { RunnerObservation, Runners } from './runner/runners.ts';
import type { VmMemory } from './vmmemory.ts';
import { disposeOfNewDisk, keepNewDisks } from './life/disposal.ts';
import { decideKept, dependsOnImages, holdFor, type Kept, needsNewPod } from './kept.ts';
import { settingsInForce } from './resolve/adoption.ts';
import type { Resolved } from './resolve/resolve.ts';
import { isBeingSuspendedToDisk, isSuspendedInMemory } from './facts/hibernation.ts';
import { renewControlKeys } from './pod/controlkeys.ts';
import type { LabelRenewal } from './pod/labelrenewal.ts';
import { type ClaimGrowth, type ClaimRoom, isClaimTooSmall } from './pod/claimgrowth.ts';
import {
  bootableSettings,
  fieldsWithoutRoom,
  type PodResize,
  type PodRoom,
  roomPollMs,
} from './pod/podresize.ts';
import { isPodReady } from './facts/podstate.ts';
import type { PodCreation } from './podcreation.ts';
import { pollMs, suspendedPollMs } from './runner/runnerlinks.ts';
import { pendingDraft } from './status/pending.ts';
import { planStatus } from './status/planstatus.ts';
import { reportPod } from './status/report.ts';
import { condition, type ConditionDraft, draftAsBefore, type StatusDraft } from './status/statusdraft.ts';
import type { StartTraces } from './starts/starttraces.ts';
import type { StatusWriter } from './status/statuswriter.ts';
import { typed } from './typed.ts';
import type { Image } from '../../api/image.ts';
import { isBeingSaved } from '../image/saves.ts';

/** What kube-apiserver has and the cache does not is looked for again, in milliseconds: its event may be under way. */
const cacheLagMs = 1_000;

/**
 * How often the runner of a guest that does not answer yet is asked, in milliseconds. That the guest is ready comes from the kubelet at
 * once; a crash before that is known to the runner alone. Seldom, because a port that is checked may stay closed for ever.
 */
const guestPollMs = 15_000;

/** Where nobody has answered at the port of a guest that waited for so long, in milliseconds, its VM gets a pod of its own (docs/pools.md). */
export const unmetMs = 120_000;

/** A VM whose pod no node takes looks again whether a guest of its pool waits, or a node is there for another pod, in milliseconds. */
const untakenMs = 60_000;

/** Somebody else's pod has the name: no event of it wakes the VM, which looks again after so many milliseconds. */
const conflictMs = 30_000;

/** A deletion that kube-apiserver refuses is tried again after so many milliseconds. */
const refusedMs = 60_000;

/** Why a pod goes that its node does not run. */
const ofNode: ReadonlySet<ReplaceReason> = new Set(['RejectedByNode', 'Unschedulable', 'PodNotPrepared']);

/**
 * Plans for a VM that may have disks and whose pod is not looked after. One that lives is held when that has been done (`#keep`), and the claim of a
 * guest waits for nothing.
 */
const withoutPod: ReadonlySet<PodPlan['kind']> = new Set(['deploy', 'asleep', 'conflict', 'wait']);

export interface VmReconcilerParts {
  readonly client: KubeClient;
  readonly recorder: EventRecorder;
  readonly observer: ObserverParts;
  readonly podCreation: PodCreation;
  readonly claimGrowth: ClaimGrowth;
  readonly podResize: PodResize;
  readonly labelRenewal: LabelRenewal;
  readonly runners: Runners | undefined;
  /** Where starts are traced. */
  readonly starts: StartTraces | undefined;
  readonly expectations: VmExpectations;
  readonly status: StatusWriter;
  /** Images of a namespace as kube-apiserver has them now. */
  readonly liveImages: LiveList<Image>;
  /** Public halves of the control keys, for the pods' annotation. */
  controlKeys(): string;
  /** Wall clock, for deadlines. */
  now(): Date;
}

/** One pass over one VM: observe, decide, act, report. */
export class VmReconciler {
  readonly #parts: VmReconcilerParts;
  readonly #memories: readonly VmMemory[];
  readonly #revertHolds: RevertHolds;
  /** UID of the VM seen last, by key: one that was deleted and made again shares nothing but the name. */
  readonly #uids = new Map<string, string>();

  constructor(parts: VmReconcilerParts) {
    const { podCreation, claimGrowth, podResize, labelRenewal, runners, starts, expectations } = parts;
    this.#parts = parts;
    this.#revertHolds = new RevertHolds(parts);
    this.#memories = [
      this.#revertHolds,
      podCreation,
      claimGrowth,
      podResize,
      labelRenewal,
      expectations,
      ...(runners === undefined ? [] : [runners]),
      ...(starts === undefined ? [] : [starts]),
    ];
  }

  async reconcile(key: string): Promise<ReconcileResult | void> {
    const observed = observe(this.#parts.observer, key);
    this.#remember(key, observed?.vm.metadata.uid);
    if (observed === undefined) return undefined;
    const plan = decide(observed);
    const pass: Pass = { key, observed, status: undefined };
    let statusAfterMs: number | undefined;
    let result: ReconcileResult | void;
    try {
      if (observed.surplus !== undefined) await this.#delete(observed.surplus);
      result = await this.#act(pass, plan);
    } finally {
      statusAfterMs = await this.#report(pass);
    }
    this.#parts.starts?.observe(pass);
    return soonest(result?.requeueAfterMs, statusAfterMs, deadlineMs(observed, plan));
  }

  async #report({ observed, written, status }: Pass): Promise<number | undefined> {
    const { vm, pod } = observed;
    return status === undefined ? undefined : this.#parts.status.report(written ?? vm, pod, status);
  }

  /** @param uid - undefined: there is no VM of this key */
  #remember(key: string, uid: string | undefined): void {
    const known = this.#uids.get(key);
    if (known !== undefined && known !== uid) this.#forget(known);
    if (uid === undefined) this.#uids.delete(key);
    else this.#uids.set(key, uid);
  }

  #forget(vmUid: string): void {
    for (const memory of this.#memories) memory.forget(vmUid);
  }

  async #act(pass: Pass, plan: Plan): Promise<ReconcileResult | void> {
    const { vm } = pass.observed;
    switch (plan.kind) {
      case 'finalize':
        return this.#finalize(pass, plan);
      case 'hold':
        return this.#hold(pass, plan);
      case 'end': {
        const hold = await stillWanted(this.#parts, vm, plan);
        if (hold !== undefined) return this.#hold(pass, hold);
        if (!this.#shutDownFirst(pass, plan)) return undefined;
        return this.#end(pass, plan);
      }
      case 'ending':
        // Whoever deletes with `--cascade=foreground` has the pod ended by Kubernetes.
        this.#shutDownFirst(pass, plan);
        return undefined;
      case 'expire': {
        const over = await expired(pass.key, pass.observed, this.#parts);
        return over === undefined ? this.#actOnPod(pass, plan.otherwise) : this.#expire(over, plan.message);
      }
      default:
        return this.#actOnPod(pass, plan);
    }
  }

  /**
   * Has the runner shut the guest down where the end of the pod would suspend it, or wait for a memory that is being written: nobody reads that
   * again, and a disk that is kept is whole only after a shutdown. Returns whether that is over, or need not be.
   */
  #shutDownFirst(
    { key, observed }: Pass,
    { pod, settings }: Extract<Plan, { kind: 'end' | 'ending' }>,
  ): boolean {
    const { vm } = observed;
    if (settings?.effective.onEviction !== 'Suspend' && !isBeingSuspendedToDisk(vm)) return true;
    return this.#parts.runners?.shutDown(key, vm, pod) !== false;
  }

  async #actOnPod(pass: Pass, plan: PodPlan): Promise<ReconcileResult | void> {
    const { podCreation, podResize } = this.#parts;
    const { metadata, status } = pass.observed.vm;
    const { uid } = metadata;
    // Whoever replaces the whole object (`kubectl replace`) takes our finalizer away: its disks would stay, whatever it says of them.
    if (withoutPod.has(plan.kind) && status?.effective !== undefined) await holdVm(this.#parts, pass);
    if (plan.kind === 'deploy') podResize.dropRequest(uid);
    else podCreation.stopWaiting(uid);
    switch (plan.kind) {
      case 'conflict':
        pass.status = planStatus(pass.observed, plan);
        return { requeueAfterMs: conflictMs };
      case 'wait':
        // The pod's end wakes this VM.
        pass.status = planStatus(pass.observed, plan);
        return undefined;
      case 'replace':
        return this.#replace(pass, plan);
      case 'deploy':
        return podCreation.deploy(pass);
      case 'asleep':
        podCreation.forget(uid);
        pass.status = podCreation.asleep(pass.observed.vm);
        return undefined;
      case 'release':
        return this.#release(pass, plan.pod);
      case 'take':
        // The status of the VM names the pod, which is still the pool's: whoever wrote that did not get further.
        return podCreation.take(pass, plan.pod);
      case 'claim':
        return this.#claim(pass, plan);
      default: {
        const failures = new Failures();
        const result = await this.#keep(pass, plan, failures);
        failures.throwFirst();
        return result;
      }
    }
  }

  async #end(pass: Pass, plan: Extract<Plan, { kind: 'end' }>): Promise<ReconcileResult | void> {
    const { vm } = pass.observed;
    try {
      await endGuest(this.#parts, plan);
      return undefined;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const message = `pod ${plan.pod.metadata.name} may not be deleted: ${messageOf(error)}; allow it`;
      return this.#stay(pass, 'PodNotDeleted', message, (ready) => draftAsBefore(vm.status, ready));
    }
  }

  async #finalize(
    pass: Pass,
    { isHeld, endsAt }: Extract<Plan, { kind: 'finalize' }>,
  ): Promise<ReconcileResult | void> {
    const { vm, pod, unsaved } = pass.observed;
    const hasPod = pod !== undefined && isPodOf(pod, vm);
    const seen = { hasFinalizer: isHeld, hasPod, unsaved, endsAt };
    try {
      if (!(await letGo(this.#parts, vm, seen))) return { requeueAfterMs: cacheLagMs };
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return this.#stay(pass, 'DiskNotDeleted', messageOf(error), (ready) => pendingDraft(vm, { ready }));
    }
    this.#forget(vm.metadata.uid);
    return undefined;
  }

  /** Somebody has to act before the VM can go, of which no event may tell. */
  #stay(
    pass: Pass,
    reason: 'PodNotDeleted' | 'DiskNotDeleted',
    why: string,
    statusWith: (ready: ConditionDraft) => StatusDraft,
  ): ReconcileResult {
    const { vm } = pass.observed;
    const message = shortened(why, longestMessage);
    const before = findCondition(vm.status?.conditions, conditionTypes.ready);
    if (before?.reason !== 'Terminating' || before.message !== message)
      this.#parts.recorder.event(typed(vm), { type: 'Warning', reason, message });
    pass.status = statusWith(condition('False', 'Terminating', message));
    return { requeueAfterMs: refusedMs };
  }

  /** The guest runs on while its VM is held, and its status stays current: the Image controller finds the runner by it. */
  async #hold(
    pass: Pass,
    { pod, settings, message, leftMs }: HoldPlan,
  ): Promise<ReconcileResult | undefined> {
    const { key, observed } = pass;
    const { vm, node, unprepared } = observed;
    const ready = condition('False', 'Terminating', message);
    if (settings === undefined) pass.status = pendingDraft(vm, { ready });
    else {
      const runner = this.#parts.runners?.observe(key, vm, pod);
      const status = reportPod({ vm, pod, node, runner, unprepared, ...settings });
      const { stalled: _stalled, ...others } = status.conditions;
      pass.status = { ...status, conditions: { ...others, ready }, reconciling: true };
    }
    await renewControlKeys(this.#parts.client, pod, this.#parts.controlKeys());
    return soonest(leftMs, unprepared && untilSlowMs(unprepared));
  }

  /** Exactly the VM that was proven never to have run; who changed it meanwhile may have given it more time. */
  async #expire(vm: Vm, message: string): Promise<void> {
    const { client, recorder } = this.#parts;
    const { name, namespace, uid } = vm.metadata;
    try {
      const { resourceVersion } = (await disposeOfNewDisk(client, vm)).metadata;
      await ignoring(['NotFound'], client.delete(vms, { name, namespace }, { uid, resourceVersion }));
    } catch (error) {
      // It may run after all, and keeps its disks then.
      await keepNewDisks(client, vm, () => client.get(vms, name, namespace)).catch(() => undefined);
      throw error;
    }
    this.#parts.starts?.expired(vm);
    recorder.event(typed(vm), { type: 'Warning', reason: 'StartDeadlineExceeded', message });
  }

  async #replace(pass: Pass, plan: Extract<PodPlan, { kind: 'replace' }>): Promise<void> {
    const { podCreation, expectations } = this.#parts;
    if (expectations.isDeleted(plan.pod)) return;
    await this.#delete(plan.pod);
    if (ofNode.has(plan.reason)) podCreation.noteTurnedAway(pass.observed.vm, plan);
    pass.status = planStatus(pass.observed, plan);
  }

  /** The pod is the VM's; its runner is told, as often as it takes. The last write of a claim says that the VM runs. */
  async #claim(pass: Pass, plan: Extract<PodPlan, { kind: 'claim' }>): Promise<ReconcileResult | void> {
    const { pod, settings } = plan;
    const { vm, node } = pass.observed;
    const { runners, expectations } = this.#parts;
    if (expectations.isDeleted(pod)) return undefined;
    if (runners === undefined) {
      pass.status = reportPod({ vm, pod, node, runner: undefined, ...settings });
      return undefined;
    }
    // Before another try is begun, which might tell the guest.
    if ((runners.unmetMs(vm, pod) ?? 0) >= unmetMs && (await this.#isUntold(pass.observed, pod)))
      return this.#giveUp(pass, pod);
    await renewControlKeys(this.#parts.client, pod, this.#parts.controlKeys());
    const answer = runners.claim(pass.key, vm, pod, settings.effective);
    if (answer.kind === 'claimed') {
      this.#parts.podCreation.noteTold(vm.metadata.uid);
      pass.runner = answer.runner;
      pass.status = reportPod({ vm, pod, node, runner: answer.runner, ...settings });
      return undefined;
    }
    if (answer.kind === 'refused')
      return this.#replace(pass, {
        kind: 'replace',
        pod,
        reason: 'RejectedByNode',
        node: undefined,
        message: `pod ${pod.metadata.name} cannot be claimed: ${answer.message}`,
      });
    if (answer.message !== undefined) {
      const { fields, conditions } = pendingDraft(vm, {
        ready: condition('False', 'Claiming', answer.message),
      });
      pass.status = { fields, conditions, reconciling: true };
    }
    return { requeueAfterMs: pollMs };
  }

  /**
   * Whether the guest provably knows of no VM: only this process could have told it, and has met nobody there. Another one that leads by now would have
   * written it down. On a node that does not answer nothing would end it.
   */
  async #isUntold({ vm, isNodeLost }: Observed, pod: Pod): Promise<boolean> {
    const { namespace, name, uid } = vm.metadata;
    if (isNodeLost || !this.#parts.podCreation.isChosenHere(uid)) return false;
    const now = await ignoring(['NotFound'], this.#parts.client.get(vms, name, namespace));
    return now?.metadata.uid === uid && now.status?.runner?.podUid !== pod.metadata.uid;
  }

  /** The guest goes, and the VM is deployed as if none had waited, once it has gone. */
  async #giveUp(pass: Pass, pod: Pod): Promise<void> {
    const { podCreation, recorder } = this.#parts;
    const { vm } = pass.observed;
    const message = `nobody answers in pod ${pod.metadata.name}, whose guest was claimed; the VM is deployed anew: let network policies allow port 8443 from svc3`;
    await this.#replace(pass, { kind: 'replace', pod, reason: 'Unreached', node: undefined, message });
    podCreation.noteGivenUp(vm.metadata.uid);
    recorder.event(typed(vm), { type: 'Warning', reason: 'StandbyUnreachable', message });
  }

  /** What the VM has elsewhere while its pod has not got anywhere: a guest of its pool, or a node for another pod. */
  #elsewhere(
    vm: Vm,
    { pod, settings: { effective }, elsewhere }: Extract<PodPlan, { kind: 'report' }>,
  ): 'waitingGuest' | Extract<PodPlan, { kind: 'replace' }> | undefined {
    const { podCreation } = this.#parts;
    const { name } = pod.metadata;
    const replace = { kind: 'replace', pod } as const;
    if (elsewhere !== undefined && podCreation.hasOtherNode(vm, pod))
      return { ...replace, reason: 'PodNotPrepared', node: pod.spec.nodeName, message: elsewhere };
    if (!isUntaken(pod)) return undefined;
    if (waitsForGuest(vm) && podCreation.promiseGuest(vm)) return 'waitingGuest';
    const node = podCreation.nodeForAnother(vm, pod, effective);
    if (node === undefined) return undefined;
    const message = `node ${node} takes the VM, and has not the hardware or the ports that pod ${name} asks for: it gets another one`;
    return { ...replace, reason: 'Changed', node: undefined, message };
  }

  /**
   * The pod stays: its size, claim, labels and keys follow the VM, its runner is asked and told what is due, and the answer becomes the status.
   * It goes only where the guest's memory is on its claim, where the next start of the guest needs another pod, where its node does not prepare it and another
   * node takes the VM, or where no node takes it and a guest of the VM's pool waits, or another pod would have a node.
   *
   * @param failures - those of sizes, keys and labels: what they are to be can wait, and the runner is asked all the same
   */
  async #keep(
    pass: Pass,
    plan: Extract<PodPlan, { kind: 'report' }>,
    failures: Failures,
  ): Promise<ReconcileResult | void> {
    const { pod, settings, lookAgainMs } = plan;
    const { expectations, podResize, runners } = this.#parts;
    const { vm, claim } = pass.observed;
    if (expectations.isDeleted(pod)) return undefined;
    const elsewhere = this.#elsewhere(vm, plan);
    if (elsewhere === 'waitingGuest') return this.#giveWay(vm, pod);
    if (elsewhere !== undefined) return this.#replace(pass, elsewhere);
    const { waiting = [], effective } = settings;
    const isRenewed = needsNewPod(settings);
    const room = await failures.attempt(podResize.provide(vm, pod, settings), { kind: 'underway' });
    const dataRoom = await failures.attempt(this.#growData(vm, waiting), { againMs: pollMs });
    const dataHold = holdFor(dataRoom);
    const revertHold = await this.#revertHolds.of({ vm, pod, effective });
    const runner = runners?.observe(pass.key, vm, pod, {
      revertHold,
      isHeld: isRenewed || room.kind === 'underway',
      isStoppedFirst: isRenewed && dataHold === undefined && (await this.#isStoppedFirst(vm, effective)),
      isDiskHeld: isClaimTooSmall(vm, claim),
      settings: bootableSettings(settings, room),
    });
    pass.runner = runner;
    const facts = { vm, effective, waiting, runner, revertHold, dataHold };
    const kept = decideKept(facts, dependsOnImages(facts) && (await this.#isBeingSaved(vm)));
    switch (kept.kind) {
      case 'release':
        return this.#release(pass, pod);
      case 'newPod': {
        const { message } = kept;
        return this.#replace(pass, { kind: 'replace', pod, reason: 'Restarting', node: undefined, message });
      }
      default: {
        const startsAfter = revertHold?.message ?? kept.startsAfter;
        const waitsForSave = kept.waitsForSave || revertHold !== undefined;
        const staying = { pod, settings, room, dataRoom, startsAfter, waitsForSave };
        const keptMs = await this.#stayWith(pass, staying, failures);
        // A guest that comes to wait wakes only a few of those who wait for one.
        return soonest(keptMs, lookAgainMs, isUntaken(pod) ? untakenMs : undefined);
      }
    }
  }

  /**
   * Says what the runner has answered, and has what belongs to the pod follow the VM.
   *
   * @returns after how many milliseconds the VM is to be looked at again; undefined where events tell everything
   */
  async #stayWith(
    pass: Pass,
    { pod, settings, room, dataRoom, startsAfter, waitsForSave }: Staying,
    failures: Failures,
  ): Promise<number | undefined> {
    const { claimGrowth, podCreation, labelRenewal, observer } = this.#parts;
    const { runner } = pass;
    const { vm, node, claim, unprepared, isSavedFirst } = pass.observed;
    const inForce =
      runner?.booted === undefined ? settings : settingsInForce(vm, pod, runner.booted, observer.sources);
    const resizeRefusal =
      room.kind === 'refused' ? { fields: fieldsWithoutRoom(settings), message: room.message } : undefined;
    const status = withDataRefusal(
      reportPod({ vm, pod, node, runner, unprepared, ...inForce, resizeRefusal, startsAfter, isSavedFirst }),
      dataRoom,
    );
    pass.status = status;
    const growth = await failures.attempt(claimGrowth.grow(vm, claim), {});
    const diskGrowth = growth.refusal ?? growth.delay;
    if (diskGrowth !== undefined) pass.status = { ...status, fields: { ...status.fields, diskGrowth } };
    // A VM that an earlier version deployed has no finalizer yet.
    await holdVm(this.#parts, pass);
    const keys = renewControlKeys(this.#parts.client, pod, this.#parts.controlKeys());
    await failures.attempt(keys, undefined);
    const labels = await failures.attempt(labelRenewal.renew(vm, pod), {});
    pass.status = withWarning(pass.status, labels.warning);
    const isReady = status.conditions.ready.status === 'True';
    podCreation.noteAlive(vm.metadata.uid, { isBound: pod.spec.nodeName !== undefined, isReady });
    const askMs = runner === undefined ? undefined : askAfterMs(runner, pod, status);
    // No event of a VM tells that the image is made.
    const imageMs = waitsForSave ? pollMs : undefined;
    const againMs = [growth.againMs, dataRoom.againMs, labels.againMs];
    return soonestMs(askMs, roomPollMs(room), ...againMs, imageMs);
  }

  /** The next pass has the VM claim the guest that it was promised. Its status stays: by that it is a VM that waits for one. */
  async #giveWay(vm: Vm, pod: Pod): Promise<void> {
    try {
      await this.#delete(pod);
    } catch (error) {
      this.#parts.podCreation.releaseGuest(vm.metadata.uid);
      throw error;
    }
  }

  /** Its pod goes for a larger data disk only where the next one can have it: a guest that runs would end for nothing. */
  async #growData(vm: Vm, waiting: readonly string[]): Promise<ClaimRoom> {
    const { claimGrowth, observer } = this.#parts;
    if (!waiting.includes('disks')) return {};
    return claimGrowth.growData(vm, (name) => observer.claims.get(name, vm.metadata.namespace));
  }

  /** Whether the guest is to be shut down before its pod ends, which would suspend it, for a restart in another one. */
  async #isStoppedFirst(vm: Vm, effective: EffectiveSettings): Promise<boolean> {
    const { restartRequest } = vm.spec;
    const isAsked = restartRequest !== undefined && restartRequest !== vm.status?.restartRequest;
    return effective.onEviction === 'Suspend' && isAsked && !(await this.#isBeingSaved(vm));
  }

  /** What is made of its disk is in the pod until it is in the store. The cache may not know of it yet. */
  async #isBeingSaved(vm: Vm): Promise<boolean> {
    const { observer, liveImages } = this.#parts;
    const { namespace } = vm.metadata;
    return isBeingSaved(vm, observer.images(namespace)) || isBeingSaved(vm, await liveImages(namespace));
  }

  /** The guest's memory is on its claim, and the status says so: the pod goes, which is neither a change of status nor an Event. */
  async #release(pass: Pass, pod: Pod): Promise<void> {
    if (this.#parts.expectations.isDeleted(pod)) return;
    await this.#delete(pod);
    pass.status = this.#parts.podCreation.asleep(pass.observed.vm);
  }

  /**
   * Exactly the pod that was seen: one that was bound meanwhile, or whose guest goes on again, stays, and nothing is said of it.
   *
   * @throws Svc3Error Conflict for another
   */
  async #delete(pod: Pod): Promise<void> {
    const { client, expectations } = this.#parts;
    const { name, namespace, uid, resourceVersion } = pod.metadata;
    await ignoring(['NotFound'], client.delete(pods, { name, namespace }, { uid, resourceVersion }));
    expectations.deletedPod(pod);
  }
}

/** Milliseconds after which the runner is asked again; undefined where events tell everything. */
function askAfterMs(
  { isPending }: RunnerObservation,
  pod: Pod,
  { conditions: { ready }, fields, reconciling }: StatusDraft,
): number | undefined {
  // A guest that ends before its pod has become ready changes no readiness: only its runner can tell.
  const isPodAsGuest = isPodReady(pod) === (fields.powerState === 'Running');
  const isToBeAsked = ready.status === 'True' ? !isPodAsGuest || isPending : reconciling;
  if (!isToBeAsked) return isSuspendedInMemory(fields) ? suspendedPollMs : undefined;
  return ready.reason === 'GuestNotReady' ? guestPollMs : pollMs;
}

/** As of cpu and memory that the pod has no room for: the guest runs on with the disks that it has. */
function withDataRefusal(status: StatusDraft, { refusal }: ClaimRoom): StatusDraft {
  const { restartRequired } = status.conditions;
  if (refusal === undefined || restartRequired === undefined) return status;
  const message = `${restartRequired.message}; not before the claims of its data disks may grow: ${refusal}`;
  const refused = condition('True', 'ResizeRefused', message);
  return { ...status, conditions: { ...status.conditions, restartRequired: refused } };
}

function withWarning(status: StatusDraft, warning: string | undefined): StatusDraft {
  if (warning === undefined) return status;
  const warnings = [...(status.fields.warnings ?? []), warning];
  return { ...status, fields: { ...status.fields, warnings } };
}

/** What a pass has found out of a pod that stays, and why its guest is not started, or its disk not reverted, yet. */
interface Staying extends Omit<Extract<Kept, { kind: 'stay' }>, 'kind'> {
  readonly pod: Pod;
  readonly settings: Resolved;
  readonly room: PodRoom;
  readonly dataRoom: ClaimRoom;
}

function soonest(...times: (number | undefined)[]): ReconcileResult | undefined {
  const requeueAfterMs = soonestMs(...times);
  return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
}

function soonestMs(...times: (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** Milliseconds until the start deadline is to be looked at; undefined where the VM has none any more. */
function deadlineMs({ vm, now }: Observed, plan: Plan): number | undefined {
  const deadline = startDeadline(vm);
  if (deadline === undefined || vm.metadata.deletionTimestamp !== undefined) return undefined;
  if (now < deadline) return deadline - now;
  return plan.kind === 'expire' ? expiryPollMs : undefined;
}
