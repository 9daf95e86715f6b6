import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { images } from '../../../src/api/resources.ts';
import { imageAnnotations } from '../../../src/api/image.ts';
import { imageItem } from '../../../src/wire/image.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { appendParts, uploadTag, writeParts } from '../../../src/registry/parts.ts';
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
let operator: ImageOperator;
let store: RegistryClient;

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
  operator = startImageOperator(cluster.client, cluster.settings);
});

afterAll(async () => {
  await operator?.stop();
  await store?.close();
  await cluster?.remove();
});

/** What has come of an upload, as the api writes it down. */
async function part(repository: string, id: string, content: Buffer = randomBytes(1000)): Promise<string> {
  const reference = { repository, tag: uploadTag(id) };
  const list = await writeParts(store, reference, { parts: [], annotations: { id } });
  const { digest } = await appendParts(store, reference, { list, content: fromBuffer(content) });
  return digest;
}

async function* fromBuffer(content: Buffer): AsyncGenerator<Buffer> {
  yield content;
}

/** The same as if it had been written years ago. */
async function age(repository: string, id: string): Promise<void> {
  const { digest, bytes, mediaType } = await store.manifest(repository, uploadTag(id));
  const old = bytes.toString().replace(/("svc3\.dev\/written-at":")20\d\d/, '$12001');
  await store.deleteManifest(repository, digest);
  await store.putManifest(repository, uploadTag(id), Buffer.from(old), mediaType);
}

test('an upload that nobody goes on with is given up, and the next one to the same Image is taken', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const repository = `svc3/${namespace}/stale`;
  await part(repository, 'old');
  await age(repository, 'old');
  await client.create(images, anImage(namespace, 'stale', { upload: {} }));
  await expect.poll(() => readyOf(client, namespace, 'stale'), soon).toContain('UploadAbandoned');
  expect(await readyOf(client, namespace, 'stale')).toContain('stopped after 1000 bytes and was given up');
  expect(await store.tags(repository)).toEqual([]);
  const image = await client.get(images, 'stale', namespace);
  expect(imageItem(image)).toMatchObject({
    state: 'Failed',
    errorMessage: expect.stringContaining('svc3 image upload'),
  });

  const digest = await part(repository, 'new', await aQcow2());
  const annotations = { [imageAnnotations.upload]: digest };
  const sent = await client.patch(
    images,
    { name: 'stale', namespace },
    { type: 'merge', body: { metadata: { annotations } } },
  );
  expect(imageItem({ ...image, metadata: sent.metadata }).state).toBe('Updating');
  await becomesReady(client, namespace, 'stale');
});

test('an upload that somebody may go on with stays, whatever became of another one', async () => {
  const { client } = cluster;
  const namespace = await cluster.namespace();
  const repository = `svc3/${namespace}/fresh`;
  await part(repository, 'old');
  await age(repository, 'old');
  await part(repository, 'new');
  await client.create(images, anImage(namespace, 'fresh', { upload: {} }));
  await expect.poll(() => store.tags(repository), soon).toEqual([uploadTag('new')]);
  await expect.poll(() => readyOf(client, namespace, 'fresh'), soon).toContain('AwaitingUpload');
});

test('an upload that nobody goes on with is given up once its time is over, also where another one has filled the Image', async () => {
  const { client, settings } = cluster;
  await operator.stop();
  operator = startImageOperator(client, { ...settings, uploadExpiryMs: 2_000 });
  const namespace = await cluster.namespace();
  const repository = `svc3/${namespace}/twice`;
  await part(repository, 'old');
  const annotations = { [imageAnnotations.upload]: await part(repository, 'new', await aQcow2()) };
  const twice = anImage(namespace, 'twice', { upload: {} });
  await client.create(images, { ...twice, metadata: { ...twice.metadata, annotations } });
  const { digest } = await becomesReady(client, namespace, 'twice');
  await expect.poll(() => store.tags(repository), soon).not.toContain(uploadTag('old'));
  expect(await store.tags(repository)).not.toContain(uploadTag('new'));
  expect(await store.digestOf(repository, 'latest')).toBe(digest);
  expect(await readyOf(client, namespace, 'twice')).toBe('Ready');
});
