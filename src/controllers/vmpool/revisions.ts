/** What guests of pools are made from, as far as that was found out last, by the UID of their pool. */
export class PoolRevisions {
  /** Digests: that with which everything was pinned, and that of what is made while it is not. */
  readonly #known = new Map<string, readonly string[]>();

  /**
   * Digests of what guests are made from that are as they should be; undefined while nobody knows. While a registry is asked, or does not answer, those
   * are that were before: a guest that boots in the place of another would be one too many.
   *
   * @param found - of a guest that is made now, and whether its image and ISO are digests; undefined: nothing is known of it
   */
  look(
    poolUid: string,
    found: { readonly revision: string; readonly isPinned: boolean } | undefined,
  ): readonly string[] | undefined {
    const known = this.#known.get(poolUid);
    if (found === undefined) return known;
    const { revision, isPinned } = found;
    if (!isPinned && known === undefined) return undefined;
    const revisions = isPinned ? [revision] : [...(known ?? []).slice(0, 1), revision];
    this.#known.set(poolUid, revisions);
    return revisions;
  }

  /** The pool is gone. */
  forget(poolUid: string): void {
    this.#known.delete(poolUid);
  }
}
