/** What is remembered of a VM that could not be deployed; lost with the process, which only means trying sooner. */
interface Failures {
  count: number;
  notBefore: number;
  readonly avoid: Map<string, number>;
}

const firstMs = 1_000;
const longestMs = 60_000;
/** How long a node that turned a pod away is only taken when nothing else fits. */
const avoidMs = 120_000;

/** Exponential backoff between tries to deploy a VM, and the nodes that turned it away. Clock: monotonic milliseconds. */
export class DeployBackoff {
  readonly #known = new Map<string, Failures>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Milliseconds to wait before the next try; 0: now. */
  waitMs(vmUid: string): number {
    return Math.max(0, (this.#known.get(vmUid)?.notBefore ?? 0) - this.#now());
  }

  /** Counts a failure; the backoff doubles from a second up to a minute. Returns it in milliseconds. */
  failed(vmUid: string, node?: string): number {
    let known = this.#known.get(vmUid);
    if (known === undefined) {
      known = { count: 0, notBefore: 0, avoid: new Map() };
      this.#known.set(vmUid, known);
    }
    const delayMs = Math.min(longestMs, firstMs * 2 ** known.count);
    known.count += 1;
    known.notBefore = this.#now() + delayMs;
    if (node !== undefined) known.avoid.set(node, this.#now() + avoidMs);
    return delayMs;
  }

  avoided(vmUid: string): ReadonlySet<string> {
    const now = this.#now();
    const avoid = this.#known.get(vmUid)?.avoid ?? [];
    return new Set([...avoid].filter(([, until]) => until > now).map(([node]) => node));
  }

  /** The VM runs, or is gone. */
  clear(vmUid: string): void {
    this.#known.delete(vmUid);
  }
}
