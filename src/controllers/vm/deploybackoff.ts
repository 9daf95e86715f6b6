import { Backoff } from '../../controller/backoff.ts';
import { AvoidedNodes } from './avoidednodes.ts';

/** Doubles up to a minute. One operator makes the tries, so that there is nobody to spread them over. */
const times = { baseMs: 1_000, maxMs: 60_000, random: () => 1 } as const;

/** Exponential backoff between tries to deploy a VM, by its UID, and the nodes that turned it away. */
export class DeployBackoff {
  readonly #backoff: Backoff;
  readonly #avoided: AvoidedNodes;
  /** UIDs of the VMs whose pod kube-scheduler has found unschedulable on the node that it was for. */
  readonly #unschedulable = new Set<string>();

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(now: () => number) {
    this.#backoff = new Backoff(now, times);
    this.#avoided = new AvoidedNodes(now);
  }

  /** Milliseconds to wait before the next try; 0: now. */
  waitMs(vmUid: string): number {
    return this.#backoff.waitMs(vmUid);
  }

  /** Failures since the VM was ready last. */
  failures(vmUid: string): number {
    return this.#backoff.failures(vmUid);
  }

  /**
   * Counts a failure. Returns the milliseconds to wait.
   *
   * @param node - turned the pod away
   * @param isRefused - there is something on the node that placement does not know, such as where a volume is: others have their turn first
   */
  failed(vmUid: string, node?: string, isRefused = false): number {
    if (node !== undefined) this.#avoided.add(vmUid, node, isRefused);
    return this.#backoff.failed(vmUid);
  }

  /** Nodes to be taken only when nothing else fits. */
  avoided(vmUid: string): ReadonlySet<string> {
    return this.#avoided.of(vmUid);
  }

  /** Those among them that have refused the pod. */
  refused(vmUid: string): ReadonlySet<string> {
    return this.#avoided.lastingOf(vmUid);
  }

  /** kube-scheduler does not take the VM's pod on the node that it is for. */
  noteUnschedulable(vmUid: string): void {
    this.#unschedulable.add(vmUid);
  }

  /** Whether that was so since the nodes were forgotten last. */
  isUnschedulable(vmUid: string): boolean {
    return this.#unschedulable.has(vmUid);
  }

  /** Nothing else fits: all nodes have their turn again. */
  forgetNodes(vmUid: string): void {
    this.#avoided.forget(vmUid);
    this.#unschedulable.delete(vmUid);
  }

  /** Something has changed that may help: the next try is due. The failures count on, and what nodes said stays. */
  retryNow(vmUid: string): void {
    this.#backoff.hurry(vmUid);
  }

  /** The VM runs, or is gone. */
  forget(vmUid: string): void {
    this.#backoff.clear(vmUid);
    this.forgetNodes(vmUid);
  }
}
