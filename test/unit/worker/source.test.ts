import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { mediaTypes } from '../../../src/registry/client.ts';
import { pushDisk } from '../../../src/registry/disk.ts';
import { appendParts, uploadTag, writeParts } from '../../../src/registry/parts.ts';
import { failureFrom } from '../../../src/worker/failure.ts';
import { openSource, type SourceOptions } from '../../../src/worker/source.ts';
import { withoutDelays } from '../delays.ts';
import { memoryRegistry, type MemoryRegistry } from '../registry/memoryregistry.ts';
import { standIn } from '../runnerapi/standin.ts';

const content = 'bytes of a disk';
const { signal } = new AbortController();

function options(registry: MemoryRegistry, opened: string[] = []): SourceOptions {
  const open = (name: string): MemoryRegistry => (opened.push(name), registry);
  return { open, ticket: 'secret', maxBytes: 1_000, signal };
}

async function pushed(architecture: string, registry = memoryRegistry(), tag = '1'): Promise<MemoryRegistry> {
  await pushDisk(registry, {
    repository: 'team/vm',
    tag,
    architecture,
    fileName: 'disk.qcow2',
    size: content.length,
    content: Readable.from([Buffer.from(content)]),
  });
  return registry;
}

/** Under one reference an image for each architecture. */
async function pushedForAll(): Promise<MemoryRegistry> {
  const registry = memoryRegistry();
  const manifests: object[] = [];
  for (const architecture of ['amd64', 'arm64']) {
    await pushed(architecture, registry, architecture);
    const { digest, bytes } = await registry.manifest('team/vm', architecture);
    const size = bytes.length;
    const platform = { architecture, os: 'linux' };
    manifests.push({ mediaType: mediaTypes.ociManifest, digest, size, platform });
  }
  registry.put('team/vm', '1', { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests });
  return registry;
}

const reference = 'r.example.com/team/vm:1';

describe('the disk of an image', () => {
  test.each(['amd64', 'arm64'])(
    'for %s is opened at its registry, with what is known of it',
    async (architecture) => {
      const opened: string[] = [];
      const registry = await pushed(architecture);
      const source = await openSource({ type: 'remote', reference }, options(registry, opened));
      expect(opened).toEqual(['r.example.com']);
      expect(source).toMatchObject({
        size: content.length,
        architecture,
        image: { registry: 'r.example.com', repository: 'team/vm', fileName: 'disk.qcow2' },
      });
      expect(await text(source.stream)).toBe(content);
      await expect(source.verified).resolves.toBeUndefined();
    },
  );

  test.each([
    ['for the architecture that was asked for', 'arm64', 'arm64'],
    ['for amd64 where none was', undefined, 'amd64'],
  ] as const)('of several under one reference is that %s', async (_what, architecture, expected) => {
    const source = { type: 'remote', reference, architecture } as const;
    const opened = await openSource(source, options(await pushedForAll()));
    opened.stream.destroy();
    expect(opened.architecture).toBe(expected);
  });

  test('whose reference is none is refused by the name of the field', async () => {
    const source = { type: 'remote', reference: 'no reference' } as const;
    await expect(openSource(source, options(memoryRegistry()))).rejects.toThrow(/^source: /);
  });

  test('for another architecture is refused', async () => {
    const registry = await pushed('riscv64');
    await expect(openSource({ type: 'remote', reference }, options(registry))).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'the image is for riscv64; VMs are amd64 or arm64',
    });
  });

  test('that was uploaded says nothing of its architecture: the api did not know it', async () => {
    const source = await openSource({ type: 'upload', reference }, options(await pushed('arm64')));
    expect(source.architecture).toBeUndefined();
    expect(source.image?.fileName).toBe('disk.qcow2');
    expect(await text(source.stream)).toBe(content);
  });

  test('that was uploaded in parts is their bytes', async () => {
    const registry = memoryRegistry();
    const place = { repository: 'team/vm', tag: uploadTag('1') };
    const list = await writeParts(registry, place, { parts: [], annotations: {} });
    const given = Readable.from([Buffer.from('bytes of '), Buffer.from('a disk')]);
    await appendParts(registry, place, { list, content: given, partBytes: 9 });
    const uploaded = { type: 'upload', reference: `r.example.com/team/vm:${uploadTag('1')}` } as const;
    const source = await openSource(uploaded, options(registry));
    expect(source).toMatchObject({ size: content.length, architecture: undefined });
    expect(source.image).toBeUndefined();
    expect(await text(source.stream)).toBe(content);
  });

  test('may unpack to 64 MiB more than it may have: archives have headers', async () => {
    const registry = await pushed('amd64');
    const bytes = registry.blobs.values().next().value!.length;
    const open = async (more: number): Promise<void> => {
      const allowed = { ...options(registry), maxBytes: bytes + more - 64 * 2 ** 20 };
      const { stream, verified } = await openSource({ type: 'remote', reference }, allowed);
      await Promise.all([text(stream), verified]);
    };
    await expect(open(0)).resolves.toBeUndefined();
    await expect(open(-1)).rejects.toThrow(`unpacks to more than ${bytes - 1} bytes`);
  });
});

