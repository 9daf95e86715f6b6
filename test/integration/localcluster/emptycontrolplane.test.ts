import { afterAll, expect, test } from 'vitest';
import { events, namespaces, nodes, serviceAccounts, vms } from '../../../src/api/resources.ts';
import { customResourceDefinitions } from '../../support/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { type EmptyControlPlane, emptyControlPlane } from '../../support/emptycontrolplane.ts';

/** What one file leaves in a control plane must not reach the next: whether their tests pass would depend on their order. */

const taken: EmptyControlPlane[] = [];
const clients: RootClient[] = [];

async function take(): Promise<{ plane: EmptyControlPlane; client: RootClient }> {
  const plane = await emptyControlPlane();
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  taken.push(plane);
  clients.push(client);
  return { plane, client };
}

afterAll(async () => {
  for (const client of clients) await client.close();
  await taken.at(-1)?.remove();
});

const vm = {
  apiVersion: 'svc3.dev/v1',
  kind: 'VM',
  metadata: { name: 'left', namespace: 'team', finalizers: ['svc3.dev/test'] },
  spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi' },
} as Vm;

async function namesIn(client: RootClient): Promise<string[]> {
  const found = await Promise.all([client.list(namespaces), client.list(nodes), client.list(vms)]);
  return found.flatMap(({ items }) => items.map(({ metadata }) => metadata.name ?? '')).sort();
}

test('the next one who takes it finds it as the first one did', async () => {
  const { plane, client } = await take();
  const before = await namesIn(client);
  const definition = await client.get(customResourceDefinitions, 'vms.svc3.dev');
  await client.create(namespaces, { metadata: { name: 'team' } });
  await client.create(nodes, { metadata: { name: 'n1' } });
  // Its finalizer would hold it, and it its namespace.
  await client.create(vms, vm);
  await client.delete(vms, { name: 'left', namespace: 'team' });
  await client.delete(customResourceDefinitions, { name: 'isos.svc3.dev' });
  const body = { metadata: { labels: { team: 'one' } } };
  await client.patch(customResourceDefinitions, { name: 'vms.svc3.dev' }, { type: 'merge', body });
  await plane.remove();

  const next = await take();
  expect(next.plane.server).toBe(plane.server);
  expect(next.plane.dir).not.toBe(plane.dir);
  await expect.poll(() => namesIn(next.client)).toEqual(before);
  const { metadata, spec } = await next.client.get(customResourceDefinitions, 'vms.svc3.dev');
  expect(metadata.labels).toEqual(definition.metadata.labels);
  expect(spec).toEqual(definition.spec);
  await next.client.get(customResourceDefinitions, 'isos.svc3.dev');

  await next.client.create(namespaces, { metadata: { name: 'team' } });
  const account = () => next.client.get(serviceAccounts, 'default', 'team').catch(() => undefined);
  await expect.poll(account).toMatchObject({ metadata: { name: 'default' } });
  await next.client.create(vms, { ...vm, metadata: { name: 'left', namespace: 'team' } });
  expect((await next.client.list(events, { namespace: 'team' })).items).toEqual([]);
});

test('two at the same time are two', async () => {
  const first = taken.at(-1);
  const { plane } = await take();
  expect(plane.server).not.toBe(first?.server);
  await first?.remove();
});
