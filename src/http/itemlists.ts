import type { Change, Informer, KubeObject } from '../kube/types.ts';

/**
 * The `{"items":[…]}` of every namespace as bytes, put together from the JSON of single objects: an object is
 * serialised once per change, a list once per change of its namespace, a request costs neither.
 */
export interface ItemLists {
  list(namespace: string): Buffer;
  item(name: string, namespace: string): string | undefined;
}

interface NamespaceItems {
  readonly byName: Map<string, string>;
  bytes?: Buffer | undefined;
}

const emptyList = Buffer.from('{"items":[]}');

export function createItemLists<T extends KubeObject>(
  informer: Informer<T>,
  toItem: (object: T) => unknown,
): ItemLists {
  const namespaces = new Map<string, NamespaceItems>();

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
      items.byName.set(name, JSON.stringify(toItem(change.object)));
    }
    if (items !== undefined) items.bytes = undefined;
  }

  informer.onChange(apply);
  return {
    list(namespace) {
      const items = namespaces.get(namespace);
      if (items === undefined) return emptyList;
      items.bytes ??= Buffer.from(
        `{"items":[${[...items.byName.keys()]
          .sort()
          .map((name) => items.byName.get(name))
          .join(',')}]}`,
      );
      return items.bytes;
    },
    item: (name, namespace) => namespaces.get(namespace)?.byName.get(name),
  };
}
