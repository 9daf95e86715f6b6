import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ConfigMap } from '../../../src/api/core.ts';
import { configMaps } from '../../../src/api/resources.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import type { Informer, InformerOptions } from '../../../src/kube/types.ts';
import { ownControlPlane } from '../../support/controlplane.ts';
import { uniqueNamespace } from '../../support/cluster.ts';
import { faultCluster } from '../../support/faultcluster.ts';
import type { FaultCluster } from '../../support/faultcluster.ts';
import { isList, isWatch } from '../../support/faultproxy.ts';
import type { Matcher } from '../../support/faultproxy.ts';

let cluster: FaultCluster;
let namespace: string;

beforeAll(async () => {
  // History is dropped after seconds instead of minutes, and the restart empties the watch cache, so that version 1 is
  // really gone.
  const own = await ownControlPlane({ components: [], apiServerFlags: ['--etcd-compaction-interval=1s'] });
  afterAll(() => own.remove());
  await own.stopApiServer();
  await own.startApiServer();
  cluster = await faultCluster(own);
});

beforeEach(async () => {
  namespace = await uniqueNamespace(cluster.client, 'kube-reflector');
});

/** Backoff without the waiting; everything else as it ships. */
const quick = { backoffMinMs: 20, backoffMaxMs: 100 };

const within = { timeout: 60_000 };

interface Running {
  readonly informer: Informer<ConfigMap>;
  /** Every change as `kind name`, in order. */
  readonly changes: string[];
  names(): string[];
  data(name: string): Record<string, string> | undefined;
}

async function start(
  options: Partial<InformerOptions<ConfigMap>> = {},
  onTestFinished: (end: () => Promise<void>) => void,
): Promise<Running> {
  const informer = createInformer({
    client: cluster.proxied,
    resource: configMaps,
    namespace,
    tuning: quick,
    ...options,
  });
  const changes: string[] = [];
  informer.onChange(({ kind, object }) => changes.push(`${kind} ${object.metadata.name}`));
  const stop = new AbortController();
  const run = informer.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await run;
  });
  await informer.synced();
  return {
    informer,
    changes,
    names: () =>
      informer
        .list(namespace)
        .map(({ metadata }) => metadata.name ?? '')
        .sort(),
    data: (name) => informer.get(name, namespace)?.data,
  };
}

/** Requests about the namespace of the test that runs now. */
function inNamespace(match: Matcher): Matcher {
  const path = `/namespaces/${namespace}/`;
  return (request) => match(request) && request.path.includes(path);
}

const create = (name: string, data: Record<string, string> = {}) =>
  cluster.client.create(configMaps, { metadata: { name, namespace }, data });
const change = (name: string, data: Record<string, string>) =>
  cluster.client.patch(configMaps, { name, namespace }, { type: 'merge', body: { data } });
const remove = (name: string) => cluster.client.delete(configMaps, { name, namespace });
const lists = () => cluster.proxy.seen.filter(inNamespace(isList)).length;
const watches = () => cluster.proxy.seen.filter(inNamespace(isWatch)).length;

test('tells every change once and in order', async ({ onTestFinished }) => {
  await create('before');
  const { changes, names } = await start({}, onTestFinished);
  expect(changes).toEqual(['added before']);
  await create('a');
  await change('a', { x: '1' });
  await remove('a');
  await expect.poll(() => changes, within).toEqual(['added before', 'added a', 'updated a', 'deleted a']);
  expect(names()).toEqual(['before']);
});

test('says how long it has heard nothing, from its first list on', async ({ onTestFinished }) => {
  const { informer } = await start({}, onTestFinished);
  const silent = () => informer.silenceMs() ?? Number.NaN;
  await expect.poll(silent, within).toBeGreaterThan(200);
  const at = performance.now();
  await create('news');
  await expect.poll(() => silent() <= performance.now() - at, within).toBe(true);
});

test('objects say their kind and carry no managedFields', async ({ onTestFinished }) => {
  await create('listed');
  const { informer, names } = await start({}, onTestFinished);
  await create('watched');
  await expect.poll(names, within).toEqual(['listed', 'watched']);
  for (const object of informer.list()) {
    expect(object).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap' });
    expect(object.metadata.managedFields).toBeUndefined();
  }
});

