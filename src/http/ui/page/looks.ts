/** How often what the stream does not tell of, as Events, is looked at again. */
export const lookEveryMs = 5_000;

/**
 * Ticks of `lookEveryMs` from one look that asks for what every node says of the VM to the next, while the VM has no node: 15 s. Such a look
 * costs the server lists of the whole cluster.
 */
const ticksBetweenNodes = 3;

/**
 * Looks at a VM once.
 *
 * @param hasNodes - whether what every node says of it is asked for
 * @param signal - aborted when nobody needs the answer any more
 * @returns when the answer is there, or there is none; never rejects
 */
export type Look = (hasNodes: boolean, signal: AbortSignal) => Promise<void>;

interface LookUnderWay {
  readonly hasNodes: boolean;
  readonly ending: AbortController;
}

/**
 * Looks at a VM when it has changed and at every tick, one look at a time. Many changes are no reason to ask for the nodes more often, and the
 * time that the server takes to answer that is not counted: for 10 s at least it lists nothing for this page.
 */
export class Looks {
  readonly #look: Look;
  readonly #isSeen: () => boolean;
  #isPlaced = false;
  /** Since the nodes were asked for, without those before the answer. */
  #ticks = ticksBetweenNodes;
  #underWay: LookUnderWay | undefined;
  /** The VM has changed since the look under way began. */
  #isStale = false;

  /** @param isSeen - nobody looks for a page that is not seen */
  constructor(look: Look, isSeen: () => boolean) {
    this.#look = look;
    this.#isSeen = isSeen;
  }

  /** The VM is there, or has changed. */
  changed(isPlaced: boolean): void {
    this.#isPlaced = isPlaced;
    const { hasNodes, ending } = this.#underWay ?? {};
    // What the nodes would say of it is no matter any more.
    if (isPlaced && hasNodes === true) ending?.abort();
    else if (ending !== undefined) {
      this.#isStale = true;
      return;
    }
    this.#begin(-1);
  }

  /** Another `lookEveryMs` are over. */
  tick(): void {
    if (this.#underWay?.hasNodes !== true) this.#ticks += 1;
    if (this.#underWay === undefined) this.#begin(0);
  }

  /** Gives up the look under way; it is not to be used any more. */
  stop(): void {
    this.#underWay?.ending.abort();
    this.#underWay = undefined;
  }

  /** @param ticks - what is counted from now on: the next tick after a change comes too early to be one */
  #begin(ticks: 0 | -1): void {
    this.#underWay = undefined;
    this.#isStale = false;
    if (!this.#isSeen()) return;
    const hasNodes = !this.#isPlaced && this.#ticks >= ticksBetweenNodes;
    if (hasNodes) this.#ticks = ticks;
    const underWay: LookUnderWay = { hasNodes, ending: new AbortController() };
    this.#underWay = underWay;
    void this.#look(hasNodes, underWay.ending.signal).then(() => this.#end(underWay));
  }

  #end(underWay: LookUnderWay): void {
    if (this.#underWay !== underWay) return;
    this.#underWay = undefined;
    if (this.#isStale) this.#begin(-1);
  }
}
