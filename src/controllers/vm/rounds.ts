import { FairQueue } from '../../fairqueue.ts';

/** One who is to be looked at. */
interface Turn {
  readonly namespace: string;
  readonly vmUid: string;
}

/** How long VMs are looked at without a break. */
export interface Budget {
  /** Milliseconds. */
  readonly budgetMs: number;
  /** Milliseconds of a clock that never jumps. */
  now(): number;
}

/**
 * Rounds over VMs, each namespace having its own and all of them taking turns: what the VMs of one cost, their affinity above all, is
 * waited for by its own ones. Looks are given in pieces of a budget, since the process does nothing else meanwhile.
 */
export class Rounds {
  readonly #budget: Budget;
  readonly #turns = new FairQueue<Turn>();
  /** Namespace -> how many of its round are left. */
  readonly #left = new Map<string, number>();
  /** Those that have another round after the one that they are in. */
  readonly #again = new Set<string>();

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /** Whether nobody is left to be looked at. */
  get isOver(): boolean {
    return this.#turns.size === 0;
  }

  /** Whether the round of a namespace has begun and is not over. */
  isIn(namespace: string): boolean {
    return this.#left.has(namespace);
  }

  /** A round of these VMs, in this order. The namespace must be in none. */
  begin(namespace: string, vmUids: readonly string[]): void {
    if (vmUids.length === 0) return;
    this.#left.set(namespace, vmUids.length);
    for (const vmUid of vmUids) this.#turns.add(namespace, { namespace, vmUid });
  }

  /** Another round of the namespace once this one is over: if it began anew at each change, its last VMs would never have a turn. */
  repeat(namespace: string): void {
    this.#again.add(namespace);
  }

  /**
   * Goes on as long as the budget lasts, for one VM at least.
   *
   * @param look - is called with the UID of each VM
   * @param again - the VMs of a namespace that has another round
   */
  goOn(look: (vmUid: string) => void, again: (namespace: string) => readonly string[]): void {
    const end = this.#budget.now() + this.#budget.budgetMs;
    do {
      const turn = this.#turns.take();
      if (turn === undefined) return;
      look(turn.vmUid);
      this.#had(turn.namespace, again);
    } while (this.#budget.now() < end);
  }

  #had(namespace: string, again: (namespace: string) => readonly string[]): void {
    const left = (this.#left.get(namespace) ?? 0) - 1;
    if (left > 0) {
      this.#left.set(namespace, left);
      return;
    }
    this.#left.delete(namespace);
    if (this.#again.delete(namespace)) this.begin(namespace, again(namespace));
  }
}
