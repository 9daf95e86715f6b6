import { beforeAll, expect, test, vi } from 'vitest';
import { configMaps } from '../../../src/api/resources.ts';
import { createController, keyOf, splitKey } from '../../../src/controller/controller.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import { runControllers } from '../../../src/controller/runtime.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import type { TestCluster } from '../../support/cluster.ts';

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await testCluster();
});

const log = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };

test('a controller on shared informers makes the world as it should be, and then writes nothing more', async () => {
  const { client } = cluster;
  const namespace = await uniqueNamespace(client, 'controller');
  const informers = createInformers(client, log);
  const sources = informers.get(configMaps, { namespace, labelSelector: 'role=source' });
  const copies = informers.get(configMaps, { namespace, labelSelector: 'role=copy' });
  expect(
    informers.get(configMaps, { namespace, labelSelector: 'role=copy', indexes: { of: () => [] } }),
  ).toBe(copies);
  let writes = 0;

  const controller = createController({
    name: 'copier',
    log,
    workers: 2,
    async reconcile(key) {
      const { name } = splitKey(key);
      const source = sources.get(name, namespace);
      const copy = copies.get(`${name}-copy`, namespace);
      if (source === undefined || JSON.stringify(copy?.data) === JSON.stringify(source.data)) return;
      writes += 1;
      await client.apply(configMaps, {
        metadata: { name: `${name}-copy`, namespace, labels: { role: 'copy' } },
        ...(source.data === undefined ? {} : { data: source.data }),
      });
    },
  });
  sources.onChange(({ object }) => controller.enqueue(keyOf(object)));
  copies.onChange(({ object }) => controller.enqueue(keyOf(object).replace(/-copy$/, '')));

  const stop = new AbortController();
  const running = Promise.all([
    informers.run(stop.signal),
    informers.synced().then(() => runControllers([controller], stop.signal)),
  ]);
  await informers.synced();
  expect(informers.hasSynced()).toBe(true);
  expect(() => informers.get(configMaps, { namespace: 'late' })).toThrow('after the start');

  await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      client.create(configMaps, {
        metadata: { name: `s${index}`, namespace, labels: { role: 'source' } },
        data: { v: '1' },
      }),
    ),
  );
  const values = () => copies.list(namespace).map(({ data }) => data?.['v']);
  await expect.poll(() => values().filter((value) => value === '1')).toHaveLength(20);
  // Changed and deleted by others, both are mended.
  await client.patch(
    configMaps,
    { name: 's1-copy', namespace },
    { type: 'merge', body: { data: { v: 'wrong' } } },
  );
  await client.delete(configMaps, { name: 's2-copy', namespace });
  await expect.poll(() => writes).toBeGreaterThanOrEqual(22);
  await expect
    .poll(() => [copies.get('s1-copy', namespace)?.data, copies.get('s2-copy', namespace)?.data])
    .toEqual([{ v: '1' }, { v: '1' }]);
  await expect.poll(() => controller.pending()).toBe(0);
  const before = writes;
  sources.list(namespace).forEach((object) => controller.enqueue(keyOf(object)));
  await expect.poll(() => controller.pending()).toBe(0);
  expect(writes).toBe(before);
  stop.abort();
  await running;
});

test('when one controller fails all end, and its error comes out', async () => {
  const other = createController({ name: 'other', log, reconcile: () => Promise.resolve() });
  const broken = { run: () => Promise.reject(new Error('broken')) };
  await expect(runControllers([other, broken], new AbortController().signal)).rejects.toThrow('broken');
});
