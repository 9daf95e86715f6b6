/** Remote lists showed uploads under way, svc3's own container images, and what other namespaces have in the store. */
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createNamespaceRegistries } from '../../src/controllers/image/registries.ts';
import { withinReach } from '../../src/http/remotes/reach.ts';
import { createRemoteCatalog } from '../../src/http/remotes/remotes.ts';
import { createRegistryClient } from '../../src/registry/client.ts';
import { pushDisk } from '../../src/registry/disk.ts';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { startRegistry, type TestRegistry } from '../support/registry.ts';

let cluster: TestCluster;
let registry: TestRegistry;
let api: TestApi;
let mine: string;

beforeAll(async () => {
  [cluster, registry] = [await testCluster(), await startRegistry()];
  mine = await uniqueNamespace(cluster.client, 'reach');
  const store = { url: `http://${registry.address}`, prefix: 'store' };
  const registries = createNamespaceRegistries(cluster.client, store);
  const catalog = createRemoteCatalog([registry.address], (host, ns) => registries.look(ns, host), {
    timeoutMs: 60_000,
  });
  api = await startTestApi(cluster.client, { remotes: withinReach(catalog, store) }, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
  const pushed = [
    [`store/${mine}/disk`, 'latest'],
    [`store/${mine}/disk`, 'upload-0123'],
    [`store/${mine}/iso/installer`, 'latest'],
    ['store/others/disk', 'latest'],
    ['svc3-runner', '3.0.0'],
    ['team/debian', '12'],
  ] as const;
  const client = createRegistryClient({ registry: registry.address, scheme: 'http' });
  for (const [repository, tag] of pushed) {
    const content = Buffer.from('a disk');
    const disk = { repository, tag, architecture: 'amd64', fileName: 'disk.raw', size: content.length };
    await pushDisk(client, { ...disk, content: Readable.from([content]) });
  }
  await client.close();
});

afterAll(async () => {
  await api?.close();
  await registry?.stop();
});

const names = (items: readonly string[]) =>
  items.map((name) => name.replace(`${registry.address}/`, '')).sort();

async function listed(what: 'remoteimages' | 'remoteisos'): Promise<string[]> {
  const path = `/api/v1/namespaces/${mine}/${what}`;
  const { status, json } = await api.call('GET', path, { token: cluster.adminToken });
  expect(status).toBe(200);
  expect(JSON.stringify(json)).not.toContain('upload-');
  return names(json.items.map(({ name }: { name: string }) => name));
}

test('remoteimages has the disks and ISOs in reach', async () => {
  expect(await listed('remoteimages')).toEqual([
    `store/${mine}/disk:latest`,
    `store/${mine}/iso/installer:latest`,
    'team/debian:12',
  ]);
});

test('remoteisos has the ISOs, and what only a pull tells', async () => {
  expect(await listed('remoteisos')).toEqual([`store/${mine}/iso/installer:latest`, 'team/debian:12']);
});

test('iso/list-remote of 2.4.x has what remoteimages has', async () => {
  const { json } = await api.call('GET', '/resources/iso/list-remote', {
    token: cluster.adminToken,
    headers: { 'x-svc3-namespace': mine },
  });
  expect(names(json.isos)).toEqual(await listed('remoteimages'));
});
