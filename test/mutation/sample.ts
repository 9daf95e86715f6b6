/** Pseudo-random numbers from 0 up to 1, the same for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** At most `most` of the items, each as likely as any other, in their order. */
export function sampleOf<T>(items: readonly T[], most: number, random: () => number): T[] {
  return items
    .map((item, index) => ({ item, index, rank: random() }))
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, most)
    .toSorted((a, b) => a.index - b.index)
    .map(({ item }) => item);
}
