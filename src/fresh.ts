/** The answer for a key: the one that is there, or else the one that `ask` gives, also to those who come meanwhile. */
export type Fresh<T> = (key: string, ask: () => Promise<T>) => Promise<T>;

/**
 * Keeps each answer, a refusal too, for so many milliseconds after it has come, so that many who ask are one question.
 *
 * @param freshMs - or how many, by the milliseconds that the answer took
 */
export function keepFresh<T>(freshMs: number | ((tookMs: number) => number)): Fresh<T> {
  const kept = new Map<string, Promise<T>>();
  const keepMs = typeof freshMs === 'number' ? () => freshMs : freshMs;
  return (key, ask) => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const askedAt = performance.now();
    const asked = ask().finally(() =>
      setTimeout(() => kept.delete(key), keepMs(performance.now() - askedAt)).unref(),
    );
    kept.set(key, asked);
    return asked;
  };
}
