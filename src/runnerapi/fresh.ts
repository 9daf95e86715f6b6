/** The answer for a key: the one that is there, or else the one that `ask` gives, also to those who come meanwhile. */
export type Fresh<T> = (key: string, ask: () => Promise<T>) => Promise<T>;

/** Keeps each answer, a refusal too, for so many milliseconds after it has come, so that many who ask are one question. */
export function keepFresh<T>(freshMs: number): Fresh<T> {
  const kept = new Map<string, Promise<T>>();
  return (key, ask) => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const asked = ask().finally(() => setTimeout(() => kept.delete(key), freshMs).unref());
    kept.set(key, asked);
    return asked;
  };
}
