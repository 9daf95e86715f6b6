import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { images, pods } from '../../../src/api/resources.ts';
import { imageAnnotations } from '../../../src/api/image.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { withFaults } from '../../support/faultclient.ts';
import { survives, type CrashScenario } from './crashing.ts';
import {
  anImage,
  aQcow2,
  becomesReady,
  imageCluster,
  readyOf,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
} from './harness.ts';

let cluster: ImageCluster;
let store: RegistryClient;
const operators: ImageOperator[] = [];

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
});

afterEach(async () => {
  await Promise.all(operators.splice(0).map((operator) => operator.stop()));
});

afterAll(async () => {
  await store?.close();
  await cluster?.remove();
});

function start(client: KubeClient = cluster.client): ImageOperator {
  const operator = startImageOperator(client, cluster.settings);
  operators.push(operator);
  return operator;
}

async function push(repository: string, content: Buffer, tag: string): Promise<string> {
  const { digest } = await pushDisk(store, {
    repository,
    tag,
    architecture: 'amd64',
    fileName: 'disk.qcow2',
    size: content.length,
    content: Readable.from([content]),
  });
  return digest;
}

/** Every operator that dies starts with lists, and a worker is a process; there are up to nine of them. */
const within = { timeout: 300_000 };

const isReady = async (namespace: string, name: string): Promise<boolean> =>
  (await readyOf(cluster.client, namespace, name)) === 'Ready';
const hasNoPods = async (namespace: string): Promise<boolean> =>
  (await cluster.client.list(pods, { namespace })).items.length === 0;

const scenarios: CrashScenario[] = [
  {
    title: 'copies a disk',
    leastWrites: 2,
    async prepare(namespace) {
      const operator = start();
      await cluster.client.create(images, anImage(namespace, 'source', { blank: { size: '1Gi' } }));
      await becomesReady(cluster.client, namespace, 'source');
      await operator.stop();
      await cluster.client.create(images, anImage(namespace, 'disk', { image: { name: 'source' } }));
    },
    isDone: (namespace) => isReady(namespace, 'disk'),
  },
  {
    title: 'pulls a disk',
    leastWrites: 6,
    async prepare(namespace) {
      await push(`crash/${namespace}`, await aQcow2(), '1');
      const reference = `${cluster.registry.address}/crash/${namespace}:1`;
      await cluster.client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
    },
    isDone: async (namespace) => (await isReady(namespace, 'disk')) && (await hasNoPods(namespace)),
  },
  {
    title: 'takes an upload over',
    leastWrites: 6,
    async prepare(namespace) {
      const digest = await push(`svc3/${namespace}/disk`, await aQcow2(), `upload-${randomUUID()}`);
      const image = anImage(namespace, 'disk', { upload: {} });
      image.metadata.annotations = { [imageAnnotations.upload]: digest };
      await cluster.client.create(images, image);
    },
    isDone: async (namespace) => (await isReady(namespace, 'disk')) && (await hasNoPods(namespace)),
  },
  {
    title: 'deletes a disk',
    leastWrites: 1,
    async prepare(namespace) {
      const operator = start();
      await cluster.client.create(images, anImage(namespace, 'disk', { blank: { size: '1Gi' } }));
      await becomesReady(cluster.client, namespace, 'disk');
      await operator.stop();
      await cluster.client.delete(images, { name: 'disk', namespace });
    },
    isDone: async (namespace) =>
      (await readyOf(cluster.client, namespace, 'disk')) === 'gone' &&
      (await store.tags(`svc3/${namespace}/disk`)).length === 0,
  },
];

describe('an operator that', () => {
  const rows = scenarios.flatMap((scenario) =>
    (['lostAnswer', 'lostRequest'] as const).map((fault) => [scenario.title, fault, scenario] as const),
  );
  test.each(rows)('%s may die at every write (%s)', within, async (_title, fault, scenario) => {
    await survives(cluster, scenario, fault);
  });

  test('has nothing to do writes nothing', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const first = start();
    await client.create(images, anImage(namespace, 'disk', { blank: { size: '1Gi' } }));
    await becomesReady(client, namespace, 'disk');
    await first.stop();
    const before = (await client.get(images, 'disk', namespace)).metadata.resourceVersion;
    const counted = withFaults(client, () => 'none');
    start(counted.client);
    await client.create(images, anImage(namespace, 'other', { blank: { size: '1Gi' } }));
    await becomesReady(client, namespace, 'other');
    expect(counted.writes.filter(({ plural, name }) => plural === 'images' && name === 'disk')).toEqual([]);
    expect((await client.get(images, 'disk', namespace)).metadata.resourceVersion).toBe(before);
  });
});
