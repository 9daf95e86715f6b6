import type { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import { Undecided } from '../../../../src/http/auth/decisions.ts';
import type { Caches } from '../../../../src/http/call/caches.ts';
import type { AccessAttributes, Caller } from '../../../../src/http/call/caller.ts';
import { liveStream } from '../../../../src/http/ui/live.ts';

const forbidden = new Svc3Error('Forbidden', 'no right any more');
let objects: Map<string, { namespace: string; name: string; version: number }>;
let followers: Set<(object: KubeObject) => void>;
let allowed: Set<string>;
/** An authorizer that might allow more cannot be asked. */
let isUndecided: boolean;
let gone: AbortController;
/** Until then nobody knows who may do what. */
let authorizing: Promise<void> | undefined;

beforeEach(() => {
  vi.useFakeTimers();
  objects = new Map();
  followers = new Set();
  allowed = new Set(['vms']);
  isUndecided = false;
  gone = new AbortController();
  authorizing = undefined;
});
afterEach(() => {
  gone.abort();
  vi.useRealTimers();
});

const cacheOf = (own: boolean) => ({
  objects: {
    list: (namespace?: string) =>
      own
        ? [...objects.values()]
            .filter((one) => namespace === undefined || one.namespace === namespace)
            .map((metadata) => ({ metadata }))
        : [],
  },
  items: {
    item(name: string, namespace: string) {
      const found = own ? objects.get(`${namespace}/${name}`) : undefined;
      return found === undefined ? undefined : JSON.stringify(found);
    },
  },
  changes: {
    follow(listener: (object: KubeObject) => void) {
      if (own) followers.add(listener);
      return () => void followers.delete(listener);
    },
  },
});

const caches = () =>
  ({
    vms: cacheOf(true),
    images: cacheOf(false),
    isos: cacheOf(false),
    vmConfigs: cacheOf(false),
    // Has the same objects, and changes with them.
    vmPools: cacheOf(true),
    accounts: { onDeleted: () => () => undefined, isDeleted: () => false },
  }) as unknown as Caches;

function put(name: string, version: number, namespace = 'team'): void {
  objects.set(`${namespace}/${name}`, { namespace, name, version });
  for (const follower of followers) follower({ metadata: { name, namespace } });
}

function remove(name: string, namespace = 'team'): void {
  objects.delete(`${namespace}/${name}`);
  for (const follower of followers) follower({ metadata: { name, namespace } });
}

const caller = {
  key: 'ann',
  authorize: async (attributes: AccessAttributes) => {
    await authorizing;
    if (allowed.has(attributes.resource)) return;
    throw isUndecided ? new Undecided(attributes, 'ann', 'no webhook') : forbidden;
  },
  user: () => Promise.resolve({ username: 'ann' }),
} as unknown as Caller;

const open = (namespace: string | undefined = 'team', inParts = false) =>
  liveStream({ caller, caches: caches(), namespace, signal: gone.signal, inParts });

/** What has come, as events. */
function read(stream: Readable): [string, unknown][] {
  const text = String((stream.read() as Buffer | null) ?? '');
  return [...text.matchAll(/^event: (\w+)\ndata: (.*)\n\n/gm)].map(([, event = '', data = '']) => [
    event,
    JSON.parse(data) as unknown,
  ]);
}

describe('the stream of a page', () => {
  test('begins with everything that the caller may list, and with nothing else', async () => {
    put('a', 1);
    put('b', 1, 'other');
    const stream = await open();
    expect(read(stream)).toEqual([['snapshot', { vms: [{ namespace: 'team', name: 'a', version: 1 }] }]]);
  });

  test('is that of the rights that can be told, and goes on while its own cannot', async () => {
    isUndecided = true;
    put('a', 1);
    const stream = await open();
    expect(read(stream)).toEqual([['snapshot', { vms: [{ namespace: 'team', name: 'a', version: 1 }] }]]);
    allowed = new Set();
    await vi.advanceTimersByTimeAsync(19_000);
    expect(read(stream)).toEqual([['beat', {}]]);
    isUndecided = false;
    await vi.advanceTimersByTimeAsync(2_000);
    expect(read(stream)).toEqual([['over', { message: 'no right any more' }]]);
  });

  test('tells of all namespaces where none is named', async () => {
    put('a', 1);
    put('b', 1, 'other');
    const [[, snapshot] = []] = read(
      await liveStream({ caller, caches: caches(), namespace: undefined, signal: gone.signal }),
    );
    expect((snapshot as { vms: unknown[] }).vms).toHaveLength(2);
  });

  test('tells changes that come together together, each in its newest state', async () => {
    put('a', 1);
    const stream = await open();
    read(stream);
    put('a', 2);
    put('a', 3);
    put('b', 1);
    remove('b');
    put('c', 1, 'other');
    await vi.advanceTimersByTimeAsync(150);
    expect(read(stream)).toEqual([
      ['change', { vms: { changed: [{ namespace: 'team', name: 'a', version: 3 }], gone: ['team/b'] } }],
    ]);
  });

  test('tells of pools alone to who may list nothing else', async () => {
    allowed = new Set(['vmpools']);
    put('a', 1);
    const stream = await open();
    expect(read(stream)).toEqual([['snapshot', { vmPools: [{ namespace: 'team', name: 'a', version: 1 }] }]]);
    put('a', 2);
    remove('b');
    await vi.advanceTimersByTimeAsync(150);
    expect(read(stream)).toEqual([
      ['change', { vmPools: { changed: [{ namespace: 'team', name: 'a', version: 2 }], gone: ['team/b'] } }],
    ]);
  });

  test('keeps nothing twice for who reads slowly', async () => {
    const stream = await open();
    put('large', 0);
    objects.set('team/large', { namespace: 'team', name: 'large'.padEnd(100_000), version: 1 });
    await vi.advanceTimersByTimeAsync(150);
    const before = stream.readableLength;
    for (let version = 2; version < 50; version += 1) {
      put('large', version);
      await vi.advanceTimersByTimeAsync(150);
    }
    expect(stream.readableLength).toBeLessThan(before + 100_000);
  });

  test('holds no more of its beginning than the reader takes, and tells what changes meanwhile behind it', async () => {
    const names = Array.from({ length: 5000 }, (_, index) => `vm-${String(index).padStart(4, '0')}`);
    for (const name of names) put(name, 1);
    const stream = await open();
    stream.setEncoding('utf8');
    const first = String(stream.read(1));
    expect(stream.readableLength).toBeLessThan(100_000);
    // Of what was not read yet one is gone, one is another and one has come; nothing is told in between, not even that all is well.
    remove('vm-4998');
    put('vm-4999', 2);
    put('vm-9999', 1);
    await vi.advanceTimersByTimeAsync(15_000);
    let text = first;
    stream.on('data', (part: string) => (text += part));
    await vi.advanceTimersByTimeAsync(150);
    const events = text.split('\n\n').map((event) => event.split('\n'));
    expect(events.map(([event]) => event)).toEqual(['event: snapshot', 'event: change', '']);
    const [snapshot, change] = events.map(([, data = '']) => JSON.parse(data.replace('data: ', '') || '{}'));
    const seen = snapshot.vms.map(
      ({ name, version }: { name: string; version: number }) => `${name} ${version}`,
    );
    const expected = names
      .filter((name) => name !== 'vm-4998')
      .map((name) => `${name} ${name === 'vm-4999' ? 2 : 1}`);
    expect(seen).toEqual(expected);
    expect(change.vms).toEqual({
      changed: [
        { namespace: 'team', name: 'vm-4999', version: 2 },
        { namespace: 'team', name: 'vm-9999', version: 1 },
      ],
      gone: ['team/vm-4998'],
    });
  });

  test('tells everything in parts to a page that takes them, and what changes meanwhile behind the last', async () => {
    allowed = new Set(['vms', 'images']);
    const names = Array.from({ length: 5000 }, (_, index) => `vm-${String(index).padStart(4, '0')}`);
    for (const name of names) put(name, 1);
    const stream = await open('team', true);
    stream.setEncoding('utf8');
    let text = String(stream.read(1));
    expect(stream.readableLength).toBeLessThan(100_000);
    put('vm-0000', 2);
    stream.on('data', (part: string) => (text += part));
    await vi.advanceTimersByTimeAsync(150);
    const events = text
      .split('\n\n')
      .slice(0, -1)
      .map((event) => event.split('\ndata: '));
    expect(events.map(([event]) => event)).toEqual([
      ...Array.from({ length: 24 }, () => 'event: part'),
      'event: snapshot',
      'event: change',
    ]);
    const told = events.slice(0, -1).map(([, data = '']) => JSON.parse(data));
    expect(told.flatMap(({ vms }) => vms.map(({ name }: { name: string }) => name))).toEqual(names);
    expect(told.every(({ vms }) => vms.length === 200)).toBe(true);
    expect(told.at(-1)?.images).toEqual([]);
  });

  test('holds no more of changes than the reader takes, and tells each in its newest state', async () => {
    const names = Array.from({ length: 5000 }, (_, index) => `vm-${String(index).padStart(4, '0')}`);
    const stream = await open();
    read(stream);
    for (const name of names) put(name, 1);
    await vi.advanceTimersByTimeAsync(150);
    stream.setEncoding('utf8');
    let text = String(stream.read(1));
    expect(stream.readableLength).toBeLessThan(100_000);
    // Of what was not read yet one is gone and one is another; nothing is told in between, not even that all is well.
    remove('vm-4998');
    put('vm-4999', 2);
    await vi.advanceTimersByTimeAsync(15_000);
    stream.on('data', (part: string) => (text += part));
    await vi.advanceTimersByTimeAsync(150);
    const changes = text
      .split('\n\n')
      .slice(0, -1)
      .map((event) => JSON.parse(event.replace('event: change\ndata: ', '')).vms);
    expect(changes).toEqual([
      {
        changed: names
          .filter((name) => name !== 'vm-4998')
          .map((name) => ({ namespace: 'team', name, version: name === 'vm-4999' ? 2 : 1 })),
        gone: ['team/vm-4998'],
      },
      { changed: [{ namespace: 'team', name: 'vm-4999', version: 2 }], gone: ['team/vm-4998'] },
    ]);
  });

  test('tells thousands of changes in parts, too, to a page that takes them', async () => {
    const names = Array.from({ length: 500 }, (_, index) => `vm-${String(index).padStart(4, '0')}`);
    const stream = await open('team', true);
    read(stream);
    let text = '';
    stream.setEncoding('utf8').on('data', (part: string) => (text += part));
    for (const name of names) put(name, 1);
    remove('vm-0499');
    await vi.advanceTimersByTimeAsync(150);
    const changes = text
      .split('\n\n')
      .slice(0, -1)
      .map((event) => JSON.parse(event.replace('event: change\ndata: ', '')).vms);
    expect(changes.map(({ changed, gone: left }) => [changed.length, left])).toEqual([
      [200, []],
      [200, []],
      [99, ['team/vm-0499']],
    ]);
  });

  test('beats in silence', async () => {
    const stream = await open();
    read(stream);
    await vi.advanceTimersByTimeAsync(15_000);
    expect(read(stream)).toEqual([['beat', {}]]);
  });

  test('tells everything anew where a right to more of it is given, then what changes of that too', async () => {
    allowed = new Set(['images']);
    put('a', 1);
    const stream = await open();
    expect(read(stream)).toEqual([['snapshot', { images: [] }]]);
    allowed.add('vms');
    await vi.advanceTimersByTimeAsync(11_000);
    expect(read(stream)).toEqual([
      ['snapshot', { images: [], vms: [{ namespace: 'team', name: 'a', version: 1 }] }],
    ]);
    put('a', 2);
    await vi.advanceTimersByTimeAsync(101);
    const changed = [{ namespace: 'team', name: 'a', version: 2 }];
    expect(read(stream)).toEqual([['change', { vms: { changed, gone: [] } }]]);
    allowed.clear();
    await vi.advanceTimersByTimeAsync(11_000);
    expect(followers.size).toBe(0);
  });

  test('follows nothing more where the client has gone while its rights were asked for', async () => {
    allowed = new Set(['images']);
    read(await open());
    const asked = Promise.withResolvers<void>();
    authorizing = asked.promise;
    await vi.advanceTimersByTimeAsync(11_000);
    allowed.add('vms');
    gone.abort();
    asked.resolve();
    await vi.advanceTimersByTimeAsync(0);
    expect(followers.size).toBe(0);
  });

  test('says why it ends when the right is lost, and follows nothing any more', async () => {
    const stream = await open();
    read(stream);
    allowed.clear();
    await vi.advanceTimersByTimeAsync(11_000);
    expect(read(stream)).toEqual([['over', { message: 'no right any more' }]]);
    expect(followers.size).toBe(0);
  });

  test('ends when the client has gone', async () => {
    const stream = await open();
    gone.abort();
    expect(followers.size).toBe(0);
    stream.resume();
    await vi.advanceTimersByTimeAsync(0);
    expect(stream.readableEnded).toBe(true);
  });
});
