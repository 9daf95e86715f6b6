import { expect, test } from 'vitest';
import { configMaps } from '../../../src/api/resources.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import { faultCluster } from '../../support/faultcluster.ts';
import { isList, isWatch } from '../../support/faultproxy.ts';

const objects = 5_000;

test(
  '5,000 objects are made, listed in pages and watched over one connection',
  { timeout: 150_000 },
  async () => {
    const { client, proxied, proxy } = await faultCluster(await testCluster());
    const namespace = await uniqueNamespace(client, 'kube-bulk');
    const labels = { bulk: 'yes' };
    const make = (index: string) =>
      client.create(configMaps, { metadata: { name: `c${index}`, namespace, labels }, data: { index } });
    const indexes = Array.from({ length: objects }, (_, index) => String(index));
    // The time of a call begins when it is made: not all at once.
    while (indexes.length > 0) await Promise.all(indexes.splice(0, 500).map(make));
    expect(client.connections()).toEqual({ open: 1, opened: 1 });

    const informer = createInformer({
      client: proxied,
      resource: configMaps,
      namespace,
      labelSelector: 'bulk=yes',
      indexes: { lastDigit: ({ data }) => [(data?.['index'] ?? '').slice(-1)] },
    });
    const stop = new AbortController();
    const run = informer.run(stop.signal);
    await informer.synced();
    expect(informer.list(namespace)).toHaveLength(objects);
    expect(informer.byIndex('lastDigit', '7')).toHaveLength(objects / 10);
    const pages = proxy.seen.filter(isList);
    expect(pages.length).toBeGreaterThanOrEqual(objects / 500);
    expect(pages.slice(1).every(({ query }) => query.has('continue'))).toBe(true);

    await client.request({
      method: 'DELETE',
      path: `/api/v1/namespaces/${namespace}/configmaps`,
      query: { labelSelector: 'bulk=yes' },
    });
    await expect.poll(() => informer.list(namespace).length).toBe(0);
    expect(informer.byIndex('lastDigit', '7')).toEqual([]);
    expect(proxy.seen.filter(isWatch)).toHaveLength(1);
    expect(proxy.connections().most).toBe(1);
    stop.abort();
    await run;
  },
);
