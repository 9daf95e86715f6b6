import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { WorkSpec } from '../../../src/api/worker.ts';
import { diskDigestOf, openDisk, pushDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { appendParts, uploadTag, writeParts } from '../../../src/registry/parts.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { blankQcow2 } from '../../../src/controllers/image/blankdisk.ts';
import { failureFrom } from '../../../src/worker/failure.ts';
import { createProgress } from '../../../src/worker/progress.ts';
import type { Tool } from '../../../src/worker/qemuimg.ts';
import type { WorkParts } from '../../../src/worker/parts.ts';
import { work } from '../../../src/worker/work.ts';
import { startHostileRegistry } from '../../support/hostileregistry.ts';
import { memoryRegistry, type MemoryRegistry } from '../registry/memoryregistry.ts';
import { serve } from '../registry/servedregistry.ts';
import { standIn } from '../runnerapi/standin.ts';
import { aMachine } from './amachine.ts';

// What qemu-img itself makes of disks is shown by test/integration/worker/work.test.ts.
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

test('disk and memory of an export are fetched at the same time', async () => {
  const ram = Buffer.alloc(2 ** 20);
  const files: Readonly<Record<string, Buffer>> = {
    '/d': medium,
    '/m/ram': ram,
    '/m/state': Buffer.from('state'),
    '/m/machine.json': Buffer.from(JSON.stringify(aMachine)),
  };
  const asked = new Set<string>();
  const { promise: bothAsked, resolve } = Promise.withResolvers<void>();
  const runner = await standIn(({ path }, response) => {
    asked.add(path);
    if (asked.has('/d') && asked.has('/m/ram')) resolve();
    // Of both there is nothing before the other one is wanted.
    const ready = path === '/d' || path === '/m/ram' ? bothAsked : Promise.resolve();
    const bytes = files[path] ?? Buffer.alloc(0);
    response.writeHead(206, { 'content-range': `bytes 0-${bytes.length - 1}/${bytes.length}` });
    void ready.then(() => response.end(bytes));
  });
  const { port, certificate } = runner;
  const { fingerprint } = certificate;
  const spec = specOf(
    { type: 'export', address: '127.0.0.1', port, fingerprint, path: '/d', memoryPath: '/m' },
    { limits: { virtualBytes: 1_000_000, fileBytes: ram.length } },
  );
  expect(await work(spec, parts)).toMatchObject({ size: medium.length, memory: { bytes: ram.length } });
  expect((await stored('v1')).manifest.layers).toHaveLength(2);
});

test('a memory that the store does not take leaves nothing under a name; without it the disk is stored', async () => {
  const large = memoryRegistry();
  const store = await serve(large, { largestBody: 2 ** 19 });
  const ram = randomBytes(2 ** 20);
  const files: Readonly<Record<string, Buffer>> = {
    '/d': medium,
    '/m/ram': ram,
    '/m/state': Buffer.from('state'),
    '/m/machine.json': Buffer.from(JSON.stringify(aMachine)),
  };
  const runner = await standIn(({ path }, response) => {
    const bytes = files[path] ?? Buffer.alloc(0);
    response.writeHead(206, { 'content-range': `bytes 0-${bytes.length - 1}/${bytes.length}` });
    response.end(bytes);
  });
  const { port, certificate } = runner;
  const from = { address: '127.0.0.1', port, fingerprint: certificate.fingerprint, path: '/d' };
  const saved = (source: WorkSpec['source']) =>
    work(
      specOf(source, {
        target: { registry: store, repository: 'store/team/tools', tag: 'v1' },
        registries: { [store]: { scheme: 'http', skipVerify: false } },
        limits: { virtualBytes: 1_000_000, fileBytes: ram.length },
      }),
      parts,
    );
  const refused = saved({ type: 'export', ...from, memoryPath: '/m' });
  await expect(refused).rejects.toThrow('takes no upload of this size');
  expect(await large.tags('store/team/tools')).toEqual([]);
  expect(await readdir(parts.scratch)).toEqual([]);
  await saved({ type: 'export', ...from });
  expect(await large.tags('store/team/tools')).toEqual(['v1', 'latest']);
});

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

  test('whose bytes are not those that were meant is refused, and nothing of it is stored', async () => {
    await pushed(medium, 'team/tools');
    const { manifest } = await resolveImage(registry, parseReference(`${address}/team/tools:in`));
    const [{ digest } = { digest: '' }] = manifest.layers;
    const forged = Buffer.from(registry.blobs.get(digest) ?? '');
    forged.write('forged', forged.indexOf('CD001') + 100);
    registry.blobs.set(digest, forged);
    const spec = specOf({ type: 'remote', reference: `${address}/team/tools:in` });
    await expect(work(spec, parts)).rejects.toThrow('digest');
    expect(await registry.tags('store/team/tools')).toEqual([]);
  });

  test('that is larger than allowed is refused', async () => {
    await pushed(medium, 'team/tools');
    const limits = { virtualBytes: 1_000_000, fileBytes: 39_999 };
    const spec = specOf({ type: 'remote', reference: `${address}/team/tools:in` }, { limits });
    await expect(work(spec, parts)).rejects.toThrow('the disk file has more than 39999 bytes');
  });
});

