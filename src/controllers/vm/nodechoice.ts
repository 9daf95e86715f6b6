import type { Pod } from '../../api/core.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import type { Inventory } from '../../placement/inventory.ts';
import { placeLeavingOut, type PlacedWithout } from '../../placement/leaveout.ts';
import { place, type Placed, type PlacementRequest } from '../../placement/place.ts';
import type { HostPort } from '../../placement/ports.ts';
import { unpinned, type Unpinned } from '../../placement/unpinned.ts';
import type { PodPlan, ReplaceReason } from './decide.ts';
import type { DeployBackoff } from './deploybackoff.ts';
import type { VmMemory } from './vmmemory.ts';
import { hasClaims } from './facts/claim.ts';
import { requestsKvm } from './facts/kvm.ts';
import { asksForPorts } from './pod/leftoutports.ts';
import { isForSameNodes } from './resolve/changes.ts';
import { isUntaken } from './facts/unbound.ts';
import type { VmSettings } from './settings.ts';
import type { WaitingVms } from './waiting.ts';

/** A kubelet that has just started rejects pods whose devices it does not have yet: so often is its node tried again for the sake of a VM's volumes. */
const mostRejections = 5;

/** Told of every decision for a VM that wants a node, with the seconds that it took. */
export type PlacementDecided = (result: PlacedWithout['result'], seconds: number) => void;

export interface NodeChoiceParts {
  readonly inventory: Inventory;
  readonly waiting: WaitingVms;
  readonly backoff: DeployBackoff;
  readonly whenFull: VmSettings['whenFull'];
  readonly placed: PlacementDecided | undefined;
}

/** What is to become of a VM that wants a node. */
export interface Choice extends PlacedWithout {
  /** kube-scheduler is to find the node, for a pod that is made with this; undefined: as `result` says. */
  readonly unpinned: Unpinned | undefined;
}

/** A node that takes the VM, without the ports that are left out. */
interface Open {
  readonly placed: Placed;
  readonly leftOut: readonly HostPort[];
}

/** What placement says, with what the nodes that turned the pod away have to do with it. */
interface Found extends PlacedWithout {
  /** The nodes that fit have all turned the pod away. */
  readonly isLastChoice: boolean;
}

/**
 * Which node a VM's next pod is for. It remembers what is assumed to be used there until the cache shows the pod, who waits for a node,
 * which nodes turned a VM away and when the next try is due, and where VMs have been.
 */
export class NodeChoice implements VmMemory {
  readonly #parts: NodeChoiceParts;
  /** UIDs of the VMs that had a pod on a node. */
  readonly #bound = new Set<string>();

  constructor(parts: NodeChoiceParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    const { inventory, waiting, backoff } = this.#parts;
    inventory.forget(vmUid);
    waiting.remove(vmUid);
    backoff.forget(vmUid);
    this.#bound.delete(vmUid);
  }

  /** The pod of the VM lives: a bound one counts by itself, and for one that is as requested failures of before do not count. */
  noteAlive(vmUid: string, { isBound, isReady }: { isBound: boolean; isReady: boolean }): void {
    if (isBound) this.#bound.add(vmUid);
    if (isReady) this.#parts.backoff.forget(vmUid);
    else if (isBound) this.#parts.inventory.forget(vmUid);
  }

  /** The pod cannot run on its node. */
  noteTurnedAway(vm: Vm, { pod, reason, node }: Extract<PodPlan, { kind: 'replace' }>): void {
    const { backoff } = this.#parts;
    const { uid } = vm.metadata;
    if (isUntaken(pod)) backoff.noteUnschedulable(uid);
    if (this.#isTriedAgain(vm, pod)) backoff.failed(uid);
    else backoff.failed(uid, node, reason === 'PodNotPrepared' || this.#isRefused(vm, reason, node));
  }

  #isRefused(vm: Vm, reason: ReplaceReason, node: string | undefined): boolean {
    return reason === 'Unschedulable' && node !== this.#homeOf(vm);
  }

  /** Whether a node takes the VM that has not turned it away, were its pod not where it is. With all its ports: nothing is to be lost for another try. */
  hasOther(vm: Vm, request: PlacementRequest, { metadata, spec }: Pod): boolean {
    const { inventory, backoff } = this.#parts;
    const avoid = new Set(backoff.avoided(vm.metadata.uid));
    if (spec.nodeName !== undefined) avoid.add(spec.nodeName);
    return inventory.without([metadata.uid], () => place(inventory, { ...request, avoid })).kind === 'placed';
  }

  #isTriedAgain({ metadata, status }: Vm, pod: Pod): boolean {
    const isStarting = pod.status?.reason === 'UnexpectedAdmissionError';
    const hasVolumes = status?.effective !== undefined && hasClaims(status.effective);
    return isStarting && hasVolumes && this.#parts.backoff.failures(metadata.uid) < mostRejections;
  }

