/** How long a node that turned a pod away is only taken when nothing else fits, in milliseconds. */
const avoidMs = 120_000;

/** Nodes that turned pods away, by the UID of the object that the pods were made for. In memory only. */
export class AvoidedNodes {
  /** Until when a node is avoided. */
  readonly #until = new Map<string, Map<string, number>>();
  readonly #now: () => number;

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** @param isLasting - until all are forgotten; else for two minutes */
  add(uid: string, node: string, isLasting = false): void {
    const nodes = this.#until.get(uid) ?? new Map<string, number>();
    const until = isLasting ? Number.POSITIVE_INFINITY : this.#now() + avoidMs;
    nodes.set(node, Math.max(until, nodes.get(node) ?? 0));
    this.#until.set(uid, nodes);
  }

  of(uid: string): ReadonlySet<string> {
    const now = this.#now();
    return this.#where(uid, (until) => until > now);
  }

  /** Those among them that are avoided until all are forgotten. */
  lastingOf(uid: string): ReadonlySet<string> {
    return this.#where(uid, (until) => until === Number.POSITIVE_INFINITY);
  }

  forget(uid: string): void {
    this.#until.delete(uid);
  }

  #where(uid: string, isMeant: (until: number) => boolean): ReadonlySet<string> {
    const nodes = [...(this.#until.get(uid) ?? [])];
    return new Set(nodes.filter(([, until]) => isMeant(until)).map(([node]) => node));
  }
}
