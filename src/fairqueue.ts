/**
 * Items in the order they came, groups taking turns: round robin over the groups that have something waiting, first in
 * first out within each. No item is in it twice.
 */
export class FairQueue<T> {
  /** In the order of their turns; none is empty. */
  readonly #groups = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(group: string, item: T): void {
    const items = this.#groups.get(group);
    if (items?.has(item) === true) return;
    if (items === undefined) this.#groups.set(group, new Set([item]));
    else items.add(item);
    this.#size += 1;
  }

  /** Whether it was there. */
  delete(group: string, item: T): boolean {
    const items = this.#groups.get(group);
    if (items?.delete(item) !== true) return false;
    this.#size -= 1;
    if (items.size === 0) this.#groups.delete(group);
    return true;
  }

  /**
   * Takes the first item that may be taken, of the first group in turn that has one; the group's next turn comes after
   * those of all others. A group that may not have a turn now keeps its place.
   */
  take(
    mayTakeTurn: (group: string) => boolean = () => true,
    mayBeTaken: (item: T) => boolean = () => true,
  ): T | undefined {
    for (const [group, items] of this.#groups) {
      if (!mayTakeTurn(group)) continue;
      for (const item of items) {
        if (!mayBeTaken(item)) continue;
        this.delete(group, item);
        this.#moveBehind(group);
        return item;
      }
    }
    return undefined;
  }

  clear(): void {
    this.#groups.clear();
    this.#size = 0;
  }

  #moveBehind(group: string): void {
    const items = this.#groups.get(group);
    if (items === undefined) return;
    this.#groups.delete(group);
    this.#groups.set(group, items);
  }
}

/**
 * Whether a group may hold one more of a number of places: as long as it holds fewer than are free. One group alone gets half of
 * them, two get a third each, and there is always a place for the next (dynamic thresholds: Choudhury and Hahne, 1998).
 */
export function hasShare(held: number, heldByAll: number, places: number): boolean {
  return held < places - heldByAll;
}