describe('work that fails', () => {
  const failureOf = async (spec: WorkSpec) => failureFrom(await work(spec, parts).catch((error) => error));

  test('tells which registry it failed with', async () => {
    await pushed(medium, 'team/tools');
    const source = { type: 'remote', reference: `${address}/team/tools:in` } as const;
    const missing = { ...source, reference: `${address}/team/tools:none` };
    expect(await failureOf(specOf(missing))).toMatchObject({
      reason: 'SourceNotFound',
      failedRequest: { registry: address, reason: 'NotFound' },
    });
    const store = await serve(memoryRegistry(), { largestBody: 10_000 });
    const how = { scheme: 'http', skipVerify: false } as const;
    const stored = specOf(source, {
      target: { registry: store, repository: 'store/team/tools', tag: 'v1' },
      registries: { [address]: how, [store]: how },
    });
    const failedRequest = { registry: store, reason: 'RequestEntityTooLarge' };
    expect(await failureOf(stored)).toMatchObject({ failedRequest });
  });

  test('of a quota in the store is none of a credential', async () => {
    await pushed(medium, 'team/tools');
    const source = { type: 'remote', reference: `${address}/team/tools:in` } as const;
    const full = await startHostileRegistry();
    onTestFinished(() => full.close());
    const message = 'adding 39.1 KiB of storage resource will exceed the configured upper limit of 1.0 KiB.';
    full.answers.set(
      '/v2/store/team/tools/blobs/uploads/',
      (_request, response) =>
        void response.writeHead(403).end(JSON.stringify({ errors: [{ code: 'DENIED', message }] })),
    );
    const how = { scheme: 'http', skipVerify: false } as const;
    const stored = specOf(source, {
      target: { registry: full.address, repository: 'store/team/tools', tag: 'v1' },
      registries: { [address]: how, [full.address]: how },
    });
    expect(await failureOf(stored)).toMatchObject({
      reason: 'WorkerFailed',
      message: expect.stringContaining(message),
    });
  });

  test('tells of none where the disk is at fault', async () => {
    await pushed(Buffer.alloc(100), 'team/tools');
    const failure = await failureOf(specOf({ type: 'remote', reference: `${address}/team/tools:in` }));
    expect(failure).toMatchObject({ reason: 'DiskRefused' });
    expect(failure).not.toHaveProperty('failedRequest');
  });
});

