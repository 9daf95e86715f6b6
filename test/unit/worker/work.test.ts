import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { WorkSpec } from '../../../src/api/worker.ts';
import { diskDigestOf, openDisk, pushDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { createProgress } from '../../../src/worker/progress.ts';
import { work, type WorkParts } from '../../../src/worker/work.ts';
import { memoryRegistry, type MemoryRegistry } from '../registry/memoryregistry.ts';
import { serve } from '../registry/servedregistry.ts';

// Of media only: to look at disks takes qemu-img, and is shown by test/integration/worker/work.test.ts.
const medium = Buffer.alloc(40_000);
medium.write('CD001', 32_769);

let registry: MemoryRegistry;
let address: string;
let parts: WorkParts;

beforeEach(async () => {
  registry = memoryRegistry();
  address = await serve(registry);
  const scratch = await mkdtemp(join(tmpdir(), 'svc3-work-'));
  onTestFinished(() => rm(scratch, { recursive: true }));
  const { signal } = new AbortController();
  parts = { scratch, dockerConfig: '', ticket: '', progress: createProgress(), signal };
});

const pushed = (content: Buffer, repository: string, fileName = 'medium.iso', architecture = 'amd64') =>
  pushDisk(registry, {
    repository,
    tag: 'in',
    architecture,
    fileName,
    size: content.length,
    content: Readable.from([content]),
  });

function specOf(source: WorkSpec['source'], more: Partial<WorkSpec> = {}): WorkSpec {
  return {
    version: 1,
    kind: 'ISO',
    source,
    target: { registry: address, repository: 'store/team/tools', tag: 'v1' },
    registries: { [address]: { scheme: 'http', skipVerify: false } },
    architecture: 'arm64',
    limits: { virtualBytes: 1_000_000, fileBytes: 1_000_000 },
    port: 0,
    ...more,
  };
}

const stored = (tag: string) =>
  resolveImage(registry, { registry: address, repository: 'store/team/tools', tag });

describe('a medium of another registry', () => {
  test('is inspected and stored under its version and as the newest', async () => {
    await pushed(medium, 'team/tools');
    const done = await work(specOf({ type: 'remote', reference: `${address}/team/tools:in` }), parts);
    const image = await stored('v1');
    expect(done).toEqual({
      result: 'Done',
      digest: image.digest,
      size: 40_000,
      storedSize: image.size,
      format: 'iso',
      architecture: 'amd64',
    });
    expect((await stored('latest')).digest).toBe(image.digest);
    expect(diskDigestOf(image)).toBe(sha256(medium));
    const { name, stream } = await openDisk(registry, 'store/team/tools', image);
    expect([name, (await text(stream)).length]).toEqual(['medium.iso', 40_000]);
    expect(parts.progress.percent).toBe(99);
    // The source stays, and nothing stays in the worker.
    expect(await registry.tags('team/tools')).toEqual(['in']);
    expect(await readdir(parts.scratch)).toEqual([]);
  });

  test('that is none is refused, and nothing of it is stored', async () => {
    await pushed(Buffer.alloc(100), 'team/tools');
    const spec = specOf({ type: 'remote', reference: `${address}/team/tools:in` });
    await expect(work(spec, parts)).rejects.toThrow('the file is not an ISO 9660 medium');
    expect(await registry.tags('store/team/tools')).toEqual([]);
    expect(await registry.tags('team/tools')).toEqual(['in']);
    expect(await readdir(parts.scratch)).toEqual([]);
  });

  test('that is larger than allowed is refused', async () => {
    await pushed(medium, 'team/tools');
    const limits = { virtualBytes: 1_000_000, fileBytes: 39_999 };
    const spec = specOf({ type: 'remote', reference: `${address}/team/tools:in` }, { limits });
    await expect(work(spec, parts)).rejects.toThrow('the disk file has more than 39999 bytes');
  });
});

describe('a medium that was uploaded', () => {
  const upload = (digest: string, repository: string): WorkSpec =>
    specOf({ type: 'upload', reference: `${address}/${repository}@${digest}` });

  test('to where it is to lie is named, and not moved', async () => {
    const { digest } = await pushed(medium, 'store/team/tools', 'disk.iso', 'arm64');
    const layers = registry.blobs.size;
    const done = await work(upload(digest, 'store/team/tools'), parts);
    const image = await stored('v1');
    expect(done).toMatchObject({ digest: image.digest, storedSize: image.size, architecture: 'arm64' });
    expect(diskDigestOf(image)).toBe(sha256(medium));
    expect((await stored('latest')).digest).toBe(image.digest);
    expect(registry.blobs.size).toBe(layers);
  });

  test.each<[string, string, string, string]>([
    ['elsewhere', 'uploads/one', 'disk.iso', 'arm64'],
    ['for another architecture than it was said', 'store/team/tools', 'disk.iso', 'amd64'],
    ['under a name of another kind', 'store/team/tools', 'disk.raw', 'arm64'],
  ])('%s is stored anew, and the upload forgotten', async (_what, repository, fileName, architecture) => {
    const { digest } = await pushed(medium, repository, fileName, architecture);
    const done = await work(upload(digest, repository), parts);
    expect(done).toMatchObject({ architecture: 'arm64', format: 'iso' });
    expect((await stored('v1')).digest).toBe(done.digest);
    expect(done.digest).not.toBe(digest);
    expect(registry.manifests.has(`${repository}@${digest}`)).toBe(false);
  });

  test('that is none is refused, and forgotten', async () => {
    const { digest } = await pushed(Buffer.alloc(100), 'uploads/one');
    await expect(work(upload(digest, 'uploads/one'), parts)).rejects.toMatchObject({ reason: 'Invalid' });
    expect([...registry.manifests.keys()]).toEqual([]);
  });
});
