import { describe, expect, test, vi } from 'vitest';
import type { ConfigMap } from '../../../../src/api/core.ts';
import { createItemLists } from '../../../../src/http/call/itemlists.ts';
import type { Change, Informer } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const object = (name: string, text: string, namespace = 'team'): ConfigMap => ({
  metadata: storedMeta({ name, namespace }),
  data: { text },
});

/** Lists over an informer that the test is, and how often an object was made an item. */
function lists() {
  let tell: (change: Change<ConfigMap>) => void = () => undefined;
  const informer = {
    onChange: (listener: typeof tell) => (tell = listener),
  } as unknown as Informer<ConfigMap>;
  const toItem = vi.fn((from: ConfigMap) => ({ name: from.metadata.name, text: from.data?.['text'] }));
  const items = createItemLists(informer, toItem);
  const add = (added: ConfigMap) => tell({ kind: 'added', object: added });
  return {
    add,
    change: (changed: ConfigMap) => tell({ kind: 'updated', object: changed, old: changed }),
    remove: (gone: ConfigMap) => tell({ kind: 'deleted', object: gone }),
    read: (namespace = 'team') => JSON.parse(String(items.list(namespace))) as { items: { name: string }[] },
    bytes: () => items.list('team'),
    all: () => items.list(undefined),
    item: (name: string) => items.item(name, 'team'),
    toItem,
  };
}

describe('the list of a namespace', () => {
  test('is in the order of names, without the objects of others', () => {
    const { add, read } = lists();
    for (const one of [object('b', '2'), object('a', '1'), object('c', '3', 'other')]) add(one);
    expect(read()).toEqual({
      items: [
        { name: 'a', text: '1' },
        { name: 'b', text: '2' },
      ],
    });
    expect(read('nobodys')).toEqual({ items: [] });
  });

  test('follows every change', () => {
    const { add, change, remove, read } = lists();
    add(object('a', '1'));
    expect(read().items).toHaveLength(1);
    change(object('a', '2'));
    expect(read()).toEqual({ items: [{ name: 'a', text: '2' }] });
    remove(object('a', '2'));
    expect(read()).toEqual({ items: [] });
    remove(object('never', 'was'));
    expect(read()).toEqual({ items: [] });
  });
});

describe('the list of all namespaces', () => {
  const namesIn = (bytes: unknown) =>
    (JSON.parse(String(bytes)) as { items: { name: string }[] }).items.map(({ name }) => name);

  test('has the lists of the namespaces one after the other, as they are now', () => {
    const { add, remove, all } = lists();
    expect(namesIn(all())).toEqual([]);
    for (const one of [object('b', '1'), object('z', '1', 'first'), object('a', '1')]) add(one);
    expect(namesIn(all())).toEqual(['z', 'a', 'b']);
    remove(object('a', '1'));
    expect(namesIn(all())).toEqual(['z', 'b']);
    remove(object('z', '1', 'first'));
    remove(object('b', '1'));
    expect(namesIn(all())).toEqual([]);
  });

  test('is put together once per change, of items that are serialised once', () => {
    const { add, all, bytes, toItem } = lists();
    add(object('a', '1'));
    bytes();
    expect(all()).toBe(all());
    expect(toItem).toHaveBeenCalledTimes(1);
    add(object('b', '1', 'other'));
    all();
    expect(toItem).toHaveBeenCalledTimes(2);
  });
});

test('an object is serialised once per change, by the first who reads it, and a list once per change of its namespace', () => {
  const { add, change, bytes, item, toItem } = lists();
  add(object('a', '1'));
  add(object('b', '1'));
  expect(toItem).toHaveBeenCalledTimes(0);
  expect(item('a')).toBe('{"name":"a","text":"1"}');
  expect(bytes()).toBe(bytes());
  expect(toItem).toHaveBeenCalledTimes(2);
  change(object('b', '2'));
  bytes();
  expect(toItem).toHaveBeenCalledTimes(3);
  expect(item('none')).toBeUndefined();
});
