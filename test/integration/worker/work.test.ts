import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkSpec } from '../../../src/api/worker.ts';
import { createRegistryClient, mediaTypes, type RegistryClient } from '../../../src/registry/client.ts';
import { diskDigestOf, openDisk, pushDisk } from '../../../src/registry/disk.ts';
import { manifestOf, resolveImage } from '../../../src/registry/image.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';
import { aSpec, runWorker } from './harness.ts';

const run = promisify(execFile);
let folder: string;
let registry: TestRegistry;
let client: RegistryClient;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-work-'));
  registry = await startRegistry({ auth: 'token' });
  const credentials = { username: registry.username, password: registry.password };
  client = createRegistryClient({ registry: registry.address, scheme: 'http', credentials });
});

afterAll(async () => {
  await client?.close();
  await registry?.stop();
  await rm(folder, { recursive: true, force: true });
});

const spec = (repository: string, limits: Partial<WorkSpec['limits']> = {}) =>
  aSpec(registry, repository, limits);
const work = (wanted: WorkSpec, password = registry.password) =>
  runWorker(registry, wanted, { folder, password });

async function push(
  repository: string,
  content: Readable,
  size: number,
  fileName = 'disk.img',
): Promise<void> {
  await pushDisk(client, { repository, tag: '1', architecture: 'amd64', fileName, size, content });
}

describe('the worker', () => {
  test('pulls a disk with a bearer token, and says what it has made', async () => {
    const raw = randomBytes(20 * 2 ** 20);
    await push('plain', Readable.from([raw]), raw.length);
    const { result } = await work(spec('plain'));
    expect(result).toMatchObject({
      result: 'Done',
      size: raw.length,
      format: 'qcow2',
      architecture: 'amd64',
    });
    const image = await resolveImage(client, parseReference(`${registry.address}/made/plain:latest`));
    expect(result).toMatchObject({ digest: image.digest });
    const made = await buffer((await openDisk(client, 'made/plain', image)).stream);
    expect(diskDigestOf(image)).toBe(`sha256:${createHash('sha256').update(made).digest('hex')}`);
  });

  test('keeps its memory small whatever the size of the disk is', { timeout: 180_000 }, async () => {
    const size = 2 ** 29;
    await mkdir(join(folder, 'disk'));
    const disk = join(folder, 'disk/disk.img');
    await writeFile(disk, randomBytes(2 ** 20));
    await truncate(disk, size);
    const packed = join(folder, 'sparse.tar.gz');
    await run('tar', ['-C', folder, '-czf', packed, 'disk/disk.img']);
    await rm(disk);
    await pushLayer('sparse', await readFile(packed), mediaTypes.ociLayerGzip);
    const small = await work(spec('plain'));
    const large = await work(spec('sparse'));
    expect(large.result).toMatchObject({ result: 'Done', size });
    // The source is run as it is written, which alone takes half of what a bundle needs.
    expect(large.peakRss - small.peakRss).toBeLessThan(64 * 2 ** 20);
  });

  test('stops a layer that unpacks to more than is allowed', async () => {
    const bomb = zstdCompressSync(Buffer.alloc(300 * 2 ** 20));
    await pushLayer('bomb', bomb, mediaTypes.ociLayerZstd);
    const { result } = await work(spec('bomb', { fileBytes: 2 ** 20 }));
    expect(result).toMatchObject({
      result: 'Failed',
      reason: 'DiskRefused',
      message: expect.stringContaining('unpacks to more than'),
    });
  });

  test('refuses a file that is larger than is allowed before it has come', async () => {
    await push('large', Readable.from([Buffer.alloc(3 * 2 ** 20, 1)]), 3 * 2 ** 20);
    const { result } = await work(spec('large', { fileBytes: 2 ** 20 }));
    expect(result).toMatchObject({
      result: 'Failed',
      reason: 'DiskRefused',
      message: 'the disk file has more than 1048576 bytes',
    });
    expect(await client.tags('made/large')).toEqual([]);
  });

  test('says that a login was refused, and nothing of it is in its words', async () => {
    const { result, output } = await work(spec('plain'), 'planted-canary');
    expect(result).toMatchObject({ result: 'Failed', reason: 'RegistryDenied' });
    expect(`${output}${JSON.stringify(result)}`).not.toContain('planted-canary');
  });

  test('says that an image is not there', async () => {
    const { result } = await work(spec('nothing'));
    expect(result).toMatchObject({ result: 'Failed', reason: 'SourceNotFound' });
  });

  test('notices a layer that is not what its digest says', async () => {
    const bytes = randomBytes(200_000);
    await push('honest', Readable.from([bytes]), bytes.length);
    const image = await resolveImage(client, parseReference(`${registry.address}/honest:1`));
    const hex = image.manifest.layers[0]?.digest.slice(7) ?? '';
    const data = `${registry.dir}/data/docker/registry/v2/blobs/sha256/${hex.slice(0, 2)}/${hex}/data`;
    const file = await open(data, 'r+');
    await file.write(Buffer.from('tampered'), 0, 8, 4096);
    await file.close();
    const { result } = await work(spec('honest'));
    expect(result).toMatchObject({
      result: 'Failed',
      message: expect.stringContaining('does not match its digest'),
    });
    expect(await client.tags('made/honest')).toEqual([]);
  });
});

async function pushLayer(repository: string, layer: Buffer, mediaType: string): Promise<void> {
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux' }));
  const digest = await client.putBlob(repository, layer);
  const configDigest = await client.putBlob(repository, config);
  const manifest = manifestOf(
    { mediaType: mediaTypes.ociConfig, digest: configDigest, size: config.length },
    [{ mediaType, digest, size: layer.length }],
    {},
  );
  await client.putManifest(repository, '1', manifest, mediaTypes.ociManifest);
}
