import type { Pod } from '../../../api/core.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { Pass } from '../pass.ts';
import type { ResolveSources } from '../resolve/resolve.ts';
import type { VmMemory } from '../vmmemory.ts';
import type { StartTraces } from '../starts/starttraces.ts';
import type { ClaimObserver } from './claimobserver.ts';
import { type ChosenPod, type ClaimParts, choosePod, type Taken, takePod } from './claims.ts';
import { isUnclaimed, poolIndex } from '../facts/standby.ts';
import type { Standbys } from './standbys.ts';

export interface PoolClaimsParts extends Omit<ClaimParts, 'starts'> {
  /** Guests that wait for a VM. */
  readonly standbys: Standbys;
  readonly observer: ClaimObserver;
  /** Where starts are traced. */
  readonly starts: StartTraces | undefined;
  /** Milliseconds of a clock that never jumps. */
  monotonic(): number;
}

/** A VM whose guest nobody could reach asks for no other one so long, in milliseconds: what keeps all of them away may be the same. */
const givenUpMs = 600_000;

/** Guests of pools, as VMs get them: which one is promised to whom, and how long a VM has waited for its own. */
export class PoolClaims implements VmMemory {
  readonly #parts: PoolClaimsParts;
  /** When a guest was first chosen for a VM that has none yet, by the UID of the VM. */
  readonly #choseAt = new Map<string, number>();
  /** When the guest that a VM had chosen was given up, by the UID of the VM. */
  readonly #givenUpAt = new Map<string, number>();
  /** Pools of the VMs whose pod kube-scheduler is to find a node for, by the UID of the VM. */
  readonly #leftToScheduler = new Map<string, string>();

  constructor(parts: PoolClaimsParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    this.release(vmUid);
    this.#choseAt.delete(vmUid);
    this.#givenUpAt.delete(vmUid);
    this.#leftToScheduler.delete(vmUid);
  }

  /** No guest is promised to the VM any more. */
  release(vmUid: string): void {
    this.#parts.standbys.forget(vmUid);
  }

  /** A guest of the VM's pool that waits; it is promised to the VM from now on. */
  ofPool(vm: Vm): Pod | undefined {
    const givenUpAt = this.#givenUpAt.get(vm.metadata.uid) ?? -Infinity;
    if (this.#parts.monotonic() - givenUpAt < givenUpMs) return undefined;
    return this.#parts.standbys.ofPool(vm);
  }

  /** Whether this process has chosen the guest that the VM has not got yet: no other one has told it anything. */
  isChosenHere(vmUid: string): boolean {
    return this.#choseAt.has(vmUid);
  }

  /** The guest that was chosen for the VM goes, and nobody has told it anything: the VM gets a pod of its own. */
  noteGivenUp(vmUid: string): void {
    this.#givenUpAt.set(vmUid, this.#parts.monotonic());
    this.#choseAt.delete(vmUid);
    this.release(vmUid);
  }

  /** The same for a VM that no pod was made for. */
  ofPoolUnclaimed(vm: Vm): Pod | undefined {
    return isUnclaimed(vm) ? this.ofPool(vm) : undefined;
  }

  /** The same for a VM that knows of no pool: a guest that is what its VMConfig asks for. */
  ofConfig(vm: Vm, effective: EffectiveSettings): Pod | undefined {
    return this.#parts.standbys.ofConfig(vm, effective);
  }

  /** Of which pool that guest would be, where one waited (`Standbys.poolOfConfig`). */
  poolOfConfig(vm: Vm, effective: EffectiveSettings, sources: ResolveSources): string | undefined {
    return this.#parts.standbys.poolOfConfig(vm, effective, sources);
  }

  /** A guest was chosen for the VM, this time or before. */
  noteChosen(vm: Vm): void {
    const { uid } = vm.metadata;
    this.#leftToScheduler.delete(uid);
    if (this.#choseAt.has(uid)) return;
    this.#choseAt.set(uid, this.#parts.monotonic());
    this.#parts.starts?.claiming(vm);
  }

  /** First write of a claim (`choosePod`). */
  choose(pass: Pass, chosen: ChosenPod): Promise<Vm | undefined> {
    return choosePod(this.#parts, pass, chosen);
  }

  /** Second write of a claim (`takePod`). */
  async take(vm: Vm, pod: Pod): Promise<Taken['kind']> {
    const { kind } = await takePod(this.#parts, vm, pod);
    for (const pool of poolIndex.pool(pod))
      this.#parts.observer.claimed(pool, kind === 'taken' ? 'warm' : 'lost');
    if (kind === 'lost') this.release(vm.metadata.uid);
    return kind;
  }

  /** The VM gets a pod of its own. `isCold`: on a node that has room for it, for want of a guest that waits. */
  noteOwnPod(vm: Vm, isCold: boolean): void {
    this.#choseAt.delete(vm.metadata.uid);
    if (isCold) this.#parts.observer.claimed(poolKeyOf(vm), 'cold');
  }

  /** No guest waits and no node has room for the VM: it is a cold start once kube-scheduler has found a node for its pod. */
  noteLeftToScheduler(vm: Vm): void {
    this.#leftToScheduler.set(vm.metadata.uid, poolKeyOf(vm));
  }

  /**
   * A VM that knows of no pool got a pod of its own for want of a guest of this one. `isPlaced`: on a node that has room for it; else it is a cold
   * start once kube-scheduler has found one.
   */
  madeUnserved({ metadata: { uid } }: Vm, pool: string, isPlaced: boolean): void {
    if (isPlaced) this.#parts.observer.claimed(pool, 'cold');
    else this.#leftToScheduler.set(uid, pool);
  }

  /** The VM's pod has a node. */
  noteBound(vmUid: string): void {
    const pool = this.#leftToScheduler.get(vmUid);
    if (pool === undefined) return;
    this.#leftToScheduler.delete(vmUid);
    this.#parts.observer.claimed(pool, 'cold');
  }

  /** The runner of the VM's guest has been told whose it is. */
  noteTold(vmUid: string): void {
    const since = this.#choseAt.get(vmUid);
    if (since === undefined) return;
    this.#choseAt.delete(vmUid);
    this.#parts.starts?.claimed(vmUid);
    this.#parts.observer.told((this.#parts.monotonic() - since) / 1_000);
  }
}

/** Of a VM that names its pool. */
function poolKeyOf({ metadata, spec }: Vm): string {
  return `${metadata.namespace}/${spec.pool}`;
}
