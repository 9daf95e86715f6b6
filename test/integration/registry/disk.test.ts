import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRegistryClient, mediaTypes, type RegistryClient } from '../../../src/registry/client.ts';
import { openDisk, pushDisk } from '../../../src/registry/disk.ts';
import { copyImage, resolveImage } from '../../../src/registry/image.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';

describe('disk images', () => {
  let registry: TestRegistry;
  let client: RegistryClient;
  const refer = (path: string) => parseReference(`${registry.address}/${path}`);

  beforeAll(async () => {
    registry = await startRegistry({ auth: 'basic' });
    const credentials = { username: registry.username, password: registry.password };
    client = createRegistryClient({ registry: registry.address, scheme: 'http', credentials });
  });
  afterAll(async () => {
    await client.close();
    await registry.stop();
  });

  const push = async (repository: string, bytes: Buffer, architecture = 'amd64'): Promise<string> => {
    const content = Readable.from([bytes.subarray(0, 10), bytes.subarray(10)]);
    const pushed = await pushDisk(client, {
      repository,
      tag: '1',
      architecture,
      fileName: 'disk.qcow2',
      size: bytes.length,
      content,
    });
    return pushed.digest;
  };

  it('go in as a stream and come out byte by byte', async () => {
    const bytes = randomBytes(40 * 1024 * 1024);
    const progress: number[] = [];
    const pushed = await pushDisk(client, {
      repository: 'ns/large',
      tag: '1',
      architecture: 'arm64',
      fileName: 'disk.qcow2',
      size: bytes.length,
      content: Readable.from(splitBytes(bytes, 1_000_003)),
      annotations: { 'svc3.dev/note': 'x' },
      onProgress: (done) => progress.push(done),
    });
    const image = await resolveImage(client, refer('ns/large:1'));
    expect(image).toMatchObject({
      digest: pushed.digest,
      architecture: 'arm64',
      annotations: { 'svc3.dev/note': 'x' },
    });
    expect(progress.length).toBeGreaterThan(1);
    const disk = await openDisk(client, 'ns/large', image);
    expect(disk).toMatchObject({ name: 'disk.qcow2', size: bytes.length });
    expect((await buffer(disk.stream)).equals(bytes)).toBe(true);
  });

  it('are copied without moving bytes', async () => {
    const bytes = randomBytes(100_000);
    await push('ns/original', bytes);
    const image = await resolveImage(client, refer('ns/original:1'));
    await copyImage(client, image, 'ns/original', { repository: 'ns/copied', tag: '1' });
    const copied = await resolveImage(client, refer('ns/copied:1'));
    expect(copied.manifest.layers).toEqual(image.manifest.layers);
    expect(await buffer((await openDisk(client, 'ns/copied', copied)).stream)).toEqual(bytes);
  });

  it.each([
    ['gzip', mediaTypes.ociLayerGzip, gzipSync],
    ['zstd', mediaTypes.ociLayerZstd, zstdCompressSync],
  ])('are read from a layer compressed with %s', async (_name, mediaType, compress) => {
    const bytes = randomBytes(50_000);
    await push('ns/plain', bytes);
    const plain = await resolveImage(client, refer('ns/plain:1'));
    const tar = await buffer(await client.blob('ns/plain', plain.manifest.layers[0]!.digest));
    const layer = compress(tar);
    const digest = await client.putBlob('ns/packed', layer);
    const packed = {
      ...plain,
      manifest: { ...plain.manifest, layers: [{ mediaType, digest, size: layer.length }] },
    };
    expect(await buffer((await openDisk(client, 'ns/packed', packed)).stream)).toEqual(bytes);
  });

  it('are found for the architecture that was asked for, and refused for another', async () => {
    const digests = {
      amd64: await push('ns/multi', randomBytes(1000)),
      arm64: await push('ns/multi', randomBytes(1000), 'arm64'),
    };
    const manifests = await Promise.all(
      Object.entries(digests).map(async ([architecture, digest]) => ({
        mediaType: mediaTypes.ociManifest,
        digest,
        size: (await client.manifest('ns/multi', digest)).bytes.length,
        platform: { architecture, os: 'linux' },
      })),
    );
    const index = Buffer.from(
      JSON.stringify({ schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests }),
    );
    await client.putManifest('ns/multi', 'all', index, mediaTypes.ociIndex);
    expect((await resolveImage(client, refer('ns/multi:all'), { architecture: 'arm64' })).digest).toBe(
      digests.arm64,
    );
    expect((await resolveImage(client, refer('ns/multi:all'))).digest).toBe(digests.amd64);
    await expect(resolveImage(client, refer('ns/multi:all'), { architecture: 'riscv64' })).rejects.toThrow(
      'has no image for riscv64, only for amd64, arm64',
    );
  });

  it('that are none are refused with a sentence', async () => {
    const config = await client.putBlob('ns/empty', Buffer.from('{"architecture":"amd64"}'));
    const manifest = {
      schemaVersion: 2,
      mediaType: mediaTypes.ociManifest,
      config: { mediaType: mediaTypes.ociConfig, digest: config, size: 24 },
      layers: [],
    };
    await client.putManifest('ns/empty', '1', Buffer.from(JSON.stringify(manifest)), mediaTypes.ociManifest);
    const image = await resolveImage(client, refer('ns/empty:1'));
    await expect(openDisk(client, 'ns/empty', image)).rejects.toThrow(/holds no disk/);
    await expect(resolveImage(client, refer('ns/unknown:1'))).rejects.toMatchObject({ reason: 'NotFound' });
  });

  it('leave nothing under a name when their bytes end early', async () => {
    const disk = {
      repository: 'ns/short',
      tag: '1',
      architecture: 'amd64',
      fileName: 'disk.qcow2',
      size: 1000,
      content: Readable.from([Buffer.alloc(10)]),
    };
    await expect(pushDisk(client, disk)).rejects.toThrow();
    expect(await client.digestOf('ns/short', '1')).toBeUndefined();
  });

  it('whose layer was damaged in the registry are noticed', async () => {
    const bytes = randomBytes(20_000);
    await push('ns/damaged', bytes);
    const image = await resolveImage(client, refer('ns/damaged:1'));
    const layers = [{ ...image.manifest.layers[0]!, digest: sha256(Buffer.from('other')) }];
    await expect(
      openDisk(client, 'ns/damaged', { ...image, manifest: { ...image.manifest, layers } }),
    ).rejects.toThrow();
  });
});

function* splitBytes(bytes: Buffer, size: number): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}
