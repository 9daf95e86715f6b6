import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { writeSparse } from '../../../src/worker/sparsefile.ts';
import { startRegistry, type TestRegistry } from '../../support/registry.ts';
import { smallVolume, type SmallVolume } from '../../support/smallvolume.ts';
import { aSpec, runWorker } from './harness.ts';

const mib = 2 ** 20;
const raw = randomBytes(6 * mib);
let folder: string;
let registry: TestRegistry;
let client: RegistryClient;
let volume: SmallVolume | undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-full-'));
  registry = await startRegistry({ auth: 'basic' });
  const credentials = { username: registry.username, password: registry.password };
  client = createRegistryClient({ registry: registry.address, scheme: 'http', credentials });
  await pushDisk(client, {
    repository: 'disk',
    tag: '1',
    architecture: 'amd64',
    fileName: 'disk.img',
    size: raw.length,
    content: Readable.from([raw]),
  });
});

afterEach(async () => {
  await volume?.remove();
  volume = undefined;
});

afterAll(async () => {
  await client?.close();
  await registry?.stop();
  await rm(folder, { recursive: true, force: true });
});

describe('a worker whose volume is full', () => {
  test.each([
    ['while the disk comes', 4 * mib],
    ['while the disk is packed', 10 * mib],
  ])('%s says so, calls no disk damaged, and goes on when there is room', async (_when, room) => {
    volume = await smallVolume(room);
    // What the row before left, its registry may be about to collect.
    const repository = `made/${room}`;
    const spec = aSpec(registry, 'disk', {}, repository);
    const { result } = await runWorker(registry, spec, { folder, scratch: volume.path });
    expect(result).toEqual({
      result: 'Failed',
      reason: 'WorkerFailed',
      message: expect.stringContaining("the worker's volume has no room for the disk"),
    });
    expect(await client.tags(repository)).toEqual([]);
    expect(await readdir(volume.path)).toEqual([]);
    await volume.resize(64 * mib);
    const again = await runWorker(registry, spec, { folder, scratch: volume.path });
    expect(again.result).toEqual(expect.objectContaining({ result: 'Done', size: raw.length }));
    expect((await client.tags(repository)).toSorted()).toEqual(['latest', 'v1']);
  });
});

describe('a file that is written', () => {
  test('is refused when only a part of its last block had room', async () => {
    volume = await smallVolume(mib + 8192);
    const written = writeSparse(Readable.from([randomBytes(mib + 64 * 1024)]), join(volume.path, 'file'), {
      maxBytes: 2 ** 30,
      signal: AbortSignal.timeout(30_000),
    });
    await expect(written).rejects.toMatchObject({ reason: 'RequestEntityTooLarge' });
  });
});
