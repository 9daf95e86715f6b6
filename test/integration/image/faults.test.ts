import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, request as requestOf } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { imageAnnotations } from '../../../src/api/image.ts';
import { images, pods } from '../../../src/api/resources.ts';
import type { KubeClient, RawRequest } from '../../../src/kube/types.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { appendParts, uploadTag, writeParts } from '../../../src/registry/parts.ts';
import { addCredential } from '../credential/harness.ts';
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

function start(store = cluster.settings.store, client: KubeClient = cluster.client): ImageOperator {
  const operator = startImageOperator(client, { ...cluster.settings, store });
  operators.push(operator);
  return operator;
}

async function push(repository: string, content: Buffer): Promise<string> {
  await pushDisk(store, {
    repository,
    tag: '1',
    architecture: 'amd64',
    fileName: 'disk.qcow2',
    size: content.length,
    content: Readable.from([content]),
  });
  return `${cluster.registry.address}/${repository}:1`;
}

/** Whether the registry is in the middle of taking a blob of the repository. */
async function isUploading(repository: string): Promise<boolean> {
  const uploads = join(cluster.registry.dir, 'data/docker/registry/v2/repositories', repository, '_uploads');
  return (await readdir(uploads).catch(() => [])).length > 0;
}

/** A way to the store on which the bytes of a push wait from the first on. */
async function heldWay(): Promise<{ url: string; arrived: Promise<void>; open(): void }> {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
  const { promise: opened, resolve: open } = Promise.withResolvers<void>();
  const { address } = cluster.registry;
  const server = createServer((request, response) => {
    const pass = (): void => {
      const { url = '/', method, headers } = request;
      const onward = requestOf(`http://${address}${url}`, { method, headers }, (reply) => {
        response.writeHead(reply.statusCode ?? 502, reply.headers);
        reply.pipe(response);
      });
      onward.on('error', () => response.destroy());
      request.pipe(onward);
    };
    if (request.method !== 'PATCH') return pass();
    arrive();
    void opened.then(pass);
    return undefined;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, arrived, open };
}

/** A worker that is being deleted and does not end, since its node is lost. Two minutes are gone then for operators that are started with the client. */
async function loseWorker(namespace: string): Promise<KubeClient> {
  const { client, workers } = cluster;
  const reference = await push(`lost/${namespace}`, large);
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  let count = 0;
  workers.onStart((child) => {
    if (count++ > 0) return;
    child.kill('SIGSTOP');
    start();
  });
  await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
  await started;
  await expect
    .poll(() => readyOf(client, namespace, 'disk'), soon)
    .toContain('Working: a worker pod is at work');
  const [pod] = (await client.list(pods, { namespace })).items;
  const name = pod?.metadata.name ?? '';
  // Only a pod that is on a node has time to end.
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/binding`;
  const target = { apiVersion: 'v1', kind: 'Node', name: 'lost' };
  await client.request({ method: 'POST', path, body: { metadata: { name }, target } });
  await client.delete(pods, { name, namespace });
  await expect
    .poll(() => readyOf(client, namespace, 'disk'), soon)
    .toBe('Working: waiting for the worker pod before to end');
  await Promise.all(operators.splice(0).map((operator) => operator.stop()));
  expect((await client.get(pods, name, namespace)).metadata.uid).toBe(pod?.metadata.uid);
  vi.useFakeTimers({ toFake: ['Date'], shouldAdvanceTime: true, now: Date.now() + 120_000 });
  onTestFinished(() => void vi.useRealTimers());
  // Nor is it lost before kube-apiserver's clock says so.
  const request: KubeClient['request'] = async (asked: RawRequest) => {
    const reply = await client.request<never>(asked);
    return { ...reply, headers: { ...reply.headers, date: new Date().toUTCString() } };
  };
  return { ...client, request };
}

describe('the work on a disk goes on', () => {
  test('after its worker was lost with its node', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    start();
    start(undefined, await loseWorker(namespace));
    const status = await becomesReady(client, namespace, 'disk');
    expect((await diskOf(store, status.reference ?? '')).equals(large)).toBe(true);
    await expect.poll(async () => (await client.list(pods, { namespace })).items, soon).toEqual([]);
  });

  test('no more where it is deleted, though its worker was lost with its node', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    start();
    const later = await loseWorker(namespace);
    await client.delete(images, { name: 'disk', namespace });
    start(undefined, later);
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toBe('gone');
    expect((await client.list(pods, { namespace })).items).toEqual([]);
  });

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

  test('with what was uploaded after the pod that had stored it was lost with its word', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const repository = `svc3/${namespace}/disk`;
    const uploaded = { repository, tag: uploadTag(namespace) };
    const begun = await writeParts(store, uploaded, { parts: [], annotations: {} });
    const content = Readable.from([large.subarray(0, 2 ** 20), large.subarray(2 ** 20)]);
    const list = await appendParts(store, uploaded, { list: begun, content, partBytes: 1 });
    const image = anImage(namespace, 'disk', { upload: {} });
    image.metadata.annotations = { [imageAnnotations.upload]: list.digest };
    const first = start();
    await client.create(images, image);
    await expect.poll(async () => (await client.list(pods, { namespace })).items.length, soon).toBe(1);
    await first.stop();
    const [pod] = (await client.list(pods, { namespace })).items;
    const phase = async () => (await client.get(pods, pod?.metadata.name ?? '', namespace)).status?.phase;
    await expect.poll(phase, soon).toBe('Succeeded');
    await client.delete(pods, { name: pod?.metadata.name ?? '', namespace });
    start();
    const status = await becomesReady(client, namespace, 'disk');
    expect((await diskOf(store, status.reference ?? '')).equals(large)).toBe(true);
    const uploads = async () => (await store.tags(repository)).filter((tag) => tag.startsWith('upload'));
    await expect.poll(uploads, soon).toEqual([]);
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
    const way = await heldWay();
    await addCredential(client, namespace, way.url, registry.password);
    start({ ...cluster.settings.store, url: way.url });
    await client.create(images, anImage(namespace, 'disk', { remote: { reference } }));
    await way.arrived;
    expect(await isUploading(`svc3/${namespace}/disk`)).toBe(true);
    await writeFile(passwords, bad);
    way.open();
    try {
      await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toContain('RegistryDenied: registry');
    } finally {
      await writeFile(passwords, good);
    }
    expect(await store.digestOf(`svc3/${namespace}/disk`, 'latest')).toBeUndefined();
    await becomesReady(client, namespace, 'disk');
  });
});

describe('what was stored of an Image that is deleted', () => {
  /** The store with other settings until the test ends. */
  async function storeWith(storage: object): Promise<() => Promise<void>> {
    const { registry } = cluster;
    const file = join(registry.dir, 'config.yml');
    const usual = await readFile(file, 'utf8');
    const settings = JSON.parse(usual) as { storage: object };
    const use = async (text: string) => {
      await writeFile(file, text);
      await registry.restart();
    };
    const restore = () => use(usual);
    onTestFinished(restore);
    await use(JSON.stringify({ ...settings, storage: { ...settings.storage, ...storage } }));
    return restore;
  }

  async function aBlankDisk(namespace: string): Promise<void> {
    await cluster.client.create(images, anImage(namespace, 'disk', { blank: { size: '1Gi' } }));
    await becomesReady(cluster.client, namespace, 'disk');
  }

  test('goes when the store is not read-only any more', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    start();
    await aBlankDisk(namespace);
    const restore = await storeWith({ maintenance: { readonly: { enabled: true } } });
    await client.delete(images, { name: 'disk', namespace });
    await expect
      .poll(() => readyOf(client, namespace, 'disk'), soon)
      .toContain('DeletionRefused: the store refuses to delete what it has: registry');
    await restore();
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toBe('gone');
    expect(await store.tags(`svc3/${namespace}/disk`)).toEqual([]);
  });

  test('stays where the store deletes nothing, and the Image goes', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    start();
    await aBlankDisk(namespace);
    await storeWith({ delete: { enabled: false } });
    await client.delete(images, { name: 'disk', namespace });
    await expect.poll(() => readyOf(client, namespace, 'disk'), soon).toBe('gone');
    expect(await store.tags(`svc3/${namespace}/disk`)).toContain('latest');
  });
});
