import type { Pod } from '../../api/core.ts';
import { persistentVolumeClaims, pods } from '../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import type { ReconcileResult } from '../../kube/types.ts';
import {
  place,
  type Placed,
  type PlacementRequest,
  type Refused,
  unpinnedAccelerator,
} from '../../placement/place.ts';
import { buildClaim, type ClaimHolder, holderOf, isPersistent } from './pod/claim.ts';
import { hold } from './life/finalizer.ts';
import { ignoring } from './ignoring.ts';
import { podNameOf } from './names.ts';
import type { VmReconcilerParts } from './parts.ts';
import { buildPod, type PodPlacement } from './pod/pod.ts';
import { reportPod } from './status/report.ts';
import { placementRequest } from './pod/request.ts';
import { type Asking, type Resolved, resolveVm, type Unresolved } from './resolve/resolve.ts';
import { condition } from './status/statusdraft.ts';
import { pendingDraft, type StatusWriter } from './status/statuswriter.ts';

/** A VM that nobody takes is looked at again, should an event have been missed. */
const waitingMs = 60_000;

/** Somebody else's claim is not in the cache, and nothing tells that it is gone; in milliseconds. */
const claimWaitMs = { going: 2_000, foreign: 30_000 } as const;

/** A start that takes no longer than this is told in one write of status, when the VM runs; in milliseconds. */
export const quickStartMs = 300;

/** A registry that takes longer to answer shows in the VM's status, in milliseconds. */
const slowAnswerMs = 1_000;

/** Gives a VM its pod: resolve, place, assume, create. */
export class PodCreation {
  readonly #parts: VmReconcilerParts;
  readonly #status: StatusWriter;

  constructor(parts: VmReconcilerParts, status: StatusWriter) {
    this.#parts = parts;
    this.#status = status;
  }