describe('a watch that ends', () => {
  test('by its own time is resumed without a list', async ({ onTestFinished }) => {
    const { names } = await start(
      { tuning: { ...quick, watchMinMs: 1_000, watchMaxMs: 1_000 } },
      onTestFinished,
    );
    await expect.poll(watches, within).toBeGreaterThan(1);
    await create('later');
    await expect.poll(names, within).toEqual(['later']);
    expect(lists()).toBe(1);
  });

  test('because it was cut in the middle of an object is resumed, and nothing is lost or told twice', async ({
    onTestFinished,
  }) => {
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'cutReply', bytes: 1_000 }, 3);
    const { changes, names } = await start({}, onTestFinished);
    const expected: string[] = [];
    for (let index = 0; index < 8; index += 1) {
      await create(`cut-${index}`, { filler: 'é'.repeat(400) });
      expected.push(`added cut-${index}`);
    }
    await expect.poll(() => changes.length, within).toBe(8);
    expect(changes).toEqual(expected);
    expect(names()).toHaveLength(8);
    expect(watches()).toBeGreaterThan(3);
    expect(lists()).toBe(1);
  });

  test('because the whole connection was cut is resumed', async ({ onTestFinished }) => {
    const { names } = await start({}, onTestFinished);
    cluster.proxy.cutAll();
    await create('after-cut');
    await expect.poll(names, within).toEqual(['after-cut']);
    expect(lists()).toBe(1);
  });

  test('because of GOAWAY moves to the one new connection', async ({ onTestFinished }) => {
    const { names } = await start({}, onTestFinished);
    cluster.proxy.goawayAll();
    await create('after-goaway');
    await expect.poll(names, within).toEqual(['after-goaway']);
    await expect.poll(() => cluster.proxy.connections().open, within).toBe(1);
    expect(lists()).toBe(1);
  });

  test('because nothing came for too long is replaced', async ({ onTestFinished }) => {
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'silence' }, 1);
    const { names } = await start({ tuning: { ...quick, silenceMs: 500 } }, onTestFinished);
    await create('unheard');
    await expect.poll(names, within).toEqual(['unheard']);
    expect(lists()).toBe(1);
  });

  test('because nothing came for too long twice, as from a server whose etcd was restored, is begun anew', async ({
    onTestFinished,
  }) => {
    // The real server takes a version that it has not reached, and says nothing until it has.
    const future = { kind: 'query', set: { resourceVersion: '1000000000' } } as const;
    cluster.proxy.inject(inNamespace(isWatch), future);
    const { names } = await start({ tuning: { ...quick, silenceMs: 500 } }, onTestFinished);
    await create('missed');
    await expect.poll(names, within).toEqual(['missed']);
    expect(lists()).toBe(2);
  });
});

describe('410', () => {
  test('of the real server for a version long gone leads to a list', async ({ onTestFinished }) => {
    await create('kept');
    await create('gone');
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'query', set: { resourceVersion: '1' } }, 1);
    const { changes, names } = await start({}, onTestFinished);
    await remove('gone');
    await create('new');
    await expect.poll(names, within).toEqual(['kept', 'new']);
    await expect.poll(lists, within).toBe(2);
    expect(changes.filter((each) => each === 'added kept')).toHaveLength(1);
    expect(changes.filter((each) => each === 'deleted gone')).toHaveLength(1);
  });

  test('of a server that was away is no further failure: the list does not wait', async ({
    onTestFinished,
  }) => {
    const told: unknown[] = [];
    const log = {
      warn: (fields: { err?: string; failures?: number }) => told.push([fields.err, fields.failures]),
      debug: () => undefined,
    };
    const { names } = await start({ log: log as never }, onTestFinished);
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'query', set: { resourceVersion: '1' } }, 1);
    const away = cluster.proxy.inject(inNamespace(isWatch), { kind: 'status', code: 503 });
    cluster.proxy.cutAll();
    const before = watches();
    await expect.poll(watches, within).toBeGreaterThan(before + 3);
    await create('missed');
    away();
    await expect.poll(names, within).toEqual(['missed']);
    expect(told).toEqual([[expect.stringContaining('too old resource version'), 0]]);
  });

  test('between two pages leads to a list in one piece', async ({ onTestFinished }) => {
    await Promise.all(Array.from({ length: 7 }, (_, index) => create(`page-${index}`)));
    cluster.proxy.inject(
      inNamespace(({ query }) => query.has('continue')),
      { kind: 'query', set: { continue: 'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0' } },
      1,
    );
    const { names } = await start({ tuning: { ...quick, pageSize: 3 } }, onTestFinished);
    expect(names()).toHaveLength(7);
  });
});

test('bookmarks move the version on, so that a quiet resource is not listed again', async ({
  onTestFinished,
}) => {
  const versions: string[] = [];
  cluster.proxy.inject(
    inNamespace(isWatch),
    {
      kind: 'lines',
      change: (line) => {
        // A server sends one a minute; here one comes after every event, of a version later than the event's.
        const { object } = JSON.parse(line) as { object: ConfigMap };
        const later = String(Number(object.metadata.resourceVersion) + 1);
        versions.push(later);
        return [
          line,
          JSON.stringify({
            type: 'BOOKMARK',
            object: { kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: later } },
          }),
        ];
      },
    },
    1,
  );
  const { changes } = await start({}, onTestFinished);
  await create('one');
  await expect.poll(() => changes, within).toEqual(['added one']);
  cluster.proxy.cutAll();
  await expect.poll(watches, within).toBe(2);
  const asked = cluster.proxy.seen.findLast(inNamespace(isWatch));
  expect(asked?.query.get('allowWatchBookmarks')).toBe('true');
  expect(asked?.query.get('resourceVersion')).toBe(versions.at(-1));
});

