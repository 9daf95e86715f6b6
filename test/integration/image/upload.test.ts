import { createHash, randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { images, isos, pods } from '../../../src/api/resources.ts';
import { imageAnnotations } from '../../../src/api/image.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { diskDigestOf, pushDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { appendParts, writeParts } from '../../../src/registry/parts.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { createUploadTargets } from '../../../src/usecases/uploadtarget.ts';
import {
  anImage,
  anIso,
  aQcow2,
  becomesReady,
  diskOf,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  statusOf,
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

/** What the api does with a file: an image under a tag of its own in the disk's repository. */
async function stage(repository: string, content: Buffer, fileName = 'disk.img'): Promise<string> {
  const { digest } = await pushDisk(store, {
    repository,
    tag: `upload-${randomUUID()}`,
    architecture: 'amd64',
    fileName,
    size: content.length,
    content: Readable.from([content]),
  });
  return digest;
}

async function uploadsTo(repository: string): Promise<string[]> {
  return (await store.tags(repository)).filter((tag) => tag.startsWith('upload'));
}

async function upload(namespace: string, name: string, content: Buffer): Promise<void> {
  const digest = await stage(`svc3/${namespace}/${name}`, content);
  const image = anImage(namespace, name, { upload: {} });
  image.metadata.annotations = { [imageAnnotations.upload]: digest };
  await cluster.client.create(images, image);
}

describe('an upload', () => {
  test('is waited for, inspected when it is there, and then nothing of it is left but the image', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await client.create(images, anImage(namespace, 'later', { upload: {} }));
    await expect.poll(() => readyOf(client, namespace, 'later'), soon).toContain('AwaitingUpload');
    const disk = await aQcow2();
    const digest = await stage(`svc3/${namespace}/later`, disk);
    const annotations = { [imageAnnotations.upload]: digest };
    await client.patch(
      images,
      { name: 'later', namespace },
      { type: 'merge', body: { metadata: { annotations } } },
    );
    const status = await becomesReady(client, namespace, 'later');
    expect(status).toMatchObject({ format: 'qcow2', architecture: 'amd64', size: '1Mi' });
    expect(await diskOf(store, status.reference ?? '')).toEqual(disk);
    await expect.poll(() => uploadsTo(`svc3/${namespace}/later`), soon).toEqual([]);
  });

  test('that lies in the store as it is to lie there gets its name and moves no bytes', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const disk = await aQcow2();
    const digest = await stage(`svc3/${namespace}/same`, disk, 'disk.qcow2');
    const staged = await store.manifest(`svc3/${namespace}/same`, digest);
    const image = anImage(namespace, 'same', { upload: {} });
    image.metadata.annotations = { [imageAnnotations.upload]: digest };
    await client.create(images, image);
    const status = await becomesReady(client, namespace, 'same');
    const made = await resolveImage(store, parseReference(status.reference ?? ''));
    expect(made.manifest.layers).toEqual(staged.manifest.layers);
    expect(diskDigestOf(made)).toBe(`sha256:${createHash('sha256').update(disk).digest('hex')}`);
    expect(await store.digestOf(`svc3/${namespace}/same`, 'latest')).toBe(status.digest);
    expect(await diskOf(store, status.reference ?? '')).toEqual(disk);
    await client.delete(images, { name: 'same', namespace });
    await expect.poll(() => readyOf(client, namespace, 'same'), soon).toBe('gone');
    expect(await store.tags(`svc3/${namespace}/same`)).toEqual([]);
  });

  test('of a raw disk is stored as qcow2, for the architecture that its annotation says', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const raw = Buffer.alloc(1_000_001);
    raw.write('boot', 0);
    const digest = await stage(`svc3/${namespace}/raw`, raw);
    const image = anImage(namespace, 'raw', { upload: {} });
    image.metadata.annotations = {
      [imageAnnotations.upload]: digest,
      [imageAnnotations.architecture]: 'arm64',
    };
    await client.create(images, image);
    const status = await becomesReady(client, namespace, 'raw');
    expect(status).toMatchObject({ format: 'qcow2', architecture: 'arm64', size: '977Ki' });
    expect((await diskOf(store, status.reference ?? '')).toString('latin1', 0, 3)).toBe('QFI');
  });

  test.each([
    ['a VMDK disk', Buffer.from('KDMV and more'), 'the file is a VMDK disk, not qcow2 or raw'],
    [
      'a packed disk',
      Buffer.from('1f8b0800', 'hex'),
      'the file is a gzip file, not qcow2 or raw; unpack it first',
    ],
    ['a cut qcow2', Buffer.from('514649fb00000003', 'hex'), 'the qcow2 file ends within its header'],
  ])('of %s is refused with a sentence', async (_what, content, sentence) => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await upload(namespace, 'bad', content);
    await expect.poll(() => readyOf(client, namespace, 'bad'), soon).toContain(`DiskRefused: ${sentence}`);
    await expect.poll(() => store.tags(`svc3/${namespace}/bad`), soon).toEqual([]);
    const { digest, reference } = (await statusOf(client, namespace, 'bad')) ?? {};
    expect({ digest, reference }).toEqual({ digest: undefined, reference: undefined });
  });

  test('that came in parts is put together, and its parts go', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const disk = await aQcow2();
    const reference = { repository: `svc3/${namespace}/parts`, tag: `upload-${randomUUID()}` };
    const begun = await writeParts(store, reference, { parts: [], annotations: {} });
    const content = Readable.from([disk.subarray(0, 100_000), disk.subarray(100_000)]);
    const list = await appendParts(store, reference, { list: begun, content, partBytes: 1 });
    const image = anImage(namespace, 'parts', { upload: {} });
    image.metadata.annotations = { [imageAnnotations.upload]: list.digest };
    await client.create(images, image);
    const status = await becomesReady(client, namespace, 'parts');
    expect((await diskOf(store, status.reference ?? '')).equals(disk)).toBe(true);
    await expect.poll(() => uploadsTo(reference.repository), soon).toEqual([]);
  });

  test('that was refused can be sent again', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await upload(namespace, 'again', Buffer.from('KDMV and more'));
    await expect.poll(() => readyOf(client, namespace, 'again'), soon).toContain('DiskRefused');
    const digest = await stage(`svc3/${namespace}/again`, await aQcow2());
    const annotations = { [imageAnnotations.upload]: digest };
    await client.patch(
      images,
      { name: 'again', namespace },
      { type: 'merge', body: { metadata: { annotations } } },
    );
    await becomesReady(client, namespace, 'again');
  });

  test('that is stored stays, and stays the only one, when its object loses its annotations', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    await upload(namespace, 'replaced', await aQcow2());
    const { digest } = await becomesReady(client, namespace, 'replaced');
    const key = { name: 'replaced', namespace };
    const spec = { description: 'replaced', source: { upload: {} } };
    const annotations = { [imageAnnotations.upload]: null };
    await client.patch(images, key, { type: 'merge', body: { metadata: { annotations }, spec } });
    const status = () => statusOf(client, namespace, 'replaced');
    await expect.poll(async () => (await status())?.observedGeneration, soon).toBe(2);
    expect((await status())?.digest).toBe(digest);
    expect((await status())?.conditions?.map(({ type }) => type)).toEqual(['Ready']);
    await expect(
      createUploadTargets(client).look({ ...key, kind: 'Image' }, { description: undefined }),
    ).rejects.toMatchObject({
      reason: 'AlreadyExists',
    });
  });

  test('of something that is no medium is refused as an ISO', async () => {
    const { client } = cluster;
    const namespace = await cluster.namespace();
    const digest = await stage(`svc3/${namespace}/iso/medium`, Buffer.alloc(100_000), 'disk.iso');
    const iso = anIso(namespace, 'medium', { upload: {} });
    iso.metadata.annotations = { [imageAnnotations.upload]: digest };
    await client.create(isos, iso);
    await expect
      .poll(() => readyOf(client, namespace, 'medium', 'ISO'), soon)
      .toContain('the file is not an ISO 9660 medium');
  });

  test('whose Image is deleted while a worker is at it ends, and the store is empty', async () => {
    const { client, workers } = cluster;
    const namespace = await cluster.namespace();
    workers.onStart((child) => child.kill('SIGSTOP'));
    await upload(namespace, 'gone', await aQcow2());
    await expect.poll(async () => (await client.list(pods, { namespace })).items.length, soon).toBe(1);
    await client.delete(images, { name: 'gone', namespace });
    await expect.poll(() => readyOf(client, namespace, 'gone'), soon).toBe('gone');
    workers.onStart(() => undefined);
    expect((await client.list(pods, { namespace })).items).toEqual([]);
    expect(await store.tags(`svc3/${namespace}/gone`)).toEqual([]);
  });
});
