import type { Inventory } from '../../placement/inventory.ts';
import { hasAffinity, place, type PlacementRequest } from '../../placement/place.ts';

interface Waiter {
  readonly key: string;
  readonly created: string;
  readonly request: PlacementRequest;
  /** The message of its condition. */
  readonly told: string;
}

/**
 * The VMs that no node takes. When something has become free, the oldest that now fit get it reserved and are woken:
 * no more than fit, so that hundreds of others are not tried in vain.
 */
export class WaitingVms {
  readonly #inventory: Inventory;
  readonly #wake: (key: string) => void;
  readonly #waiters = new Map<string, Waiter>();
  /** UIDs of those with pod affinity or spread constraints. */
  readonly #dependent = new Set<string>();

  constructor(inventory: Inventory, wake: (key: string) => void) {
    this.#inventory = inventory;
    this.#wake = wake;
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Whether a pod that is new on a node may let one of them fit there, by pod affinity or spread constraints. */
  get dependsOnOtherPods(): boolean {
    return this.#dependent.size > 0;
  }

  add(vmUid: string, waiter: Waiter): void {
    const { affinity, topologySpreadConstraints } = waiter.request;
    this.#waiters.set(vmUid, waiter);
    if (affinity?.podAffinity !== undefined || topologySpreadConstraints.length > 0)
      this.#dependent.add(vmUid);
  }

  remove(vmUid: string): void {
    this.#waiters.delete(vmUid);
    this.#dependent.delete(vmUid);
  }

  /** Call when capacity may have grown. */
  retry(): void {
    const byAge = [...this.#waiters].sort(([, a], [, b]) =>
      a.created === b.created ? (a.key < b.key ? -1 : 1) : a.created < b.created ? -1 : 1,
    );
    for (const [vmUid, { key, request }] of byAge) {
      const result = place(this.#inventory, request);
      if (result.kind !== 'placed') continue;
      this.#inventory.assume(vmUid, result.usage);
      this.remove(vmUid);
      this.#wake(key);
    }
  }

  /**
   * Call when anything that placement knows may have changed. Wakes those whose message is no longer true and returns
   * how many; VMs that ask for the same are judged once.
   */
  wakeOutdated(): number {
    const messages = new Map<string, string | undefined>();
    let woken = 0;
    for (const { key, request, told } of this.#waiters.values()) {
      const shape = this.#shapeOf(request);
      if (!messages.has(shape)) messages.set(shape, this.#message(request));
      const now = messages.get(shape);
      if (now === undefined || now === told) continue;
      this.#wake(key);
      woken += 1;
    }
    return woken;
  }

  /** Labels of a VM make a difference only where somebody asks for labels. */
  #shapeOf(request: PlacementRequest): string {
    return JSON.stringify(
      hasAffinity(this.#inventory, request) ? request : { ...request, labels: undefined },
    );
  }

  /** Undefined where a node takes it: that is for `retry`, which reserves what it gives. */
  #message(request: PlacementRequest): string | undefined {
    const result = place(this.#inventory, request);
    return result.kind === 'refused' ? result.message : undefined;
  }
}
