import { afterAll, beforeAll, expect, test } from 'vitest';
import { configMaps, namespaces } from '../../../src/api/resources.ts';
import { createClient } from '../../../src/kube/client.ts';
import type { RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { createInformer } from '../../../src/kube/informer.ts';
import { ownControlPlane } from '../../support/controlplane.ts';
import type { OwnControlPlane } from '../../support/controlplane.ts';

let cluster: OwnControlPlane;
let client: RootClient;

beforeAll(async () => {
  cluster = await ownControlPlane({ components: [] });
  client = createClient(await loadKubeconfig(cluster.kubeconfigPath));
});

afterAll(async () => {
  await client.close();
  await cluster.remove();
});

test(
  'informers outlive a restart of kube-apiserver, miss nothing, and the process keeps to its connections',
  { timeout: 150_000 },
  async () => {
    const stop = new AbortController();
    const informers = [
      createInformer({ client, resource: configMaps }),
      createInformer({ client, resource: namespaces }),
    ];
    const runs = informers.map((informer) => informer.run(stop.signal));
    await Promise.all(informers.map((informer) => informer.synced()));
    let most = 0;
    const timer = setInterval(() => {
      most = Math.max(most, client.connections().open);
    }, 1);

    await client.create(configMaps, { metadata: { name: 'before', namespace: 'default' } });
    await cluster.stopApiServer();
    const down = client.request({ method: 'GET', path: '/api/v1/namespaces', timeoutMs: 500 });
    await expect(down).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    await cluster.startApiServer();

    // Another connection writes before the informers are back.
    const other = createClient(client.connection);
    await other.delete(configMaps, { name: 'before', namespace: 'default' });
    await other.create(configMaps, { metadata: { name: 'after', namespace: 'default' } });
    await other.close();
    const names = () => informers[0]?.list('default').map(({ metadata }) => metadata?.name);
    await expect.poll(names).toEqual(['after']);
    clearInterval(timer);
    expect(most).toBeLessThanOrEqual(3);
    stop.abort();
    await Promise.all(runs);
  },
);

test('a client works on after a restart, for reads and writes', { timeout: 150_000 }, async () => {
  await cluster.stopApiServer();
  await cluster.startApiServer();
  await expect(client.request({ method: 'GET', path: '/version' })).resolves.toMatchObject({ status: 200 });
  await expect(
    client.create(configMaps, { metadata: { name: 'anew', namespace: 'default' } }),
  ).resolves.toBeDefined();
  expect(client.connections().open).toBe(1);
});
