import { describe, expect, test, vi } from 'vitest';
import type { ConfigMap } from '../../../../src/api/core.ts';
import { createItemLists } from '../../../../src/http/server/itemlists.ts';
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
