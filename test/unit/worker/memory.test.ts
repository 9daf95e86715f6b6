import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { zstdDecompressSync } from 'node:zlib';
import { extract } from 'tar-stream';
import { expect, test } from 'vitest';
import { diskWaitsForPerson } from '../../../src/api/reasons.ts';
import type { WorkSpec } from '../../../src/api/worker.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { mediaTypes } from '../../../src/registry/client.ts';
import { locateDisk, openDisk, pushDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { failureFrom } from '../../../src/worker/failure.ts';
import { storeMemory } from '../../../src/worker/memory.ts';
import { createProgress } from '../../../src/worker/progress.ts';
import { memoryRegistry } from '../registry/memoryregistry.ts';
import { standIn } from '../runnerapi/standin.ts';
import { aMachine } from './amachine.ts';

const ram = Buffer.alloc(2 ** 20, 'memory');
const honest = { ram, state: Buffer.from('state'), 'machine.json': Buffer.from(JSON.stringify(aMachine)) };

async function store(
  parts: Record<string, Buffer>,
  limits = { virtualBytes: 2 ** 30, fileBytes: 2 ** 30 },
  registry = memoryRegistry(),
) {
  const runner = await standIn(({ path }, response) => {
    const bytes = parts[path.slice('/m/'.length)] ?? Buffer.alloc(0);
    response.writeHead(206, { 'content-range': `bytes 0-${bytes.length - 1}/${bytes.length}` });
    response.end(bytes);
  });
  const { fingerprint } = runner.certificate;
  const spec: WorkSpec = {
    version: 1,
    kind: 'Image',
    source: {
      type: 'export',
      address: '127.0.0.1',
      port: runner.port,
      fingerprint,
      path: '/d',
      memoryPath: '/m',
    },
    target: { registry: 'r.example.com', repository: 'team/vm', tag: '1' },
    registries: {},
    architecture: 'amd64',
    limits,
    port: 0,
  };
  const { signal } = new AbortController();
  const memory = await storeMemory(registry, spec, {
    scratch: '',
    dockerConfig: '',
    ticket: 'secret',
    progress: createProgress(),
    signal,
  });
  return { registry, memory, runner };
}

async function filesOf(tar: Buffer): Promise<Record<string, Buffer>> {
  const files: Record<string, Buffer> = {};
  for await (const entry of Readable.from([tar]).pipe(extract()))
    if (entry.header.type === 'file') files[entry.header.name] = await buffer(entry);
  return files;
}

test('the memory of a guest is a layer of its own before that of the disk, and readers find the disk as ever', async () => {
  const { registry, memory, runner } = await store(honest);
  expect(memory?.stored).toEqual({
    bytes: 2 ** 20,
    cpuModel: 'Some CPU',
    cpuFlags: 'sse',
    cpu: 1,
    accelerator: 'kvm',
    qemu: '10.0.3',
    stoppedMs: 800,
  });
  expect(new Set(runner.asked.map(({ authorization }) => authorization))).toEqual(new Set(['Ticket secret']));
  const content = Buffer.from('bytes of a disk');
  await pushDisk(registry, {
    repository: 'team/vm',
    tag: '1',
    architecture: 'amd64',
    fileName: 'disk.qcow2',
    size: content.length,
    content: Readable.from([content]),
    before: [memory!.layer],
  });
  const image = await resolveImage(registry, {
    registry: 'r.example.com',
    repository: 'team/vm',
    tag: '1',
  });
  const [first, last] = image.manifest.layers;
  expect([first?.mediaType, last?.mediaType]).toEqual([mediaTypes.ociLayerZstd, mediaTypes.ociLayer]);
  const tar = zstdDecompressSync(registry.blobs.get(first!.digest)!);
  expect(await filesOf(tar)).toEqual({
    'memory/machine.json': honest['machine.json'],
    'memory/state': honest.state,
    'memory/ram': ram,
  });
  const config = JSON.parse(registry.blobs.get(image.manifest.config.digest)!.toString()) as {
    rootfs: { diff_ids: string[] };
  };
  const digest = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  expect(config.rootfs.diff_ids).toEqual([digest(tar), last!.digest]);
  const opened = await openDisk(registry, 'team/vm', image);
  expect(await buffer(opened.stream)).toEqual(content);
  expect((await locateDisk(registry, 'team/vm', image))?.size).toBe(content.length);
});

test.each<[what: string, parts: Record<string, Buffer>, message: string]>([
  ['a memory of another size', { ...honest, ram: Buffer.alloc(10) }, "the runner's ram has 10 bytes"],
  [
    'a description that is none',
    { ...honest, 'machine.json': Buffer.from('{}') },
    'description of the machine',
  ],
  [
    'a description without end',
    { ...honest, 'machine.json': Buffer.alloc(2 ** 17, ' ') },
    'machine is too large',
  ],
])('%s is refused, and nothing of it is kept', async (_what, parts, message) => {
  await expect(store(parts)).rejects.toMatchObject({
    reason: 'Invalid',
    message: expect.stringContaining(message),
  });
});

test('a memory beyond what a file may have is refused before it is fetched', async () => {
  await expect(store(honest, { virtualBytes: 1, fileBytes: 1000 })).rejects.toThrow('more than 1000 bytes');
});

test('features that the last words of a worker have no room for are left out', async () => {
  const flags = Array.from({ length: 300 }, (_, i) => `feature${i}`);
  const large = { ...aMachine, hostCpu: { model: 'Some CPU', flags } };
  const { memory } = await store({ ...honest, 'machine.json': Buffer.from(JSON.stringify(large)) });
  expect(memory?.stored).toMatchObject({ cpuModel: 'Some CPU' });
  expect(memory?.stored).not.toHaveProperty('cpuFlags');
});

test('a store that takes no layer of this size says so, and it is tried again later', async () => {
  const registry = memoryRegistry();
  const refusal = new Svc3Error('RequestEntityTooLarge', 'registry r takes no upload of this size');
  registry.upload = () => Promise.reject(refusal);
  const failed = await store(honest, undefined, registry).catch((error: unknown) => failureFrom(error));
  expect(failed).toMatchObject({
    reason: 'WorkerFailed',
    message: expect.stringContaining('takes no upload of this size'),
  });
  // Nobody has to do anything for another try.
  expect(diskWaitsForPerson).not.toContain('WorkerFailed');
});

test.each<WorkSpec['source']>([
  { type: 'remote', reference: 'r.example.com/a:1' },
  { type: 'upload', reference: 'r.example.com/a@sha256:b' },
  { type: 'export', address: '127.0.0.1', port: 1, fingerprint: 'f', path: '/d' },
])('of the source %o no memory is wanted, and nobody is asked', async (source) => {
  const parts = {
    scratch: '',
    dockerConfig: '',
    ticket: 'secret',
    progress: createProgress(),
    signal: new AbortController().signal,
  };
  expect(await storeMemory(memoryRegistry(), { source } as WorkSpec, parts)).toBeUndefined();
});
