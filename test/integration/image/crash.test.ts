import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { images, pods } from '../../../src/api/resources.ts';
import { imageAnnotations } from '../../../src/image/names.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { withFaults, type Fault } from '../../support/faultclient.ts';
import {
  anImage,
  aQcow2,
  becomesReady,
  imageCluster,
  readyOf,
  soon,
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

interface Scenario {
  readonly title: string;
  prepare(namespace: string): Promise<void>;
  isDone(namespace: string): Promise<boolean>;
}

const isReady = async (namespace: string, name: string): Promise<boolean> =>
  (await readyOf(cluster.client, namespace, name)) === 'Ready';
const hasNoPods = async (namespace: string): Promise<boolean> =>
  (await cluster.client.list(pods, { namespace })).items.length === 0;

const scenarios: Scenario[] = [
  {
    title: 'copies a disk',
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
    title: 'takes an upload over',
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

const plurals = new Set(['images', 'pods']);

/** Runs an operator that dies at its write number `at`. */
async function runUntilWrite(
  at: number,
  fault: Fault,
  isDone: () => Promise<boolean>,
): Promise<'crashed' | 'done'> {
  let seen = 0;
  let hasCrashed = false;
  const faulty = withFaults(cluster.client, ({ plural }) => {
    if (!plurals.has(plural)) return 'none';
    seen += 1;
    if (seen !== at) return 'none';
    hasCrashed = true;
    queueMicrotask(() => faulty.crash());
    return fault;
  });
  const operator = start(faulty.client);
  await expect.poll(async () => hasCrashed || (await isDone()), soon).toBe(true);
  await operator.stop();
  return hasCrashed ? 'crashed' : 'done';
}

describe('an operator that', () => {
  test.each(scenarios)('$title may die at every write, done or not', async ({ prepare, isDone }) => {
    for (const fault of ['lostAnswer', 'lostRequest'] as const) {
      const namespace = await cluster.namespace();
      await prepare(namespace);
      for (let at = 1; at <= 3; at += 1) {
        if ((await runUntilWrite(at, fault, () => isDone(namespace))) === 'done') break;
      }
      start();
      await expect.poll(() => isDone(namespace), soon).toBe(true);
      await Promise.all(operators.splice(0).map((operator) => operator.stop()));
    }
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
