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
  /** Makes the contents exactly these. */
  replace(objects: readonly T[]): Change<T>[];
}

/** Ordered by creation; empty lists cost nothing to keep. */
const none: readonly never[] = [];

interface Index<T extends KubeObject> {
  readonly of: IndexFunction<T>;
  readonly values: Map<string, Set<T>>;
}

function addToIndex<T extends KubeObject>(index: Index<T>, object: T): void {
  for (const value of index.of(object)) {
    const found = index.values.get(value);
    if (found === undefined) {
      index.values.set(value, new Set([object]));
    } else {
      found.add(object);
    }
  }
}

function removeFromIndex<T extends KubeObject>(index: Index<T>, object: T): void {
  for (const value of index.of(object)) {
    const found = index.values.get(value);
    found?.delete(object);
    if (found?.size === 0) {
      index.values.delete(value);
    }
  }
}

function nameOf(object: KubeObject): string {
  return object.metadata?.name ?? '';
}

function namespaceOf(object: KubeObject): string {
  return object.metadata?.namespace ?? '';
}

export function createStore<T extends KubeObject>(indexes: Record<string, IndexFunction<T>> = {}): Store<T> {
  const namespaces = new Map<string, Map<string, T>>();
  const index = new Map<string, Index<T>>();
  let size = 0;

  function addIndexes(added: Record<string, IndexFunction<T>>): void {
    for (const [name, of] of Object.entries(added)) {
      if (!index.has(name)) {
        index.set(name, { of, values: new Map() });
      }
    }
  }
  addIndexes(indexes);

  const find = (object: T): T | undefined => namespaces.get(namespaceOf(object))?.get(nameOf(object));

  function set(object: T, old: T | undefined): void {
    const namespace = namespaceOf(object);
    const names = namespaces.get(namespace) ?? new Map<string, T>();
    namespaces.set(namespace, names);
    names.set(nameOf(object), object);
    size += old === undefined ? 1 : 0;
    for (const each of index.values()) {
      if (old !== undefined) {
        removeFromIndex(each, old);
      }
      addToIndex(each, object);
    }
  }

  function unset(object: T): void {
    const namespace = namespaceOf(object);
    const names = namespaces.get(namespace);
    names?.delete(nameOf(object));
    if (names?.size === 0) {
      namespaces.delete(namespace);
    }
    size -= 1;
    for (const each of index.values()) {
      removeFromIndex(each, object);
    }
  }

  function put(object: T): Change<T>[] {
    const old = find(object);
    if (old === undefined) {
      set(object, undefined);
      return [{ kind: 'added', object }];
    }
    const sameUid = old.metadata?.uid === object.metadata?.uid;
    const version = object.metadata?.resourceVersion;
    if (sameUid && version !== undefined && version === old.metadata?.resourceVersion) {
      return [];
    }
    set(object, old);
    return sameUid
      ? [{ kind: 'updated', object, old }]
      : [
          { kind: 'deleted', object: old },
          { kind: 'added', object },
        ];
  }

  function remove(object: T): Change<T>[] {
    const old = find(object);
    if (
      old === undefined ||
      (object.metadata?.uid !== undefined && object.metadata.uid !== old.metadata?.uid)
    ) {
      return [];
    }
    unset(old);
    return [{ kind: 'deleted', object }];
  }

  function list(namespace?: string): readonly T[] {
    if (namespace !== undefined) {
      return [...(namespaces.get(namespace)?.values() ?? none)];
    }
    const all: T[] = [];
    for (const names of namespaces.values()) {
      for (const object of names.values()) {
        all.push(object);
      }
    }
    return all;
  }

  return {
    get size() {
      return size;
    },
    get: (name, namespace = '') => namespaces.get(namespace)?.get(name),
    list,
    byIndex(name, value) {
      const found = index.get(name);
      if (found === undefined) {
        throw new TypeError(`there is no index "${name}"`);
      }
      return [...(found.values.get(value) ?? none)];
    },
    addIndexes,
    put,
    remove,
    replace(objects) {
      const kept = new Set(objects.map((object) => `${namespaceOf(object)}/${nameOf(object)}`));
      const gone = list().filter((object) => !kept.has(`${namespaceOf(object)}/${nameOf(object)}`));
      return [...gone.flatMap((object) => remove(object)), ...objects.flatMap((object) => put(object))];
    },
  };
}
