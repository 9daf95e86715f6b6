import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { namespaces, secrets } from '../../../src/api/resources.ts';
import { type AggregatedCluster, aggregatedCluster } from '../../support/aggregation.ts';

let cluster: AggregatedCluster;

// kube-apiserver looks at an APIService every 30 s, and the namespace controller comes back ever more rarely.
const timeouts = { timeout: 120_000, interval: 250 };

beforeAll(async () => {
  cluster = await aggregatedCluster();
});

afterAll(async () => {
  await cluster?.remove();
});

test('while the api is down a namespace waits in Terminating, and goes when it is back', async () => {
  const { client } = cluster;
  const up = await cluster.start();
  await vi.waitFor(async () => expect(await cluster.available()).toBe(true), timeouts);
  await client.create(namespaces, { metadata: { name: 'short-lived' } });
  expect(await up.stop()).toBe(0);
  await vi.waitFor(async () => expect(await cluster.available()).toBe(false), timeouts);

  await client.delete(namespaces, { name: 'short-lived' });
  await vi.waitFor(async () => {
    const { status } = await client.get(namespaces, 'short-lived');
    expect(status?.conditions?.find(({ type }) => type === 'NamespaceDeletionDiscoveryFailure')?.status).toBe(
      'True',
    );
  }, timeouts);
  // Nothing else waits.
  await client.create(secrets, {
    metadata: { name: 'works', namespace: 'svc3-system' },
    stringData: { a: 'b' },
  });

  await cluster.start();
  await vi.waitFor(
    () => expect(client.get(namespaces, 'short-lived')).rejects.toMatchObject({ reason: 'NotFound' }),
    timeouts,
  );
}, 300_000);