  async deploy(key: string, vm: Vm): Promise<ReconcileResult | void> {
    const { backoff, inventory, waiting } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    const waitMs = backoff.waitMs(uid);
    if (waitMs > 0) {
      inventory.forget(uid);
      return { requeueAfterMs: waitMs };
    }
    const resolved = this.#settings(vm);
    if (resolved.kind === 'asking') return this.#asking(vm, resolved);
    if (resolved.kind === 'unresolved') return this.#unresolved(vm, resolved);
    const request = placementRequest(vm.metadata.namespace ?? '', resolved.effective, this.#parts.settings);
    const placement = this.#place(vm, resolved.effective, request);
    if (placement.kind === 'placed') return this.#create(vm, resolved, pinned(placement), placement);
    if (this.#parts.settings.whenFull === 'Pod') {
      const accelerator = unpinnedAccelerator(this.#parts.inventory, request);
      return this.#create(vm, resolved, { ...unpinned, accelerator }, undefined);
    }
    const told = placement.message;
    waiting.add(uid, { key, created: vm.metadata.creationTimestamp ?? '', request, told });
    const scheduled = condition('False', 'Unschedulable', told);
    await this.#status.report(vm, pendingDraft(vm, { scheduled }));
    return { requeueAfterMs: waitingMs };
  }

  async #unresolved(vm: Vm, unresolved: Unresolved): Promise<ReconcileResult> {
    this.#parts.inventory.forget(vm.metadata.uid ?? '');
    const { condition: name, reason, message, retryMs = waitingMs } = unresolved;
    const status = name === 'stalled' ? 'True' : 'False';
    await this.#status.report(vm, pendingDraft(vm, { [name]: condition(status, reason, message) }));
    return { requeueAfterMs: retryMs };
  }

  /** The answer wakes the VM. It is told only where it takes long, and what was said before stays. */
  async #asking(vm: Vm, { message, forMs }: Asking): Promise<ReconcileResult> {
    if (forMs < slowAnswerMs) return { requeueAfterMs: slowAnswerMs - forMs };
    if (vm.status?.conditions !== undefined) return { requeueAfterMs: waitingMs };
    return this.#unresolved(vm, {
      kind: 'unresolved',
      condition: 'scheduled',
      reason: 'AskingRegistry',
      message,
    });
  }

  /** Frozen once the VM has been placed; before that as VMConfig and image are now. */
  #settings(vm: Vm): ReturnType<typeof resolveVm> {
    const frozen = vm.status?.effective;
    if (frozen === undefined) return resolveVm(vm, this.#parts.sources);
    return { kind: 'resolved', effective: frozen, warnings: vm.status?.warnings ?? [] };
  }

  /**
   * Synchronous from here to `assume`: nobody decides in between. A Persistent disk goes back to its node, since its
   * volume may be there only; a node that turned the pod away is the last choice.
   */
  #place(vm: Vm, effective: EffectiveSettings, request: PlacementRequest): Placed | Refused {
    const { inventory, backoff } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    inventory.forget(uid);
    const avoid = backoff.avoided(uid);
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
    const { expectations, inventory, nodes } = this.#parts;
    const uid = vm.metadata.uid ?? '';
    let pod: Pod;
    try {
      // Before there is a guest: its deletion has to wait for the guest's end.
      await hold(this.#parts, vm);
      const claim = await this.#claim(vm, resolved.effective);
      if (claim.kind !== 'own') return await this.#withoutClaim(vm, claim);
      pod = await this.#parts.client.create(pods, this.#pod(vm, resolved, placement));
    } catch (error) {
      // The cache is behind: its event brings us back; nothing that is there is touched.
      if (isSvc3Error(error, 'AlreadyExists')) return { requeueAfterMs: 1_000 };
      if (placed !== undefined) inventory.forget(uid);
      if (!isRefusal(error)) throw error;
      return this.#refused(vm, messageOf(error));
    }
    // The assumption ends when the cache shows the pod, which is pinned and counts from then on.
    expectations.madePod(pod);
    const node = placement.node === undefined ? undefined : nodes.get(placement.node);
    const { effective, warnings } = resolved;
    // All else of the status can be read from the pod later.
    if (warnings.length === 0) return { requeueAfterMs: quickStartMs };
    await this.#status.report(vm, reportPod({ vm, pod, node, runner: undefined, effective, warnings }));
    return undefined;
  }

  /**
   * The claim of a Persistent disk, made where there is none. What is there already is read from kube-apiserver: the cache
   * may be behind, and holds only claims with our labels.
   */
  async #claim(vm: Vm, effective: EffectiveSettings): Promise<ClaimHolder> {
    if (!isPersistent(effective)) return { kind: 'own' };
    const { client, settings } = this.#parts;
    const claim = buildClaim(vm, effective, settings);
    const { name = '', namespace = '' } = claim.metadata;
    try {
      return holderOf(await client.create(persistentVolumeClaims, claim), vm);
    } catch (error) {
      if (!isSvc3Error(error, 'AlreadyExists')) throw error;
    }
    const there = await ignoring(['NotFound'], client.get(persistentVolumeClaims, name, namespace));
    if (there === undefined) throw new Svc3Error('Conflict', `claim ${name} went away between two looks`);
    return holderOf(there, vm);
  }

  /** Nothing under the claim's name is touched; the end of one of ours wakes this VM. */
  async #withoutClaim(vm: Vm, claim: Exclude<ClaimHolder, { kind: 'own' }>): Promise<ReconcileResult> {
    const { kind, message } = claim;
    this.#parts.inventory.forget(vm.metadata.uid ?? '');
    const conditions =
      kind === 'foreign'
        ? { stalled: condition('True', 'ClaimConflict', message) }
        : { scheduled: condition('False', 'ClaimTerminating', message) };
    await this.#status.report(vm, pendingDraft(vm, conditions));
    return { requeueAfterMs: claimWaitMs[kind] };
  }

  async #refused(vm: Vm, message: string): Promise<ReconcileResult> {
    const delayMs = this.#parts.backoff.failed(vm.metadata.uid ?? '');
    await this.#status.report(vm, pendingDraft(vm, { scheduled: condition('False', 'PodRefused', message) }));
    return { requeueAfterMs: delayMs };
  }

  #pod(vm: Vm, resolved: Resolved, placement: PodPlacement): Pod {
    const { settings, controlKeys, kvmGroups, pullSecretVersion } = this.#parts;
    const { node, accelerator } = placement;
    return buildPod({
      vm,
      effective: resolved.effective,
      placement,
      settings,
      controlKeys: controlKeys(),
      kvmGroups: accelerator === 'kvm' ? kvmGroups(node) : [],
      pullSecretVersion: pullSecretVersion(vm.metadata.namespace ?? ''),
      claimName: isPersistent(resolved.effective) ? podNameOf(vm.metadata.name ?? '') : undefined,
    });
  }
}

const unpinned: Omit<PodPlacement, 'accelerator'> = {
  node: undefined,
  ports: {},
  requestsEphemeralStorage: true,
};

function pinned(placed: Placed): PodPlacement {
  const { node, accelerator, ports, requestsEphemeralStorage } = placed;
  return { node, accelerator, ports, requestsEphemeralStorage };
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
