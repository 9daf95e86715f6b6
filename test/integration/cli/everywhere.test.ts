/** Lists of all namespaces, of people who have the chart's roles in the whole cluster and nothing else. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, isos, vmConfigs, vmPools, vms } from '../../../src/api/resources.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { identity } from '../../support/identity.ts';
import { clusterRoles } from '../../support/resources.ts';
import { rendered } from '../chart/helm.ts';
import { inProcess } from './inprocess.ts';

const image = 'registry.example.com/team/debian:12';
const { svc3, home } = inProcess();
const both: string[] = [];

let cluster: TestCluster;
let api: TestApi;
let role: string | undefined;
let viewer: Record<string, string>;
let nobody: Record<string, string>;

beforeAll(async () => {
  cluster = await testCluster();
  const { client } = cluster;
  api = await startTestApi(client);
  await writeFile(join(home, 'api.pem'), api.tls.cert);
  for (const prefix of ['everywhere-a', 'everywhere-b']) both.push(await uniqueNamespace(client, prefix));
  for (const namespace of both) {
    const metadata = { name: 'everywhere', namespace };
    await client.create(vms, { metadata, spec: { image, powerState: 'Running' } });
    await client.create(vmConfigs, { metadata, spec: { image } });
    await client.create(vmPools, {
      metadata,
      spec: { template: { image }, minIdle: 0, maxSize: 1, standby: 'Running', serveConfig: false },
    });
    await client.create(images, { metadata, spec: { source: { upload: {} } } });
    await client.create(isos, { metadata, spec: { source: { upload: {} } } });
  }
  const [namespace = ''] = both;
  role = `${namespace}-view`;
  const { rules = [] } = (await rendered()).find(({ metadata: { name } }) => name === 'svc3-view') ?? {};
  await client.create(clusterRoles, { metadata: { name: role }, rules });
  const token = await identity(client, 'viewer', { namespace, clusterRole: role });
  viewer = { KUBECONFIG: await kubeconfig('viewer', token), SVC3_TOKEN: token };
  nobody = { KUBECONFIG: await kubeconfig('nobody', await identity(client, 'nobody', { namespace })) };
});

afterAll(async () => {
  // Without a name it would be all roles of the cluster.
  if (role !== undefined) await cluster.client.delete(clusterRoles, { name: role });
  await api?.close();
});

async function kubeconfig(person: string, token: string): Promise<string> {
  const ca = Buffer.from(cluster.caPem).toString('base64');
  const config = {
    'current-context': 'x',
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    clusters: [{ name: 'x', cluster: { server: cluster.server, 'certificate-authority-data': ca } }],
    users: [{ name: 'x', user: { token } }],
  };
  const file = join(home, `${person}.json`);
  await writeFile(file, JSON.stringify(config));
  return file;
}

const kinds = ['vm', 'vmc', 'pool', 'image', 'iso'] as const;

describe('a person who may see everything of svc3, and no namespaces', () => {
  const ways: Record<string, () => Record<string, string>> = {
    'straight on kube-apiserver': () => ({ KUBECONFIG: viewer['KUBECONFIG'] ?? '' }),
    'over HTTP': () => ({ ...viewer, SVC3_API_URL: api.baseUrl, SVC3_CA_FILE: join(home, 'api.pem') }),
  };
  const cases = Object.keys(ways).flatMap((way) => kinds.map((kind) => [kind, way] as const));

  test.each(cases)('is shown each %s of all namespaces, %s', async (kind, way) => {
    const list = () => svc3([kind, 'list', '-A', '-o', 'json'], { env: ways[way]?.() ?? {} });
    const found = async () => {
      const { code, stdout, stderr } = await list();
      expect(code, stderr).toBe(0);
      const items = JSON.parse(stdout) as { name: string; namespace: string }[];
      return items.filter(({ name }) => name === 'everywhere').map(({ namespace }) => namespace);
    };
    // The api reads its cache, which may be a moment behind.
    await expect.poll(found).toEqual(expect.arrayContaining(both));
  });

  test.each(Object.keys(ways))('is not refused what VMs use, %s', async (way) => {
    // There is no metrics-server in this cluster.
    expect(await svc3(['vm', 'top', '-A'], { env: ways[way]?.() ?? {} })).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('install metrics-server'),
    });
  });
});

test.each(kinds)('a person without rights is told which of two the list of each %s takes', async (kind) => {
  const { code, stderr } = await svc3([kind, 'list', '-A'], { env: nobody });
  expect(code).toBe(5);
  expect(stderr).toMatch(
    /at the cluster scope; without that right --all-namespaces needs the right to list namespaces$/m,
  );
});
