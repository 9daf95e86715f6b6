import { missing, type Need, RESOURCES, type ResourceVector } from './resources.ts';

/** What the tree keeps of a node: its place in the order and what is free on it. */
export interface Entry {
  readonly name: string;
  /** Fraction of the node that is free, 0…1. */
  score: number;
  free: ResourceVector;
}

interface Branch<E extends Entry> {
  readonly entry: E;
  readonly priority: number;
  left: Branch<E> | undefined;
  right: Branch<E> | undefined;
  size: number;
  readonly max: ResourceVector;
  readonly min: ResourceVector;
}

/**
 * The nodes of one class ordered by how free they are (the freest first, then by name), each branch with the most and
 * the least that is free under it: the first node that fits is found, and those that do not fit are counted, without
 * looking at every node. A treap; priorities come from the name, so the same nodes always give the same tree.
 */
export class NodeTree<E extends Entry> {
  #root: Branch<E> | undefined;

  get size(): number {
    return this.#root?.size ?? 0;
  }

  insert(entry: E): void {
    const branch: Branch<E> = {
      entry,
      priority: hash(entry.name),
      left: undefined,
      right: undefined,
      size: 1,
      max: [...entry.free],
      min: [...entry.free],
    };
    const [left, right] = split(this.#root, entry);
    this.#root = merge(merge(left, branch), right);
  }

  /** The entry must be as it was when it was inserted: remove before changing its score or what is free. */
  remove(entry: E): void {
    this.#root = removed(this.#root, entry);
  }

  /** The first entry that has what is needed and that `accepts`; from the fullest when `packed`. */
  first(need: Need, packed: boolean, accepts: (entry: E) => boolean): E | undefined {
    return firstUnder(this.#root, need, packed, accepts);
  }

  /** Adds up how many entries lack what: bit mask of dimensions → number of entries. */
  countMissing(need: Need, into: Map<number, number>): void {
    countUnder(this.#root, need, into);
  }
}

/** FNV-1a, then mixed: names that differ in the last digit must not get neighbouring priorities. */
function hash(text: string): number {
  let value = 0x81_1c_9d_c5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01_00_01_93);
  value = Math.imul(value ^ (value >>> 16), 0x85_eb_ca_6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2_b2_ae_35);
  return (value ^ (value >>> 16)) >>> 0;
}

function before(a: Entry, b: Entry): boolean {
  return a.score === b.score ? a.name < b.name : a.score > b.score;
}

function update<E extends Entry>(branch: Branch<E>): Branch<E> {
  const { entry, left, right, max, min } = branch;
  branch.size = 1 + (left?.size ?? 0) + (right?.size ?? 0);
  for (let i = 0; i < RESOURCES; i++) {
    let most = entry.free[i] as number;
    let least = most;
    if (left !== undefined) {
      if ((left.max[i] as number) > most) most = left.max[i] as number;
      if ((left.min[i] as number) < least) least = left.min[i] as number;
    }
    if (right !== undefined) {
      if ((right.max[i] as number) > most) most = right.max[i] as number;
      if ((right.min[i] as number) < least) least = right.min[i] as number;
    }
    max[i] = most;
    min[i] = least;
  }
  return branch;
}

function split<E extends Entry>(
  branch: Branch<E> | undefined,
  at: Entry,
): [Branch<E> | undefined, Branch<E> | undefined] {
  if (branch === undefined) return [undefined, undefined];
  if (before(branch.entry, at)) {
    const [left, right] = split(branch.right, at);
    branch.right = left;
    return [update(branch), right];
  }
  const [left, right] = split(branch.left, at);
  branch.left = right;
  return [left, update(branch)];
}

function merge<E extends Entry>(
  left: Branch<E> | undefined,
  right: Branch<E> | undefined,
): Branch<E> | undefined {
  if (left === undefined) return right;
  if (right === undefined) return left;
  if (left.priority > right.priority) {
    left.right = merge(left.right, right);
    return update(left);
  }
  right.left = merge(left, right.left);
  return update(right);
}

function removed<E extends Entry>(branch: Branch<E> | undefined, entry: E): Branch<E> | undefined {
  if (branch === undefined) return undefined;
  if (branch.entry === entry) return merge(branch.left, branch.right);
  if (before(entry, branch.entry)) branch.left = removed(branch.left, entry);
  else branch.right = removed(branch.right, entry);
  return update(branch);
}

function firstUnder<E extends Entry>(
  branch: Branch<E> | undefined,
  need: Need,
  packed: boolean,
  accepts: (entry: E) => boolean,
): E | undefined {
  if (branch === undefined || missing(branch.max, need) !== 0) return undefined;
  const found = firstUnder(packed ? branch.right : branch.left, need, packed, accepts);
  if (found !== undefined) return found;
  if (missing(branch.entry.free, need) === 0 && accepts(branch.entry)) return branch.entry;
  return firstUnder(packed ? branch.left : branch.right, need, packed, accepts);
}

function countUnder<E extends Entry>(
  branch: Branch<E> | undefined,
  need: Need,
  into: Map<number, number>,
): void {
  if (branch === undefined) return;
  const all = missing(branch.max, need);
  // What even the least free one has is missing nowhere; what even the freest lacks is missing everywhere.
  if (missing(branch.min, need) === all) {
    into.set(all, (into.get(all) ?? 0) + branch.size);
    return;
  }
  const own = missing(branch.entry.free, need);
  into.set(own, (into.get(own) ?? 0) + 1);
  countUnder(branch.left, need, into);
  countUnder(branch.right, need, into);
}
