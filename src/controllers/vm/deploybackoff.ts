import { Backoff } from '../../controller/backoff.ts';

/** Doubles up to a minute. One operator makes the tries, so that there is nobody to spread them over. */
const times = { baseMs: 1_000, maxMs: 60_000, random: () => 1 } as const;

/** How long a node that turned a pod away is only taken when nothing else fits. */
const avoidMs = 120_000;

/** Exponential backoff between tries to deploy a VM, by its UID, and the nodes that turned it away. */
export class DeployBackoff {
  readonly #backoff: Backoff;
  /** Until when a node is avoided. */
  readonly #avoided = new Map<string, Map<string, number>>();
  readonly #now: () => number;

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(now: () => number) {
    this.#now = now;
    this.#backoff = new Backoff(now, times);
  }

  /** Milliseconds to wait before the next try; 0: now. */
  waitMs(vmUid: string): number {
    return this.#backoff.waitMs(vmUid);
  }

  /** Counts a failure. Returns the milliseconds to wait. */
  failed(vmUid: string, node?: string): number {
    if (node !== undefined) this.#nodesOf(vmUid).set(node, this.#now() + avoidMs);
    return this.#backoff.failed(vmUid);
  }

  avoided(vmUid: string): ReadonlySet<string> {
    const now = this.#now();
    const nodes = [...(this.#avoided.get(vmUid) ?? [])];
    return new Set(nodes.filter(([, until]) => until > now).map(([node]) => node));
  }

  /** The VM runs, or is gone. */
  forget(vmUid: string): void {
    this.#backoff.clear(vmUid);
    this.#avoided.delete(vmUid);
  }

  #nodesOf(vmUid: string): Map<string, number> {
    let nodes = this.#avoided.get(vmUid);
    if (nodes === undefined) {
      nodes = new Map();
      this.#avoided.set(vmUid, nodes);
    }
    return nodes;
  }
}
