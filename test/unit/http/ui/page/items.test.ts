import { describe, expect, test } from 'vitest';
import {
  changedItems,
  itemsOf,
  kindsIn,
  matchingVms,
  noItems,
} from '../../../../../src/http/ui/page/items.ts';
import type { VmItem, VmPoolItem } from '../../../../../src/wire/vmschemas.ts';

const vm = (name: string, more: Partial<VmItem> = {}): VmItem => ({
  name,
  namespace: 'team',
  cpu: 2,
  memory: '4Gi',
  gpuPassthrough: false,
  vncConsole: true,
  ssh: 0,
  status: 'Running',
  ...more,
});

describe('what the page knows', () => {
  test('is the snapshot, and each change on top of it', () => {
    const items = itemsOf({ vms: [vm('a'), vm('b')] });
    const changed = changedItems(items, {
      vms: { changed: [vm('a', { status: 'Stopped' }), vm('c')], gone: ['team/b'] },
    });
    expect([...changed.vms.values()].map(({ name, status }) => `${name} ${status}`)).toEqual([
      'a Stopped',
      'c Running',
    ]);
    expect(items.vms.get('team/a')?.status).toBe('Running');
    expect(changed.images).toBe(items.images);
  });

  test('has pools as the stream names them', () => {
    const pool: VmPoolItem = {
      name: 'ci',
      namespace: 'team',
      minIdle: 1,
      standby: 'Suspended',
      serveConfig: false,
      idle: 0,
      preparing: 1,
      claimed: 0,
    };
    const filled: VmPoolItem = { ...pool, idle: 1 };
    const items = changedItems(itemsOf({ vmPools: [pool, { ...pool, name: 'other' }] }), {
      vmPools: { changed: [filled], gone: ['team/other'] },
    });
    expect([...items.vmPools.values()].map(({ name, idle }) => `${name} ${idle}`)).toEqual(['ci 1']);
  });

  test('has no kinds that may not be listed, and tells them from those of which there are none', () => {
    expect(itemsOf({})).toEqual(noItems);
    expect(kindsIn({})).toEqual(new Set());
    expect(itemsOf({ vms: [], images: [] })).toEqual(noItems);
    expect(kindsIn({ vms: [], images: [] })).toEqual(new Set(['vms', 'images']));
  });
});

describe('the search', () => {
  const vms = [
    vm('web', { node: 'node-1' }),
    vm('build', { status: 'Pending', message: 'no node has enough memory' }),
    vm('a', { namespace: 'other', image: 'debian:12' }),
  ];
  test.each([
    ['everything, in order', '', '', ['a', 'build', 'web']],
    ['words anywhere', 'NODE enough', '', ['build']],
    ['a state', '', 'Running', ['a', 'web']],
    ['both', 'debian', 'Running', ['a']],
    ['words of any column', 'pending', '', ['build']],
    ['nothing', 'debian', 'Failed', []],
  ])('finds %s', (_, words, status, expected) => {
    expect(matchingVms(vms, words, status).map(({ name }) => name)).toEqual(expected);
  });
});
