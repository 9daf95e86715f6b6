import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
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
  diskOf,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
} from './harness.ts';

const run = promisify(execFile);
let cluster: ImageCluster;
let store: RegistryClient;
let large: Buffer;
const operators: ImageOperator[] = [];

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
  large = await aQcow2({ fill: randomBytes(48 * 2 ** 20) });
});

afterEach(async () => {
  cluster.workers.onStart(() => undefined);
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

async function push(repository: string, content: Buffer, tag = '1'): Promise<string> {
  const { digest } = await pushDisk(store, {
    repository,
    tag,
    architecture: 'amd64',
    fileName: 'disk.qcow2',
    size: content.length,
    content: Readable.from([content]),
  });
  return tag === '1' ? `${cluster.registry.address}/${repository}:1` : digest;
}

/** Whether the registry is in the middle of taking a blob of the repository. */
async function isUploading(repository: string): Promise<boolean> {
  const uploads = join(cluster.registry.dir, 'data/docker/registry/v2/repositories', repository, '_uploads');
  return (await readdir(uploads).catch(() => [])).length > 0;
}

describe('the work on a disk goes on', () => {
  test('after its worker was killed', async () => {
    const { client, workers } = cluster;
    const namespace = await cluster.namespace();
    const reference = await push(`killed/${namespace}`, large);
    let killed = 0;
    workers.onStart((child) => {
      if (killed++ === 0) child.kill('SIGKILL');
    });
    start();
    await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
    await expect
      .poll(() => readyOf(client, namespace, 'disk'), soon)
      .toContain('WorkerFailed: the worker pod failed');
    const status = await becomesReady(client, namespace, 'disk');
    expect((await diskOf(store, status.reference ?? '')).equals(large)).toBe(true);
    expect(killed).toBe(2);
  });

  test('after its pod was deleted', async () => {
    const { client, workers } = cluster;
    const namespace = await cluster.namespace();
    const reference = await push(`deleted/${namespace}`, large);
    let started = 0;
    workers.onStart((child) => {
      if (started++ === 0) child.kill('SIGSTOP');
    });
    start();
    await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
    await expect.poll(() => started, soon).toBe(1);
    const [pod] = (await client.list(pods, { namespace })).items;
    await client.delete(pods, { name: pod?.metadata.name ?? '', namespace });
    await becomesReady(client, namespace, 'disk');
  });

  test('after the store went away in the middle of a push and came back', async () => {
    const { client, registry } = cluster;
    const namespace = await cluster.namespace();
    const reference = await push(`away/${namespace}`, large);
    start();
    await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
    await expect.poll(() => isUploading(`svc3/${namespace}/disk`), { ...soon, interval: 5 }).toBe(true);
    await registry.restart();
    const status = await becomesReady(client, namespace, 'disk');
    expect((await diskOf(store, status.reference ?? '')).equals(large)).toBe(true);
  });

  test('when the credential that was refused in the middle of a push is good again', async () => {
    const { client, registry } = cluster;
    const namespace = await cluster.namespace();
    const reference = await push(`refused/${namespace}`, large);
    const passwords = join(registry.dir, 'htpasswd');
    const good = await readFile(passwords);
    const { stdout: bad } = await run('htpasswd', ['-Bbn', registry.username, 'another']);
    start();
    await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
    await expect.poll(() => isUploading(`svc3/${namespace}/disk`), { ...soon, interval: 5 }).toBe(true);
    await writeFile(passwords, bad);
    try {
      await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toContain('RegistryDenied: registry');
    } finally {
      await writeFile(passwords, good);
    }
    expect(await store.digestOf(`svc3/${namespace}/disk`, 'latest')).toBeUndefined();
    await becomesReady(client, namespace, 'disk');
  });
});

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