  /** Where the volumes of the VM may be: where it had a pod, and not where one was only tried. */
  #homeOf({ metadata, status }: Vm): string | undefined {
    const wasThere = status?.powerState !== undefined || this.#bound.has(metadata.uid);
    return wasThere ? status?.node : undefined;
  }

  /** Milliseconds until the next try is due; 0: now. */
  waitMs(vmUid: string): number {
    return this.#parts.backoff.waitMs(vmUid);
  }

  /** A try has failed, for a reason that is none of a node's. Returns the milliseconds to wait. */
  failed(vmUid: string): number {
    return this.#parts.backoff.failed(vmUid);
  }

  /** There will be no pod where one was assumed. */
  release(vmUid: string): void {
    this.#parts.inventory.forget(vmUid);
  }

  /** The VM has a pod, or is getting one: it does not wait for a node any more. */
  stopWaiting(vmUid: string): void {
    this.#parts.waiting.remove(vmUid);
  }

  /** No node takes the VM: it is woken by one that does. `told`: what is said of it. */
  wait(key: string, { metadata }: Vm, { request, told }: { request: PlacementRequest; told: string }): void {
    // What it waits for is a node; ports that are taken then are left out.
    const bare = { ...request, reservedPorts: [] };
    const created = metadata.creationTimestamp ?? '';
    this.#parts.waiting.add(metadata.uid, { key, created, request: bare, told });
  }

  /** What would be chosen now; nothing is assumed. */
  preview(request: PlacementRequest): PlacedWithout['result'] {
    return placeLeavingOut(this.#parts.inventory, request).result;
  }

  /**
   * What a pod is made with that kube-scheduler finds a node for; undefined where the installation wants none (`placement.whenFull`), or the VM waits
   * for what is due of a node.
   */
  unpinned(request: PlacementRequest): Unpinned | undefined {
    return this.#parts.whenFull === 'Pod' ? unpinned(this.#parts.inventory, request) : undefined;
  }

  /**
   * The node that takes the VM now and cannot have this pod, for which kube-scheduler finds none: where the volumes of the VM may be, if the pod asks for
   * other hardware or for ports that are taken there; elsewhere, if the ports are, or if the pod asks for hardware virtualisation and none is to be
   * waited for that has it. Undefined where there is no such node. What `choose` leaves to kube-scheduler can be on the node that is open then: no pod
   * is replaced by its like, also by a process that knows of no node that has refused it.
   */
  nodeForAnother(
    vm: Vm,
    effective: EffectiveSettings,
    request: PlacementRequest,
    pod: Pod,
  ): string | undefined {
    const home = this.#openHome(vm, effective, request);
    if (home !== undefined && !mayHave(home, pod)) return home.placed.node;
    const others = this.#withoutRefused(vm, request);
    const open = this.#open(others);
    if (open === undefined) return undefined;
    const isInVain = asksForPorts(pod, open.leftOut) || (requestsKvm(pod) && this.#isEmulated(others));
    return isInVain ? open.placed.node : undefined;
  }

  /** Whether no node that would take the VM has hardware virtualisation, or may have it. */
  #isEmulated(request: PlacementRequest): boolean {
    const later = unpinned(this.#parts.inventory, request);
    return later !== undefined && later.accelerator !== 'kvm';
  }

  /** Where nodes have refused the VM, others are meant. */
  #withoutRefused({ metadata }: Vm, request: PlacementRequest): PlacementRequest {
    return { ...request, avoid: this.#parts.backoff.refused(metadata.uid) };
  }

  #open(request: PlacementRequest): Open | undefined {
    const { result: placed, leftOut } = placeLeavingOut(this.#parts.inventory, request);
    return placed.kind === 'placed' ? { placed, leftOut } : undefined;
  }

  #openHome(vm: Vm, effective: EffectiveSettings, request: PlacementRequest): Open | undefined {
    const nodeName = this.#returnsTo(vm, effective, request);
    return nodeName === undefined ? undefined : this.#open({ ...request, nodeName });
  }

  /**
   * Chooses, and assumes that the VM's pod is there. Synchronous: nobody decides in between. A Persistent disk goes back to its node,
   * since its volume may be there only, but where the VM says something else by now of where it is to be: then another node is tried first, once. A
   * node that turned the pod away is the last choice. Where others have refused it, that node may be the only one, with ports of it that are taken.
   * Where all that fit have turned it away, and kube-scheduler knew why, as it knows volumes and how many a node attaches, that has to find another.
   */
  choose(vm: Vm, effective: EffectiveSettings, request: PlacementRequest): Choice {
    const { inventory, backoff, placed: decided } = this.#parts;
    const { uid } = vm.metadata;
    const began = performance.now();
    inventory.forget(uid);
    const { isLastChoice, ...found } = this.#place(vm, effective, request);
    const { result } = found;
    decided?.(result, (performance.now() - began) / 1000);
    if (result.kind === 'refused') return { ...found, unpinned: this.unpinned(request) };
    const isLeft = isLastChoice && backoff.isUnschedulable(uid);
    const left = isLeft ? this.#left(vm, effective, request) : undefined;
    if (left?.unpinned !== undefined) return { result, ...left };
    if (isLastChoice) backoff.forgetNodes(uid);
    inventory.assume(uid, result.usage);
    return { ...found, unpinned: undefined };
  }

  /** What is due of a node that has refused the pod is not waited for. While the node of its volumes takes the VM, the pod is one that can be there. */
  #left(
    vm: Vm,
    effective: EffectiveSettings,
    request: PlacementRequest,
  ): Pick<Choice, 'unpinned' | 'leftOut'> {
    const home = this.#openHome(vm, effective, request);
    if (home !== undefined) {
      const { placed, leftOut } = home;
      return { unpinned: this.unpinned({ ...request, nodeName: placed.node }), leftOut };
    }
    const others = this.#withoutRefused(vm, request);
    return { unpinned: this.unpinned(others), leftOut: this.#open(others)?.leftOut ?? [] };
  }

  /** The node that a VM with volumes goes back to: undefined where it has none, or is to be elsewhere. */
  #returnsTo(vm: Vm, effective: EffectiveSettings, { nodeName }: PlacementRequest): string | undefined {
    const goesBack = hasClaims(effective) && nodeName === undefined && !isSentElsewhere(vm, effective);
    return goesBack ? this.#homeOf(vm) : undefined;
  }

  #place(vm: Vm, effective: EffectiveSettings, request: PlacementRequest): Found {
    const { inventory, backoff } = this.#parts;
    const { uid } = vm.metadata;
    const avoid = backoff.avoided(uid);
    const hasVolumes = hasClaims(effective);
    const home = this.#returnsTo(vm, effective, request);
    const tries: PlacementRequest[] = [
      ...(home !== undefined && !avoid.has(home) ? [{ ...request, nodeName: home }] : []),
      ...(avoid.size > 0 ? [{ ...request, avoid }] : []),
    ];
    const leavesOut = hasVolumes && backoff.refused(uid).size > 0;
    for (const one of tries) {
      const placed = leavesOut
        ? placeLeavingOut(inventory, one)
        : { result: place(inventory, one), leftOut: [] };
      if (placed.result.kind === 'placed') return { ...placed, isLastChoice: false };
    }
    return { ...placeLeavingOut(inventory, request), isLastChoice: avoid.size > 0 };
  }
}

/** Whether the pod, which is pinned to no node, asks for what the VM would have there. */
function mayHave({ placed, leftOut }: Open, pod: Pod): boolean {
  const hasItsAccelerator = requestsKvm(pod) === (placed.accelerator === 'kvm');
  const hasItsStorage = placed.requestsEphemeralStorage || !requestsEphemeralStorage(pod);
  return hasItsAccelerator && hasItsStorage && !asksForPorts(pod, leftOut);
}

function requestsEphemeralStorage({ spec }: Pod): boolean {
  return spec.containers.some(({ resources }) => resources?.requests?.['ephemeral-storage'] !== undefined);
}

/** Of a change that is carried out with this pod: once it is made, the VM's status has the settings. */
function isSentElsewhere({ status }: Vm, effective: EffectiveSettings): boolean {
  return status?.effective !== undefined && !isForSameNodes(status.effective, effective);
}
