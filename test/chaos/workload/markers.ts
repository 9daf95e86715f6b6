/** What guests were made to write and sync: it has to be in every image saved after that, and on the disk as long as it lives. */

interface Written {
  readonly marker: string;
  readonly vmUid: string;
  readonly podUid: string;
  readonly isPersistent: boolean;
}

export class Markers {
  #written: readonly Written[] = [];
  readonly #reverted = new Set<string>();

  /** What is written after a revert was asked for does not count: it may be carried out long after it was accepted. */
  add(written: Written): void {
    if (this.#reverted.has(written.vmUid)) return;
    this.#written = [...this.#written, written];
  }

  /** A revert was asked for, whatever came of it: what was written may be gone. */
  forget(vmUid: string): void {
    this.#reverted.add(vmUid);
    this.#written = this.#written.filter((each) => each.vmUid !== vmUid);
  }

  /** What the disk of a VM must hold; an Ephemeral disk goes with its pod. */
  of(vmUid: string, podUid: string | undefined): string[] {
    return this.#written
      .filter((each) => each.vmUid === vmUid && (each.isPersistent || each.podUid === podUid))
      .map(({ marker }) => marker);
  }

  /** Whether it must still be there, in whatever pods its VM had been until now. */
  holds(marker: string, podUids: readonly string[]): boolean {
    const found = this.#written.find((each) => each.marker === marker);
    if (found === undefined) return false;
    // The last pod is the one that it was written in.
    return found.isPersistent || podUids.at(-1) === found.podUid;
  }
}