test('the real server sends bookmarks to this watch', async () => {
  const { resourceVersion } = await cluster.client.list(configMaps, { namespace });
  const stream = await cluster.client.stream({
    method: 'GET',
    path: `/api/v1/namespaces/${namespace}/configmaps`,
    query: {
      watch: true,
      allowWatchBookmarks: true,
      sendInitialEvents: true,
      resourceVersionMatch: 'NotOlderThan',
      resourceVersion,
      timeoutSeconds: 20,
    },
  });
  let text = '';
  for await (const chunk of stream.body) {
    text += Buffer.from(chunk).toString('utf8');
    if (text.includes('"BOOKMARK"')) break;
  }
  stream.cancel();
  expect(text).toContain('"BOOKMARK"');
});

test('an object made anew under its name is a deletion and an addition, also when both were missed', async ({
  onTestFinished,
}) => {
  await create('phoenix', { life: '1' });
  const { changes, data } = await start({}, onTestFinished);
  // The next watches begin where the list was, but cannot: the real server says 410, and only the new one is seen.
  cluster.proxy.inject(inNamespace(isWatch), { kind: 'query', set: { resourceVersion: '1' } }, 1);
  const holdBack = cluster.proxy.inject(inNamespace(isWatch), { kind: 'status', code: 503 });
  cluster.proxy.cutAll();
  await remove('phoenix');
  await create('phoenix', { life: '2' });
  holdBack();
  await expect.poll(() => data('phoenix'), within).toEqual({ life: '2' });
  expect(changes).toEqual(['added phoenix', 'deleted phoenix', 'added phoenix']);
});

describe('events that come twice or late', () => {
  test('duplicates are told once', async ({ onTestFinished }) => {
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'lines', change: (line) => [line, line, line] });
    const { changes } = await start({}, onTestFinished);
    await create('echo');
    await change('echo', { a: '1' });
    await remove('echo');
    await create('last');
    await expect.poll(() => changes.at(-1), within).toBe('added last');
    expect(changes).toEqual(['added echo', 'updated echo', 'deleted echo', 'added last']);
  });

  test('an event of the past changes nothing, not even for an object that is gone', async ({
    onTestFinished,
  }) => {
    const past: string[] = [];
    cluster.proxy.inject(inNamespace(isWatch), {
      kind: 'lines',
      change: (line) => {
        past.push(line);
        // Everything from the beginning again after every event, as a stale replica would send it.
        return [line, ...past];
      },
    });
    const { changes, names, data } = await start({}, onTestFinished);
    await create('zombie');
    await create('living', { v: '1' });
    await remove('zombie');
    await change('living', { v: '2' });
    await expect.poll(() => data('living'), within).toEqual({ v: '2' });
    expect(names()).toEqual(['living']);
    expect(changes).toEqual(['added zombie', 'added living', 'deleted zombie', 'updated living']);
  });

  test('a list older than what was seen is asked for again', async ({ onTestFinished }) => {
    const old = await cluster.client.request({
      method: 'GET',
      path: `/api/v1/namespaces/${namespace}/configmaps`,
    });
    const { changes, names } = await start({}, onTestFinished);
    await create('young');
    await expect.poll(names, within).toEqual(['young']);
    cluster.proxy.inject(inNamespace(isList), { kind: 'body', change: () => JSON.stringify(old.body) }, 1);
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'query', set: { resourceVersion: '1' } }, 1);
    cluster.proxy.cutAll();
    await expect.poll(lists, within).toBe(3);
    await create('younger');
    await expect.poll(names, within).toEqual(['young', 'younger']);
    expect(changes).toEqual(['added young', 'added younger']);
  });

  test('delayed events arrive late but in order', async ({ onTestFinished }) => {
    cluster.proxy.inject(inNamespace(isWatch), { kind: 'delay', ms: 800 }, 1);
    const { changes } = await start({}, onTestFinished);
    await create('d1');
    await create('d2');
    await remove('d1');
    await expect.poll(() => changes, within).toEqual(['added d1', 'added d2', 'deleted d1']);
  });
});

test('a server that refuses to list is asked again until it answers', async ({ onTestFinished }) => {
  await create('waiting');
  cluster.proxy.inject(
    inNamespace(isList),
    {
      kind: 'status',
      code: 403,
      body: { kind: 'Status', code: 403, reason: 'Forbidden', message: 'not yet' },
    },
    3,
  );
  const { names } = await start({}, onTestFinished);
  expect(names()).toEqual(['waiting']);
  expect(lists()).toBe(4);
});
