import type { Inventory } from '../../placement/inventory.ts';
import { hasAffinity, place, type PlacementRequest } from '../../placement/place.ts';
import { type Budget, Rounds } from './rounds.ts';

interface Waiter {
  readonly key: string;
  readonly created: string;
  readonly request: PlacementRequest;
  /** The message of its condition. */
  readonly told: string;
}

/** When VMs are judged. */
export interface JudgingTimes extends Budget {
  /** Calls it when the process has done what else there is. */
  later(action: () => void): void;
}

/** A tenant's affinity may make one decision take milliseconds: the passes of all others wait no longer than for a few of them. */
const defaultTimes: JudgingTimes = {
  budgetMs: 10,
  now: () => performance.now(),
  later: (action) => void setImmediate(action),
};

/**
 * The VMs that no node takes. When something has become free, the oldest that now fit get it reserved and are woken:
 * no more than fit, so that hundreds of others are not tried in vain. Namespaces take turns, the one with the oldest VM first.
 */
export class WaitingVms {
  readonly #inventory: Inventory;
  readonly #wake: (key: string) => void;
  readonly #later: JudgingTimes['later'];
  readonly #waiters = new Map<string, Waiter>();
  readonly #uids = new Map<string, Set<string>>();
  /** UIDs of those with pod affinity or spread constraints. */
  readonly #dependent = new Set<string>();
  readonly #retries: Rounds;
  readonly #looks: Rounds;
  #isComing = false;

  constructor(inventory: Inventory, wake: (key: string) => void, times: Partial<JudgingTimes> = {}) {
    const { later, ...budget } = { ...defaultTimes, ...times };
    this.#inventory = inventory;
    this.#wake = wake;
    this.#later = later;
    this.#retries = new Rounds(budget);
    this.#looks = new Rounds(budget);
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Whether a pod that is new on a node may let one of them fit there, by pod affinity or spread constraints. */
  get dependsOnOtherPods(): boolean {
    return this.#dependent.size > 0;
  }

  add(vmUid: string, waiter: Waiter): void {
    const { affinity, topologySpreadConstraints, namespace } = waiter.request;
    this.#waiters.set(vmUid, waiter);
    const uids = this.#uids.get(namespace);
    if (uids === undefined) this.#uids.set(namespace, new Set([vmUid]));
    else uids.add(vmUid);
    if (affinity?.podAffinity !== undefined || topologySpreadConstraints.length > 0)
      this.#dependent.add(vmUid);
  }

  remove(vmUid: string): void {
    const namespace = this.#waiters.get(vmUid)?.request.namespace;
    if (namespace === undefined) return;
    const uids = this.#uids.get(namespace);
    uids?.delete(vmUid);
    if (uids?.size === 0) this.#uids.delete(namespace);
    this.#waiters.delete(vmUid);
    this.#dependent.delete(vmUid);
  }

  /** Call when capacity may have grown. Those for whom there is no time now are tried when the process has done what else there is. */
  retry(): void {
    this.#begin(this.#retries);
    this.#retryNext();
  }

  #retryNext(): void {
    this.#goOn(this.#retries, (vmUid, waiter) => this.#reserve(vmUid, waiter));
    if (this.#retries.isOver || this.#isComing) return;
    this.#isComing = true;
    this.#later(() => {
      this.#isComing = false;
      this.#retryNext();
    });
  }

  #reserve(vmUid: string, { key, request }: Waiter): void {
    const result = place(this.#inventory, request);
    if (result.kind !== 'placed') return;
    this.#inventory.assume(vmUid, result.usage);
    this.remove(vmUid);
    this.#wake(key);
  }

  /** All are to be looked at. */
  #begin(rounds: Rounds): void {
    const begun: [namespace: string, vmUids: string[]][] = [];
    for (const namespace of this.#uids.keys())
      if (rounds.isIn(namespace)) rounds.repeat(namespace);
      else begun.push([namespace, this.#byAge(namespace)]);
    begun.sort(([, [a = '']], [, [b = '']]) => this.#compareAges(a, b));
    for (const [namespace, vmUids] of begun) rounds.begin(namespace, vmUids);
  }

  #goOn(rounds: Rounds, look: (vmUid: string, waiter: Waiter) => void): void {
    const lookAt = (vmUid: string): void => {
      const waiter = this.#waiters.get(vmUid);
      if (waiter !== undefined) look(vmUid, waiter);
    };
    rounds.goOn(lookAt, (namespace) => this.#byAge(namespace));
  }

  /** The oldest first. */
  #byAge(namespace: string): string[] {
    return [...(this.#uids.get(namespace) ?? [])].sort((a, b) => this.#compareAges(a, b));
  }

  #compareAges(one: string, other: string): number {
    const { created: a = '', key: aKey = '' } = this.#waiters.get(one) ?? {};
    const { created: b = '', key: bKey = '' } = this.#waiters.get(other) ?? {};
    if (a !== b) return a < b ? -1 : 1;
    return aKey < bKey ? -1 : 1;
  }

  /**
   * Call when anything that placement knows may have changed. Wakes those whose message is no longer true and returns
   * how many; VMs that ask for the same are judged once. Those for whom there is no time now are left for `wakeMoreOutdated`.
   */
  wakeOutdated(): number {
    this.#begin(this.#looks);
    return this.wakeMoreOutdated();
  }

  /** Whether some are left of whom nobody has looked whether their message is true. */
  get hasMoreOutdated(): boolean {
    return !this.#looks.isOver;
  }

  /** Goes on with those who are left. Returns how many it has woken. */
  wakeMoreOutdated(): number {
    const messages = new Map<string, string | undefined>();
    let woken = 0;
    this.#goOn(this.#looks, (_vmUid, { key, request, told }) => {
      const shape = this.#shapeOf(request);
      if (!messages.has(shape)) messages.set(shape, this.#message(request));
      const now = messages.get(shape);
      if (now === undefined || now === told) return;
      this.#wake(key);
      woken += 1;
    });
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
