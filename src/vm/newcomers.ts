/** So many new VMs are no crowd, and nobody waits for them. */
const few = 16;

/** So long after its pod was made the status of a VM may wait for others' pods, in milliseconds. */
export const patienceMs = 10_000;

/**
 * VMs that no pass has looked at yet. While they are many their pods come first and the statuses of others wait: writes
 * take turns at kube-apiserver, and a status that comes a little later often tells in one write what else were two.
 */
export class Newcomers {
  readonly #wake: (key: string) => void;
  readonly #unseen = new Set<string>();
  readonly #waiting = new Set<string>();
  /** Those that came with others, until all is said of them. */
  readonly #crowd = new Set<string>();

  /** `wake` is called with the key of each VM that has waited when the crowd is gone. */
  constructor(wake: (key: string) => void) {
    this.#wake = wake;
  }

  came(key: string): void {
    this.#unseen.add(key);
  }

  /** A pass has looked at it, whatever came of that; or it is gone. */
  saw(key: string): void {
    if (!this.#unseen.delete(key) || this.#unseen.size > few) return;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const one of waiting) this.#wake(one);
  }

  /** Whether the VM's status has to wait; if so, it is woken later. */
  goBefore(key: string): boolean {
    if (this.#unseen.size <= few) return false;
    this.#waiting.add(key);
    this.#crowd.add(key);
    return true;
  }

  /** Whether the VM has had to wait: its start takes longer than that of one alone, and is no more news for that. */
  wasInCrowd(key: string): boolean {
    return this.#crowd.has(key);
  }

  /** Its status is written, or it is gone. */
  left(key: string): void {
    this.#crowd.delete(key);
  }
}
