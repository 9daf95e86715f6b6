import type { KubeObject } from '../../api/object.ts';
import type { Change, Informer } from '../../kube/types.ts';
import type { JsonText } from './jsontext.ts';

/**
 * The `{"items":[…]}` of every namespace as bytes, put together from the JSON of single objects: an object is
 * serialised at most once per change, by the first who reads it, and a list once per change of its namespace.
 */
export interface ItemLists<I> {
  list(namespace: string): JsonText<{ items: I[] }>;
  item(name: string, namespace: string): JsonText<I> | undefined;
}

interface NamespaceItems<T> {
  /** The JSON of what has been read since its last change, else the object. */
  readonly byName: Map<string, string | T>;
  bytes?: Buffer | undefined;
}

const emptyList = Buffer.from('{"items":[]}');

export function createItemLists<T extends KubeObject, I>(
  informer: Informer<T>,
  toItem: (object: T) => I,
): ItemLists<I> {
  const namespaces = new Map<string, NamespaceItems<T>>();

  function apply(change: Change<T>): void {
    const { name = '', namespace = '' } = change.object.metadata ?? {};
    let items = namespaces.get(namespace);
    if (change.kind === 'deleted') {
      items?.byName.delete(name);
      if (items?.byName.size === 0) namespaces.delete(namespace);
    } else {
      if (items === undefined) {
        items = { byName: new Map() };
        namespaces.set(namespace, items);
      }
      items.byName.set(name, change.object);
    }
    if (items !== undefined) items.bytes = undefined;
  }

  function textOf({ byName }: NamespaceItems<T>, name: string): string | undefined {
    const known = byName.get(name);
    if (known === undefined || typeof known === 'string') return known;
    const text = JSON.stringify(toItem(known));
    byName.set(name, text);
    return text;
  }

  informer.onChange(apply);
  return {
    list(namespace) {
      const items = namespaces.get(namespace);
      if (items === undefined) return emptyList;
      items.bytes ??= Buffer.from(
        `{"items":[${[...items.byName.keys()]
          .sort()
          .map((name) => textOf(items, name))
          .join(',')}]}`,
      );
      return items.bytes;
    },
    item(name, namespace) {
      const items = namespaces.get(namespace);
      return items === undefined ? undefined : textOf(items, name);
    },
  };
}
