/** What is remembered of a VM that could not be deployed; lost with the process, which only means trying sooner. */
interface Attempt {
  failures: number;
  notBefore: number;
  readonly avoid: Map<string, number>;
}

const firstMs = 1_000;
const longestMs = 60_000;
/** How long a node that turned a pod away is only taken when nothing else fits. */
const avoidMs = 120_000;

/** Growing pauses between attempts to deploy a VM, and the nodes that turned it away. Clock: monotonic milliseconds. */
export class Attempts {
  readonly #attempts = new Map<string, Attempt>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Milliseconds to wait before the next attempt; 0: now. */
  waitMs(vmUid: string): number {
    return Math.max(0, (this.#attempts.get(vmUid)?.notBefore ?? 0) - this.#now());
  }

  /** Counts a failure; the pause doubles up to a minute. Returns the pause. */
  failed(vmUid: string, node?: string): number {
    let attempt = this.#attempts.get(vmUid);
    if (attempt === undefined) {
      attempt = { failures: 0, notBefore: 0, avoid: new Map() };
      this.#attempts.set(vmUid, attempt);
    }
    const pauseMs = Math.min(longestMs, firstMs * 2 ** attempt.failures);
    attempt.failures += 1;
    attempt.notBefore = this.#now() + pauseMs;
    if (node !== undefined) attempt.avoid.set(node, this.#now() + avoidMs);
    return pauseMs;
  }

  avoided(vmUid: string): ReadonlySet<string> {
    const now = this.#now();
    const avoid = this.#attempts.get(vmUid)?.avoid ?? [];
    return new Set([...avoid].filter(([, until]) => until > now).map(([node]) => node));
  }

  /** The VM runs, or is gone. */
  clear(vmUid: string): void {
    this.#attempts.delete(vmUid);
  }
}