describe('a registry that asks for a login', () => {
  test.each([
    ['gets that of the docker configuration', ['Basic YWxpY2U6cDRzcw=='], 'NotFound'],
    ['gets none where there is none for it', [], 'Unauthorized'],
  ])('%s', async (_sentence, credentials, reason) => {
    const guarded = await startHostileRegistry();
    onTestFinished(() => guarded.close());
    guarded.answers.set(
      '/v2/team/tools/manifests/in',
      ({ headers }, response) =>
        void response
          .writeHead(headers.authorization === undefined ? 401 : 404, {
            'www-authenticate': 'Basic realm="r"',
            // As registries do, so that nobody asks whether one is there.
            'docker-distribution-api-version': 'registry/2.0',
          })
          .end(),
    );
    const host = credentials.length === 0 ? 'other.example.com' : guarded.address;
    const dockerConfig = JSON.stringify({ auths: { [host]: { username: 'alice', password: 'p4ss' } } });
    const registries = { [guarded.address]: { scheme: 'http', skipVerify: false } } as const;
    const source = { type: 'remote', reference: `${guarded.address}/team/tools:in` } as const;
    await expect(work(specOf(source, { registries }), { ...parts, dockerConfig })).rejects.toMatchObject({
      reason,
    });
    expect(guarded.credentials).toEqual(credentials);
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

  test('as it is to lie, with its digest, is the image', async () => {
    const { digest } = await pushDisk(registry, {
      repository: 'store/team/tools',
      tag: 'in',
      architecture: 'arm64',
      fileName: 'disk.iso',
      size: medium.length,
      content: Readable.from([medium]),
      noteDigest: true,
    });
    const done = await work(upload(digest, 'store/team/tools'), parts);
    expect(done.digest).toBe(digest);
    expect((await stored('v1')).digest).toBe(digest);
  });

  test('before is taken over by uploads only: another image is stored anew, and stays', async () => {
    const { digest } = await pushed(medium, 'store/team/tools', 'disk.iso', 'arm64');
    const source = { type: 'remote', reference: `${address}/store/team/tools@${digest}` } as const;
    const done = await work(specOf(source), parts);
    const { name } = await openDisk(registry, 'store/team/tools', await stored('v1'));
    expect([name, done.architecture]).toEqual(['medium.iso', 'arm64']);
    expect(registry.manifests.has(`store/team/tools@${digest}`)).toBe(true);
  });

  test.each<[string, string, string, string]>([
    ['elsewhere', 'uploads/one', 'disk.iso', 'arm64'],
    ['for another architecture than it was said', 'store/team/tools', 'disk.iso', 'amd64'],
    ['under a name of another kind', 'store/team/tools', 'disk.raw', 'arm64'],
  ])(
    '%s is stored anew, by whoever works at it last too',
    async (_what, repository, fileName, architecture) => {
      const { digest } = await pushed(medium, repository, fileName, architecture);
      const done = await work(upload(digest, repository), parts);
      expect(done).toMatchObject({ architecture: 'arm64', format: 'iso' });
      expect((await stored('v1')).digest).toBe(done.digest);
      expect(done.digest).not.toBe(digest);
      // Nobody knows yet whether this pod's word arrives.
      expect(await work(upload(digest, repository), parts)).toEqual(done);
    },
  );

  test('in parts is stored anew as one', async () => {
    const list = { repository: 'store/team/tools', tag: uploadTag('1') };
    const begun = await writeParts(registry, list, { parts: [], annotations: {} });
    const content = Readable.from([medium]);
    const { digest } = await appendParts(registry, list, { list: begun, content, partBytes: 16_000 });
    await work(upload(digest, 'store/team/tools'), parts);
    const image = await stored('v1');
    expect([image.manifest.layers.length, diskDigestOf(image)]).toEqual([1, sha256(medium)]);
  });

  test('is named no more once nobody wants it, also where the registry does not answer', async () => {
    const { digest } = await pushed(medium, 'store/team/tools', 'disk.iso', 'arm64');
    const enough = new AbortController();
    registry.putManifest = () => {
      enough.abort(new Error('enough'));
      return new Promise(() => undefined);
    };
    const ended = work(upload(digest, 'store/team/tools'), { ...parts, signal: enough.signal });
    await expect(ended).rejects.toThrow('enough');
  });

  test('that is none is refused, as often as it is looked at', async () => {
    const { digest } = await pushed(Buffer.alloc(100), 'uploads/one');
    const refused = { reason: 'Invalid' };
    await expect(work(upload(digest, 'uploads/one'), parts)).rejects.toMatchObject(refused);
    await expect(work(upload(digest, 'uploads/one'), parts)).rejects.toMatchObject(refused);
  });
});

describe('a disk', () => {
  const qcow2 = blankQcow2(2 ** 30);
  const raw = Buffer.alloc(1_000, 7);
  const disk = (reference: string, more: Partial<WorkSpec> = {}): WorkSpec =>
    specOf(
      { type: 'remote', reference: `${address}/${reference}` },
      { kind: 'Image', limits: { virtualBytes: 2 ** 40, fileBytes: 1_000_000 }, ...more },
    );

  /** Stands in for qemu-img: finds nothing amiss, and packs every disk into the same one. */
  function standIn(): { tool: Tool; runs: string[][]; packing: number[] } {
    const [runs, packing] = [[] as string[][], [] as number[]];
    const tool: Tool = async (args, { onProgress }) => {
      runs.push(args.map((arg) => (arg.startsWith(parts.scratch) ? basename(arg) : arg)));
      if (args[0] !== 'convert') return { code: 0, output: '{}' };
      await writeFile(args.at(-1) ?? '', qcow2);
      for (const percent of [0, 50, 100]) {
        onProgress?.(percent);
        packing.push(parts.progress.percent);
      }
      return { code: 0, output: '' };
    };
    return { tool, runs, packing };
  }

  const contentOf = async (tag: string) => {
    const { name, stream } = await openDisk(registry, 'store/team/tools', await stored(tag));
    return [name, sha256(await buffer(stream))];
  };

  test('that is raw is stored as qcow2, compressed and without what is empty', async () => {
    const { digest } = await pushed(raw, 'team/tools', 'disk.raw');
    const { tool, runs, packing } = standIn();
    const done = await work(disk(`team/tools@${digest}`), { ...parts, tool });
    expect(done).toMatchObject({ format: 'qcow2', size: 1_024, architecture: 'amd64' });
    expect(await contentOf('v1')).toEqual(['disk.qcow2', sha256(qcow2)]);
    const packed = 'convert -p -f raw -O qcow2 -c -o compression_type=zstd fetched packed';
    expect(runs.map((args) => args.join(' '))).toEqual([packed]);
    expect(packing).toEqual([45, 50, 55]);
    expect(parts.progress.percent).toBe(99);
    expect(await readdir(parts.scratch)).toEqual([]);
  });

  test('that is qcow2 is stored as it came', async () => {
    await pushed(qcow2, 'team/tools', 'some.qcow2');
    const { tool, runs } = standIn();
    const done = await work(disk('team/tools:in'), { ...parts, tool });
    expect(done).toMatchObject({ format: 'qcow2', size: 2 ** 30 });
    expect(await contentOf('v1')).toEqual(['disk.qcow2', sha256(qcow2)]);
    expect(runs.map(([verb]) => verb)).toEqual(['check']);
  });

  test('that is raw and was uploaded to where it is to lie is packed all the same', async () => {
    const { digest } = await pushed(raw, 'store/team/tools', 'disk.raw', 'arm64');
    const source = { type: 'upload', reference: `${address}/store/team/tools@${digest}` } as const;
    const done = await work(disk('', { source }), { ...parts, tool: standIn().tool });
    expect(done).toMatchObject({ format: 'qcow2', architecture: 'arm64' });
    expect(await contentOf('v1')).toEqual(['disk.qcow2', sha256(qcow2)]);
    expect(registry.manifests.has(`store/team/tools@${digest}`)).toBe(true);
  });

  test('that is larger for its guest than is allowed is refused', async () => {
    await pushed(qcow2, 'team/tools', 'some.qcow2');
    const limits = { virtualBytes: 2 ** 30 - 1, fileBytes: 1_000_000 };
    const spec = disk('team/tools:in', { limits });
    await expect(work(spec, { ...parts, tool: standIn().tool })).rejects.toThrow('the largest that is taken');
  });
});