describe('an upload that the store does not show', () => {
  const uploaded = { type: 'upload', reference } as const;
  const failing = async (registry: MemoryRegistry) =>
    failureFrom(await openSource(uploaded, options(registry)).catch((error: unknown) => error));

  test('is looked for two minutes, and then said to be lost', async () => {
    const waited = withoutDelays();
    expect(await failing(memoryRegistry())).toEqual({
      result: 'Failed',
      reason: 'UploadLost',
      message: 'the upload is not in the store any more; send it again',
    });
    expect(waited.reduce((sum, ms) => sum + ms, 0)).toBe(120_000);
  });

  test('at once is opened as soon as it is shown', async () => {
    const waited = withoutDelays();
    const registry = await pushed('amd64');
    const manifest = vi.spyOn(registry, 'manifest');
    for (let i = 0; i < 2; i += 1) manifest.mockRejectedValueOnce(new Svc3Error('NotFound', 'no'));
    const { stream } = await openSource(uploaded, options(registry));
    expect([await text(stream), waited]).toEqual([content, [1_000, 2_000]]);
  });

  test.each<[what: string, happens: (registry: MemoryRegistry) => unknown, reason: string]>([
    ['has lost a blob', (registry) => registry.blobs.clear(), 'SourceNotFound'],
    [
      'is away',
      (registry) =>
        vi.spyOn(registry, 'manifest').mockRejectedValue(new Svc3Error('ServiceUnavailable', 'no')),
      'RegistryUnreachable',
    ],
  ])('since that %s is not lost', async (_what, happens, reason) => {
    const waited = withoutDelays();
    const registry = await pushed('amd64');
    happens(registry);
    expect([(await failing(registry)).reason, waited]).toEqual([reason, []]);
  });

  test('is no source of another kind: that may come', async () => {
    const opening = openSource({ type: 'remote', reference }, options(memoryRegistry()));
    expect(failureFrom(await opening.catch((error: unknown) => error)).reason).toBe('SourceNotFound');
  });
});

test('the copy of a VM is read from its runner with the ticket, and gone on with where it breaks off', async () => {
  withoutDelays();
  const runner = await standIn(({ headers }, response) => {
    const from = Number(/bytes=(\d+)-/.exec(headers.range ?? '')?.[1]);
    const range = `bytes ${from}-${content.length - 1}/${content.length}`;
    response.writeHead(206, { 'content-range': range, 'content-length': content.length - from });
    if (from > 0) response.end(content.slice(from));
    else response.write(content.slice(0, 5), () => setImmediate(() => response.destroy()));
  });
  const { port, certificate, asked } = runner;
  const { fingerprint } = certificate;
  const source = await openSource(
    { type: 'export', address: '127.0.0.1', port, fingerprint, path: '/v1/exports/a/data' },
    options(memoryRegistry()),
  );
  expect(source).toMatchObject({ size: content.length, architecture: undefined });
  expect(await text(source.stream)).toBe(content);
  expect(asked.map(({ authorization, headers }) => [authorization, headers.range])).toEqual([
    ['Ticket secret', 'bytes=0-'],
    ['Ticket secret', 'bytes=5-'],
  ]);
});
