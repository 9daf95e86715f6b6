import type { Node, Pod } from '../../api/core.ts';
import { annotations } from '../../api/meta.ts';
import { isOwnedBy } from '../../api/owner.ts';
import { persistentVolumeClaims, pods, vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { isSvc3Error, messageOf } from '../../errors.ts';
import { unsavedImages } from '../image/saves.ts';
import type { ReconcileResult } from '../../kube/types.ts';
import { nodeOf } from '../../placement/podfacts.ts';
import { settingsOfPod } from './resolve/adoption.ts';
import { grownStorage } from './pod/claim.ts';
import { decide, savingMessage, type Observed, type Plan, type PodPlan } from './decide.ts';
import { PodCreation, quickStartMs } from './podcreation.ts';
import { expired, expiryPollMs } from './life/expiry.ts';
import { hold, setFinalizers } from './life/finalizer.ts';
import { ignoring } from './ignoring.ts';
import { podNameOf } from './names.ts';
import type { VmReconcilerParts } from './parts.ts';
import { isLost, isPodReady } from './pod/podstate.ts';
import { reportPod } from './status/report.ts';
import { pollMs } from './runner/runnerlinks.ts';
import { startDeadline } from './life/startdeadline.ts';
import { condition } from './status/statusdraft.ts';
import { pendingDraft, StatusWriter, typed } from './status/statuswriter.ts';

/** A start that takes longer than this shows how far it is. */
const slowStartMs = 10_000;

/** What kube-apiserver has and the cache does not is looked for again, in milliseconds: its event may be under way. */
const cacheLagMs = 1_000;

/** One pass over one VM: observe, decide, act, report. */
export class VmReconciler {
  readonly #parts: VmReconcilerParts;
  readonly #status: StatusWriter;
  readonly #deployment: PodCreation;
  readonly #uids = new Map<string, string>();
  /** Sizes of claims that were asked for, by VM: until the cache shows them, and once where they are refused. */
  readonly #grown = new Map<string, string>();

  constructor(parts: VmReconcilerParts) {
    this.#parts = parts;
    this.#status = new StatusWriter(parts);
    this.#deployment = new PodCreation(parts, this.#status);
  }

  async reconcile(key: string): Promise<ReconcileResult | void> {
    const observed = this.#observe(key);
    if (observed === undefined) {
      this.#forget(key);
      return;
    }
    const plan = decide(observed);
    const result = await this.#act(key, observed, plan);
    return withDeadline(result, observed, plan);
  }

  #observe(key: string): Observed | undefined {
    const { expectations, images, settings, pullSecretVersion, now } = this.#parts;
    const slash = key.indexOf('/');
    const namespace = key.slice(0, slash);
    const cached = this.#parts.vms.get(key.slice(slash + 1), namespace);
    if (cached === undefined) return undefined;
    const uid = cached.metadata.uid ?? '';
    const isDeleted = cached.metadata.deletionTimestamp !== undefined;
    if ((this.#uids.get(key) ?? uid) !== uid) this.#forget(key);
    this.#uids.set(key, uid);
    const podName = podNameOf(cached.metadata.name ?? '');
    const pod = expectations.pod(podName, namespace);
    const vm = expectations.vm(cached);
    return {
      vm,
      pod,
      settings: pod === undefined ? undefined : settingsOfPod(vm, pod, this.#parts.sources),
      node: pod === undefined ? undefined : this.#nodeOf(pod),
      claim: this.#parts.claims.get(podName, namespace),
      pullSecretVersion: pullSecretVersion(namespace),
      isNodeLost: pod !== undefined && isLost(this.#nodeOf(pod)),
      unsaved: isDeleted ? unsavedImages(cached, images.cached(namespace)) : [],
      saveWaitMs: settings.saveWaitMs,
      now: now().getTime(),
    };
  }

  #forget(key: string): void {
    const uid = this.#uids.get(key);
    if (uid === undefined) return;
    const { inventory, waiting, backoff, expectations, runners } = this.#parts;
    this.#uids.delete(key);
    inventory.forget(uid);
    waiting.remove(uid);
    backoff.clear(uid);
    this.#grown.delete(uid);
    expectations.forget(uid);
    runners?.forget(uid);
  }

  async #act(key: string, observed: Observed, plan: Plan): Promise<ReconcileResult | void> {
    const { vm } = observed;
    switch (plan.kind) {
      case 'finalize':
        return this.#finalize(key, observed, plan.finalizers);
      case 'hold':
        return this.#waitForSaves(key, vm, plan);
      case 'end':
        return this.#end(key, vm, plan);
      case 'ending':
        return undefined;
      case 'expire': {
        const over = await expired(key, observed, this.#parts);
        return over === undefined
          ? this.#actOnPod(key, vm, plan.otherwise)
          : this.#expire(over, plan.message);
      }
      default:
        return this.#actOnPod(key, vm, plan);
    }
  }

  async #actOnPod(key: string, vm: Vm, plan: PodPlan): Promise<ReconcileResult | void> {
    if (plan.kind !== 'deploy') this.#parts.waiting.remove(vm.metadata.uid ?? '');
    switch (plan.kind) {
      case 'conflict':
        await this.#status.report(
          vm,
          pendingDraft(vm, { scheduled: condition('False', 'PodConflict', plan.message) }),
        );
        return { requeueAfterMs: 30_000 };
      case 'wait':
        return this.#wait(vm, plan);
      case 'replace':
        return this.#replace(vm, plan);
      case 'deploy':
        return this.#deployment.deploy(key, vm);
      default:
        return this.#reportPod(key, vm, plan);
    }
  }

  /**
   * What is left of it (its claim, the pod of a lost node) follows by its owner reference, and so would a pod that the cache does
   * not show yet, made a moment ago by the leader before: its guest has to end, and its disk may be wanted.
   */
  async #finalize(
    key: string,
    { vm, pod }: Observed,
    finalizers: readonly string[] | undefined,
  ): Promise<ReconcileResult | void> {
    const hasPod = finalizers !== undefined && pod === undefined && (await this.#hasPodNow(vm));
    if (hasPod) return { requeueAfterMs: cacheLagMs };
    this.#forget(key);
    if (finalizers === undefined) return undefined;
    await ignoring(['NotFound'], setFinalizers(this.#parts, vm, finalizers));
    this.#parts.expectations.forget(vm.metadata.uid ?? '');
    return undefined;
  }

  async #hasPodNow(vm: Vm): Promise<boolean> {
    const { name = '', namespace = '' } = vm.metadata;
    const pod = await ignoring(['NotFound'], this.#parts.client.get(pods, podNameOf(name), namespace));
    return pod !== undefined && isOwnedBy(pod, vm);
  }

  /** The runner goes on working, and what is known of it stays true: the Image controller reads it there. */
  async #waitForSaves(
    key: string,
    vm: Vm,
    { pod, settings, message, endsAt }: Omit<Extract<Plan, { kind: 'hold' }>, 'kind'>,
  ): Promise<ReconcileResult> {
    const { runners, now } = this.#parts;
    await this.#renewControlKeys(pod);
    const ready = condition('False', 'Terminating', message);
    if (settings === undefined) {
      await this.#status.report(vm, pendingDraft(vm, { ready }));
    } else {
      const runner = runners?.observe(key, vm, pod);
      const { effective, warnings } = settings;
      const report = reportPod({ vm, pod, node: this.#nodeOf(pod), runner, effective, warnings });
      const { stalled: _stalled, ...others } = report.conditions;
      await this.#status.report(vm, { ...report, conditions: { ...others, ready }, reconciling: true });
    }
    return { requeueAfterMs: Math.max(0, endsAt - now().getTime()) };
  }

  /** The cache may not know yet who asked for the disk before the VM was deleted: kube-apiserver does. */
  async #end(
    key: string,
    vm: Vm,
    { pod, settings, abandoned, endsAt }: Extract<Plan, { kind: 'end' }>,
  ): Promise<ReconcileResult | void> {
    const { client, images, expectations, recorder } = this.#parts;
    if (expectations.isDeleted(pod)) return undefined;
    const { name = '', namespace = '', uid = '' } = pod.metadata;
    if (endsAt !== undefined) {
      const unsaved = unsavedImages(vm, await images.live(namespace));
      if (unsaved.length > 0)
        return this.#waitForSaves(key, vm, {
          pod,
          settings,
          message: savingMessage(unsaved, endsAt),
          endsAt,
        });
    }
    if (abandoned.length > 0) {
      const message = `the VM is deleted although its disk was not saved for ${abandoned.join(', ')}`;
      recorder.event(typed(vm), { type: 'Warning', reason: 'SaveAbandoned', message });
    }
    await ignoring(['NotFound', 'Conflict'], client.delete(pods, { name, namespace }, { uid }));
    expectations.deletedPod(pod);
    return undefined;
  }

  /** Exactly the VM that was proven never to have run; who changed it meanwhile may have given it more time. */
  async #expire(vm: Vm, message: string): Promise<void> {
    const { client, recorder } = this.#parts;
    const { name = '', namespace = '', uid = '', resourceVersion = '' } = vm.metadata;
    await ignoring(['NotFound'], client.delete(vms, { name, namespace }, { uid, resourceVersion }));
    recorder.event(typed(vm), { type: 'Warning', reason: 'StartDeadlineExceeded', message });
  }

  /** Its node is free when it is gone: the pod's end wakes this VM. On a lost node its guest may still run. */
  async #wait(vm: Vm, { pod, settings }: Extract<Plan, { kind: 'wait' }>): Promise<void> {
    const node = this.#nodeOf(pod);
    if (isLost(node) && isOwnedBy(pod, vm) && settings !== undefined) {
      const { effective, warnings } = settings;
      await this.#status.report(vm, reportPod({ vm, pod, node, runner: undefined, effective, warnings }));
      return;
    }
    const message = `pod ${pod.metadata.name ?? ''} is being deleted`;
    const reason = vm.status?.conditions?.find(({ type }) => type === 'Scheduled');
    // A refusal that led here stays readable until the next one or a node.
    if (reason?.status === 'False') return;
    await this.#status.report(vm, pendingDraft(vm, { ready: condition('False', 'Starting', message) }));
  }

  async #replace(vm: Vm, plan: Extract<Plan, { kind: 'replace' }>): Promise<ReconcileResult | void> {
    const { client, backoff, expectations } = this.#parts;
    if (expectations.isDeleted(plan.pod)) return;
    const { name = '', namespace = '', uid = '', resourceVersion = '' } = plan.pod.metadata;
    // With resourceVersion: a pod that was bound meanwhile stays.
    await ignoring(['NotFound'], client.delete(pods, { name, namespace }, { uid, resourceVersion }));
    expectations.deletedPod(plan.pod);
    if (plan.reason === 'PullRetry') return;
    backoff.failed(vm.metadata.uid ?? '', plan.node);
    await this.#status.report(
      vm,
      pendingDraft(vm, { scheduled: condition('False', plan.reason, plan.message) }),
    );
  }

  async #reportPod(
    key: string,
    vm: Vm,
    { pod, settings }: Extract<Plan, { kind: 'report' }>,
  ): Promise<ReconcileResult | void> {
    const { runners, backoff, inventory } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    if (this.#parts.expectations.isDeleted(pod)) return;
    const startAgeMs = this.#parts.expectations.startAgeMs(uid);
    const quickMs = quickStartMs - startAgeMs;
    if (quickMs > 0 && vm.status?.podName === undefined && !isPodReady(pod)) {
      return { requeueAfterMs: quickMs };
    }
    // One that was deployed by a version before.
    await hold(this.#parts, vm);
    await this.#renewControlKeys(pod);
    await this.#growClaim(vm);
    const runner = runners?.observe(key, vm, pod);
    const node = this.#nodeOf(pod);
    const { effective, warnings } = settings;
    const draft = reportPod({ vm, pod, node, runner, effective, warnings });
    const wrote = await this.#status.report(vm, draft, slowStartOf(pod, this.#parts.now()));
    if (draft.conditions.ready.status === 'True') {
      backoff.clear(uid);
      // A guest that ends before its pod has become ready flips nothing: only its runner can tell.
      const isSeen = isPodReady(pod) === (draft.fields.powerState === 'Running');
      return runner === undefined || isSeen ? undefined : { requeueAfterMs: pollMs };
    }
    if (pod.spec.nodeName !== undefined) inventory.forget(uid);
    if (runner !== undefined && draft.reconciling) return { requeueAfterMs: pollMs };
    return wrote === 'later' ? { requeueAfterMs: slowStartMs } : undefined;
  }

  #nodeOf(pod: Pod): Node | undefined {
    const name = nodeOf(pod);
    return name === undefined ? undefined : this.#parts.nodes.get(name);
  }

  /** The volume first, then the disk on it; a StorageClass that cannot expand says so in an event, once per size. */
  async #growClaim(vm: Vm): Promise<void> {
    const { client, claims, recorder } = this.#parts;
    const { namespace = '', uid = '' } = vm.metadata;
    const name = podNameOf(vm.metadata.name ?? '');
    const claim = claims.get(name, namespace);
    const storage = grownStorage(vm, claim);
    if (claim === undefined || storage === undefined || this.#grown.get(uid) === storage) return;
    this.#grown.set(uid, storage);
    const body = { metadata: { uid: claim.metadata.uid }, spec: { resources: { requests: { storage } } } };
    try {
      await client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
    } catch (error) {
      if (!isSvc3Error(error, 'Forbidden', 'Invalid')) {
        this.#grown.delete(uid);
        throw error;
      }
      recorder.event(typed(vm), { type: 'Warning', reason: 'VolumeNotGrown', message: messageOf(error) });
    }
  }

  /** A rotation of the installation's keys reaches the runners through their pods' annotation. */
  async #renewControlKeys(pod: Pod): Promise<void> {
    const { client, controlKeys } = this.#parts;
    const keys = controlKeys();
    if (keys === '' || pod.metadata.annotations?.[annotations.controlKeys] === keys) return;
    const { name = '', namespace = '', uid } = pod.metadata;
    const body = { metadata: { uid, annotations: { [annotations.controlKeys]: keys } } };
    await ignoring(
      ['NotFound', 'Conflict'],
      client.patch(pods, { name, namespace }, { type: 'merge', body }),
    );
  }
}

function slowStartOf(pod: Pod, now: Date): boolean {
  const created = pod.metadata.creationTimestamp;
  return created !== undefined && now.getTime() - Date.parse(created) >= slowStartMs;
}

function withDeadline(
  result: ReconcileResult | void,
  { vm, now }: Observed,
  plan: Plan,
): ReconcileResult | void {
  const deadline = startDeadline(vm);
  if (deadline === undefined || vm.metadata.deletionTimestamp !== undefined) return result;
  const isOver = now >= deadline;
  if (isOver && plan.kind !== 'expire') return result;
  const untilMs = isOver ? expiryPollMs : deadline - now;
  return { requeueAfterMs: Math.min(untilMs, result?.requeueAfterMs ?? untilMs) };
}
