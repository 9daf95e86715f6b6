import type { KubeObject } from '../../api/object.ts';
import type { Change, Informer } from '../../kube/types.ts';
import type { JsonText } from './jsontext.ts';

/**
 * The `{"items":[…]}` of every namespace as bytes, put together from the JSON of single objects: an object is
 * serialised at most once per change, by the first who reads it, and a list once per change of what is in it.
 */
export interface ItemLists<I> {
  /** @param namespace - undefined for those of all */
  list(namespace: string | undefined): JsonText<{ items: I[] }>;
  item(name: string, namespace: string): JsonText<I> | undefined;
}

interface NamespaceItems<T> {
  /** The JSON of what has been read since its last change, else the object. */
  readonly byName: Map<string, string | T>;
  bytes?: Buffer | undefined;
}

function listOf(texts: readonly (string | undefined)[]): Buffer {
  return Buffer.from(`{"items":[${texts.join(',')}]}`);
}

const emptyList = Buffer.from('{"items":[]}');

/**
 * Follows the informer from now on: call before it runs. Lists are sorted by namespace and name.
 *
 * @param toItem - what is shown of an object; it is called once per change, so it has to depend on nothing but the object
 */
export function createItemLists<T extends KubeObject, I>(
  informer: Informer<T>,
  toItem: (object: T) => I,
): ItemLists<I> {
  const namespaces = new Map<string, NamespaceItems<T>>();
  let all: Buffer | undefined;

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
    all = undefined;
  }

  function textOf({ byName }: NamespaceItems<T>, name: string): string | undefined {
    const known = byName.get(name);
    if (known === undefined || typeof known === 'string') return known;
    const text = JSON.stringify(toItem(known));
    byName.set(name, text);
    return text;
  }

  function textsOf(items: NamespaceItems<T>): (string | undefined)[] {
    return [...items.byName.keys()].sort().map((name) => textOf(items, name));
  }

  informer.onChange(apply);
  return {
    list(namespace) {
      if (namespace === undefined) {
        const byNamespace = [...namespaces].sort(([a], [b]) => (a < b ? -1 : 1));
        return (all ??= listOf(byNamespace.flatMap(([, items]) => textsOf(items))));
      }
      const items = namespaces.get(namespace);
      return items === undefined ? emptyList : (items.bytes ??= listOf(textsOf(items)));
    },
    item(name, namespace) {
      const items = namespaces.get(namespace);
      return items === undefined ? undefined : textOf(items, name);
    },
  };
}
