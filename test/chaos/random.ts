/** Choices that repeat: the same seed gives the same sequence of numbers. */
export interface Random {
  /** 0 ≤ x < 1. */
  next(): number;
  /** A whole number, both ends included. */
  between(least: number, most: number): number;
  /** @throws RangeError for an empty list */
  pick<T>(list: readonly T[]): T;
  /** Each choice as often as its weight says; weights of 0 never. */
  weighted<T>(choices: readonly { readonly weight: number; readonly value: T }[]): T;
  chance(probability: number): boolean;
  /** Lowercase letters and digits. */
  word(length: number): string;
  /** A sequence of its own: what is drawn from it does not move this one. */
  fork(name: string): Random;
}

/** FNV-1a: a number for the text of a seed. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const character of Buffer.from(text)) value = Math.imul(value ^ character, 0x01000193);
  return value >>> 0;
}

/** Mulberry32: 32 bits of state are enough for choices of a test. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'.split('');

export function createRandom(seed: string): Random {
  const next = generator(hash(seed));
  const between = (least: number, most: number): number => least + Math.floor(next() * (most - least + 1));
  const pick = <T>(list: readonly T[]): T => {
    if (list.length === 0) throw new RangeError('nothing to pick from');
    return list[between(0, list.length - 1)] as T;
  };
  return {
    next,
    between,
    pick,
    weighted(choices) {
      const sum = choices.reduce((all, { weight }) => all + weight, 0);
      if (sum <= 0) throw new RangeError('no choice has a weight');
      let left = next() * sum;
      const found = choices.find(({ weight }) => (left -= weight) < 0);
      return (found ?? pick(choices.filter(({ weight }) => weight > 0))).value;
    },
    chance: (probability) => next() < probability,
    word: (length) => Array.from({ length }, () => pick(letters)).join(''),
    fork: (name) => createRandom(`${seed}/${name}`),
  };
}
