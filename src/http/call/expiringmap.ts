/** A bounded map whose entries end by themselves; the oldest goes first when it is full. */
export class ExpiringMap<V> {
  readonly #entries = new Map<string, { value: V; endsAt: number }>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.endsAt > performance.now()) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  set(key: string, value: V, ttlMs: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#maxEntries) {
      const oldest = this.#entries.keys().next();
      if (oldest.done !== true) this.#entries.delete(oldest.value);
    }
    this.#entries.set(key, { value, endsAt: performance.now() + ttlMs });
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** One call for all who ask at the same time; a failed promise is forgotten at once. */
  getOrMake<T>(
    this: ExpiringMap<Promise<T>>,
    key: string,
    ttlMs: number,
    make: () => Promise<T>,
  ): Promise<T> {
    const known = this.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.set(key, made, ttlMs);
    made.catch(() => {
      if (this.get(key) === made) this.delete(key);
    });
    return made;
  }
}
