import { beforeAll, expect, test } from 'vitest';
import { images, isos, persistentVolumeClaims, pods, vmConfigs, vms } from '../../src/api/resources.ts';
import { createInformers } from '../../src/controller/informers.ts';
import type { KubeObject, Resource } from '../../src/api/object.ts';
import { slimObject } from '../../src/api/slim.ts';
import { resourcePath } from '../../src/kube/path.ts';
import { slimPod } from '../../src/controllers/vm/pod/slimpod.ts';
import { keptLog } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'large');
});

/** Of what kube-apiserver lets a tenant write: labels without end, 256 KiB of annotations, a manager for each field. */
const labels = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [
      `${'x'.repeat(50)}.example.com/${index}-${'y'.repeat(50)}`,
      'z'.repeat(63),
    ]),
  );
const annotations = {
  'kubectl.kubernetes.io/last-applied-configuration': 'a'.repeat(120_000),
  'example.com/notes': 'b'.repeat(120_000),
};

const spec = { image: 'registry.example.com/team/debian:12' };
const kinds: readonly (readonly [string, Resource<KubeObject>, object])[] = [
  ['VMs', vms, { spec: { ...spec, powerState: 'Stopped' } }],
  ['VMConfigs', vmConfigs, { spec }],
  ['Images', images, { spec: { source: { upload: {} } } }],
  ['ISOs', isos, { spec: { source: { upload: {} } } }],
  [
    'claims with our label',
    persistentVolumeClaims,
    { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } },
  ],
  ['pods with our label', pods, { spec: { containers: [{ name: 'a', image: 'r.example.com/a:1' }] } }],
];

test.each(kinds)('%s of 800 KB take a few KB of a cache', async (_, resource, object) => {
  const own = {
    'app.kubernetes.io/part-of': 'svc3',
    'app.kubernetes.io/managed-by': 'svc3',
    'svc3.dev/vm': 'a',
  };
  await Promise.all(
    Array.from({ length: 4 }, (__, index) =>
      cluster.client.create(resource, {
        metadata: {
          name: `large-${index}`,
          namespace,
          labels: { ...labels(1400), ...own },
          annotations: { ...annotations, 'svc3.dev/owner': 'somebody' },
        },
        ...object,
      }),
    ),
  );
  const { body: raw } = await cluster.client.request<{ items: KubeObject[] }>({
    method: 'GET',
    path: resourcePath(resource, { namespace }),
  });
  for (const each of raw.items) expect(JSON.stringify(each).length).toBeGreaterThan(600_000);
  // What is read without a cache carries no managedFields, and no more than its reader keeps.
  const live = await cluster.client.list(resource, { namespace, transform: slimObject });
  expect(live.items).toHaveLength(raw.items.length);
  for (const each of live.items) expect(JSON.stringify(each).length).toBeLessThan(4_000);

  const stopping = new AbortController();
  const informers = createInformers(cluster.client, keptLog());
  // As the operator asks for them.
  const informer = informers.get(resource, {
    namespace,
    ...(resource === pods ? { transform: slimPod as never } : {}),
  });
  const running = informers.run(stopping.signal);
  await informers.synced();
  const kept = informer.list(namespace);
  expect(kept).toHaveLength(raw.items.length);
  for (const each of kept) {
    expect(JSON.stringify(each).length).toBeLessThan(4_000);
    if (resource !== pods)
      expect(each.metadata).toMatchObject({ labels: own, annotations: { 'svc3.dev/owner': 'somebody' } });
  }
  stopping.abort();
  await running;
});
