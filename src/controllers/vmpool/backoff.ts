import { Backoff } from '../../controller/backoff.ts';
import { AvoidedNodes } from '../vm/avoidednodes.ts';

/** Doubles up to a minute. One operator makes the tries, so that there is nobody to spread them over. */
const times = { baseMs: 1_000, maxMs: 60_000, random: () => 1 } as const;

/**
 * Exponential backoff between tries to make guests, by the UID of their pool. Failures are over when a guest waits that did not wait at the last
 * of them: those that did say nothing of another. The nodes on which they failed are avoided for a while, whatever becomes of others.
 */
export class PoolBackoff {
  readonly #backoff: Backoff;
  readonly #avoided: AvoidedNodes;
  /** UIDs of the pods whose guests wait, and of those that did at the last failure. */
  readonly #waiting = new Map<string, ReadonlySet<string>>();
  readonly #before = new Map<string, ReadonlySet<string>>();

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(now: () => number) {
    this.#backoff = new Backoff(now, times);
    this.#avoided = new AvoidedNodes(now);
  }

  /** @param waiting - UIDs of the pods whose guests wait now */
  look(poolUid: string, waiting: readonly string[]): void {
    this.#waiting.set(poolUid, new Set(waiting));
    const before = this.#before.get(poolUid);
    if (before === undefined || waiting.every((uid) => before.has(uid))) return;
    this.#backoff.clear(poolUid);
    this.#before.delete(poolUid);
  }

  /** Milliseconds to wait before the next try; 0: now. */
  waitMs(poolUid: string): number {
    return this.#backoff.waitMs(poolUid);
  }

  /**
   * Counts a failure. Returns the milliseconds to wait.
   *
   * @param node - where a guest has failed
   */
  failed(poolUid: string, node?: string): number {
    if (node !== undefined) this.#avoided.add(poolUid, node);
    this.#before.set(poolUid, this.#waiting.get(poolUid) ?? new Set());
    return this.#backoff.failed(poolUid);
  }

  /** Nodes to be taken only when nothing else fits. */
  avoided(poolUid: string): ReadonlySet<string> {
    return this.#avoided.of(poolUid);
  }

  /** The pool is gone. */
  forget(poolUid: string): void {
    this.#avoided.forget(poolUid);
    this.#backoff.clear(poolUid);
    this.#before.delete(poolUid);
    this.#waiting.delete(poolUid);
  }
}
