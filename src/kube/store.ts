import type { KubeObject } from '../api/object.ts';
import type { Change, IndexFunction } from './types.ts';

/** The objects of one resource by namespace and name, with indexes. Knows nothing of the network. */
export interface Store<T extends KubeObject> {
  readonly size: number;
  get(name: string, namespace?: string): T | undefined;
  list(namespace?: string): readonly T[];
  byIndex(index: string, value: string): readonly T[];
  /** While it is empty; an index of the same name stays. */
  addIndexes(indexes: Record<string, IndexFunction<T>>): void;
  /** Takes in one object; what has changed comes back in order (none, one, or two when the UID is another). */
  put(object: T): Change<T>[];
  /** Takes out the object of that name; with a UID only if it still is that one. */
  remove(object: T): Change<T>[];
  /** Makes the contents exactly these; what is gone then is so by the list. */
  replace(objects: readonly T[]): Change<T>[];
}

/** The answer of an index that has nothing under a value. */
const none: readonly never[] = [];

interface Index<T extends KubeObject> {
  readonly of: IndexFunction<T>;
  readonly values: Map<string, Set<T>>;
}

function addToIndex<T extends KubeObject>(index: Index<T>, object: T): void {
  for (const value of index.of(object)) {
    const found = index.values.get(value);
    if (found === undefined) index.values.set(value, new Set([object]));
    else found.add(object);
  }
}

function removeFromIndex<T extends KubeObject>(index: Index<T>, object: T): void {
  for (const value of index.of(object)) {
    const found = index.values.get(value);
    found?.delete(object);
    if (found?.size === 0) index.values.delete(value);
  }
}

function nameOf(object: KubeObject): string {
  return object.metadata?.name ?? '';
}

function namespaceOf(object: KubeObject): string {
  return object.metadata?.namespace ?? '';
}

function keyOf(object: KubeObject): string {
  return `${namespaceOf(object)}/${nameOf(object)}`;
}

/**
 * An empty store.
 *
 * @param indexes - by name: the values under which an object is found with `byIndex`, which throws TypeError for an index that there is not
 */
export function createStore<T extends KubeObject>(indexes: Record<string, IndexFunction<T>> = {}): Store<T> {
  return new IndexedStore(indexes);
}

class IndexedStore<T extends KubeObject> implements Store<T> {
  readonly #namespaces = new Map<string, Map<string, T>>();
  readonly #indexes = new Map<string, Index<T>>();
  #size = 0;

  constructor(indexes: Record<string, IndexFunction<T>>) {
    this.addIndexes(indexes);
  }

  get size(): number {
    return this.#size;
  }

  get(name: string, namespace = ''): T | undefined {
    return this.#namespaces.get(namespace)?.get(name);
  }

  list(namespace?: string): readonly T[] {
    if (namespace !== undefined) return [...(this.#namespaces.get(namespace)?.values() ?? none)];
    const all: T[] = [];
    for (const names of this.#namespaces.values()) for (const object of names.values()) all.push(object);
    return all;
  }

  byIndex(name: string, value: string): readonly T[] {
    const found = this.#indexes.get(name);
    if (found === undefined) throw new TypeError(`there is no index "${name}"`);
    return [...(found.values.get(value) ?? none)];
  }

  addIndexes(added: Record<string, IndexFunction<T>>): void {
    for (const [name, of] of Object.entries(added))
      if (!this.#indexes.has(name)) this.#indexes.set(name, { of, values: new Map() });
  }

  put(object: T): Change<T>[] {
    const old = this.#find(object);
    if (old === undefined) {
      this.#set(object, undefined);
      return [{ kind: 'added', object }];
    }
    const isSame = old.metadata?.uid === object.metadata?.uid;
    const version = object.metadata?.resourceVersion;
    // A watch that begins anew, or a list beside one, tells again what is known.
    if (isSame && version !== undefined && version === old.metadata?.resourceVersion) return [];
    this.#set(object, old);
    if (isSame) return [{ kind: 'updated', object, old }];
    // Deleted and made anew while nobody watched: whoever keeps something by UID has to let go of the first one.
    return [
      { kind: 'deleted', object: old },
      { kind: 'added', object },
    ];
  }

  remove(object: T): Change<T>[] {
    const old = this.#find(object);
    if (old === undefined) return [];
    const { uid } = object.metadata ?? {};
    if (uid !== undefined && uid !== old.metadata?.uid) return [];
    this.#unset(old);
    return [{ kind: 'deleted', object }];
  }

  replace(objects: readonly T[]): Change<T>[] {
    const kept = new Set(objects.map(keyOf));
    const gone = this.list().filter((object) => !kept.has(keyOf(object)));
    const changes = [
      ...gone.flatMap((object) => this.remove(object)),
      ...objects.flatMap((object) => this.put(object)),
    ];
    for (const change of changes) if (change.kind === 'deleted') change.isFromList = true;
    return changes;
  }

  #find(object: T): T | undefined {
    return this.get(nameOf(object), namespaceOf(object));
  }

  #set(object: T, old: T | undefined): void {
    const namespace = namespaceOf(object);
    const names = this.#namespaces.get(namespace) ?? new Map<string, T>();
    this.#namespaces.set(namespace, names);
    names.set(nameOf(object), object);
    this.#size += old === undefined ? 1 : 0;
    for (const index of this.#indexes.values()) {
      if (old !== undefined) removeFromIndex(index, old);
      addToIndex(index, object);
    }
  }

  #unset(object: T): void {
    const namespace = namespaceOf(object);
    const names = this.#namespaces.get(namespace);
    names?.delete(nameOf(object));
    if (names?.size === 0) this.#namespaces.delete(namespace);
    this.#size -= 1;
    for (const index of this.#indexes.values()) removeFromIndex(index, object);
  }
}
