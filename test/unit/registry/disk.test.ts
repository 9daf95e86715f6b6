import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { describe, expect, test } from 'vitest';
import { mediaTypes } from '../../../src/registry/client.ts';
import { diskDigestOf, locateDisk, openDisk, pushDisk } from '../../../src/registry/disk.ts';
import { resolveImage, type ResolvedImage } from '../../../src/registry/image.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { manyHeaders, paxHeader, tarEntry } from '../../support/tarheaders.ts';
import { memoryRegistry, type MemoryRegistry } from './memoryregistry.ts';

type Header = Parameters<ReturnType<typeof pack>['entry']>[0];

async function tar(...entries: (Header & { content?: string })[]): Promise<Buffer> {
  const packing = pack();
  for (const { content = '', ...header } of entries) packing.entry(header, content);
  packing.finalize();
  return buffer(packing);
}

/** An image of these layers, lowest first. */
function imageOf(registry: MemoryRegistry, ...layers: [bytes: Buffer, mediaType: string][]): ResolvedImage {
  const descriptors = layers.map(([bytes, mediaType]) => {
    registry.blobs.set(sha256(bytes), bytes);
    return { mediaType, digest: sha256(bytes), size: bytes.length };
  });
  return {
    digest: '',
    architecture: 'amd64',
    mediaType: mediaTypes.ociManifest,
    manifest: { schemaVersion: 2, config: descriptors[0]!, layers: descriptors },
    annotations: {},
    size: 0,
  };
}

const plain = mediaTypes.ociLayer;
const disk = { name: 'disk/disk.qcow2', content: 'bytes of a disk' };

/** A frame of one block that is not compressed, which asks for a window of so many bytes, as a power of two (RFC 8878). */
function zstdFrame(content: Buffer, windowLog: number): Buffer {
  const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (windowLog - 10) << 3, 0, 0, 0]);
  header.writeUIntLE((content.length << 3) | 1, 6, 3);
  return Buffer.concat([header, content]);
}

describe('the disk of an image', () => {
  test.each<[string, (bytes: Buffer) => Buffer, string]>([
    ['plain', (bytes) => bytes, plain],
    ['in gzip', (bytes) => gzipSync(bytes), mediaTypes.ociLayerGzip],
    [
      'in gzip as Docker calls it',
      (bytes) => gzipSync(bytes),
      'application/vnd.docker.image.rootfs.diff.tar.gzip',
    ],
    ['in zstd', (bytes) => zstdCompressSync(bytes), mediaTypes.ociLayerZstd],
  ])('is read from a layer that is %s, and the layer verified', async (_how, packed, mediaType) => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [packed(await tar({ name: 'README', content: 'x' }, disk)), mediaType]);
    const { name, size, stream, verified } = await openDisk(registry, 'a', image);
    expect([name, size, await text(stream)]).toEqual(['disk.qcow2', 15, 'bytes of a disk']);
    await expect(verified).resolves.toBeUndefined();
  });

  test.each(['disk/a.qcow2', './disk/a.raw', '/disk/a.img', 'disk/a.iso'])('may be %s', async (name) => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [await tar({ ...disk, name }), plain]);
    expect((await openDisk(registry, 'a', image)).name).toBe(name.replace(/.*\//, ''));
  });

  test.each<Header>([
    { name: 'disk/a.txt' },
    { name: 'disk/a.qcow2.old' },
    { name: 'disks/a.qcow2' },
    { name: 'x/disk/a.qcow2' },
    { name: 'disk/b/a.qcow2' },
    { name: 'a.qcow2' },
    { name: 'disk/a.qcow2', type: 'directory' },
    { name: 'disk/a.qcow2', type: 'symlink', linkname: '/etc/passwd' },
  ])('is not %o', async (header) => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [await tar(header), plain]);
    await expect(openDisk(registry, 'a', image)).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('r.example.com/a holds no disk'),
    });
  });

  test('is the first of the highest layer that has one', async () => {
    const registry = memoryRegistry();
    const layers = [
      await tar({ name: 'disk/low.raw', content: 'low' }),
      await tar({ name: 'disk/one.raw', content: 'one' }, { name: 'disk/two.raw', content: 'two' }),
      await tar({ name: 'README', content: 'x' }),
    ];
    const image = imageOf(registry, ...layers.map((bytes): [Buffer, string] => [bytes, plain]));
    const { name, stream } = await openDisk(registry, 'a', image);
    expect([name, await text(stream)]).toEqual(['one.raw', 'one']);
  });

  test('is not verified where the layer is another', async () => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [await tar(disk), plain]);
    const [[digest]] = [...registry.blobs] as [[string, Buffer]];
    registry.blobs.set(digest, await tar({ ...disk, content: 'others of a disk'.slice(0, 15) }));
    const { stream, verified } = await openDisk(registry, 'a', image);
    const read = text(stream).catch(() => 'broken off');
    await expect(verified).rejects.toMatchObject({ reason: 'BadGateway' });
    await read;
  });

  const packedAs = [
    ['gzip', gzipSync, mediaTypes.ociLayerGzip],
    ['zstd', zstdCompressSync, mediaTypes.ociLayerZstd],
  ] as const;
  describe.each(packedAs)('packed with %s', (_how, packed, mediaType) => {
    /** As blobs come from a registry: what unpacks them has come to its end before the last piece. */
    const inPieces = (registry: MemoryRegistry): MemoryRegistry => ({
      ...registry,
      blob: async (...asked) => {
        const bytes = await buffer(await registry.blob(...asked));
        const pieces = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, at) =>
          bytes.subarray(at * 65_536, (at + 1) * 65_536),
        );
        return Readable.from(pieces, { objectMode: false });
      },
    });

    /** A layer of 1 MB: what stands behind the packed data is unpacked to nothing. */
    const filledUp = async (file: Header & { content?: string }): Promise<Buffer> => {
      const bytes = packed(await tar(file));
      return Buffer.concat([bytes, Buffer.alloc(1_000_000 - bytes.length)]);
    };

    test('is verified where something stands behind it', async () => {
      const registry = memoryRegistry();
      const { stream, verified } = await openDisk(
        registry,
        'a',
        imageOf(registry, [await filledUp(disk), mediaType]),
      );
      expect(await text(stream)).toBe('bytes of a disk');
      await expect(verified).resolves.toBeUndefined();
    });

    test('is not verified where that of another layer came', async () => {
      const registry = memoryRegistry();
      const meant = await filledUp(disk);
      const image = imageOf(registry, [meant, mediaType]);
      registry.blobs.set(
        sha256(meant),
        await filledUp({ ...disk, content: 'others of a disk'.slice(0, 15) }),
      );
      const whole = async () => {
        const { stream, verified } = await openDisk(inPieces(registry), 'a', image);
        await text(stream);
        await verified;
      };
      await expect(whole()).rejects.toMatchObject({ reason: 'BadGateway' });
    });

    test('is not said to be missing where another layer came that has none', async () => {
      const registry = memoryRegistry();
      const meant = await filledUp(disk);
      const image = imageOf(registry, [meant, mediaType]);
      registry.blobs.set(sha256(meant), await filledUp({ name: 'README', content: 'x' }));
      await expect(openDisk(inPieces(registry), 'a', image)).rejects.toMatchObject({
        reason: 'BadGateway',
        message: expect.stringContaining('does not match its digest'),
      });
    });
  });

  test('is read from a layer as builders write it, with a global header and extended ones', async () => {
    const registry = memoryRegistry();
    const layer = Buffer.concat([
      paxHeader({ comment: 'a1b2c3' }, 'g'),
      await tar(
        { name: 'disk', type: 'directory', pax: { mtime: '1700000000.25' } },
        { ...disk, pax: { 'SCHILY.xattr.security.capability': 'x', mtime: '1700000000.5' } },
      ),
    ]);
    const opened = await openDisk(registry, 'a', imageOf(registry, [layer, plain]));
    expect([opened.name, await text(opened.stream)]).toEqual(['disk.qcow2', 'bytes of a disk']);
    await expect(opened.verified).resolves.toBeUndefined();
  });

  test('costs nothing for each header behind a global one: whoever copied that would be at it for minutes', async () => {
    const registry = memoryRegistry();
    const layer = Buffer.concat([manyHeaders(64 * 1024, 5_000), await tar(disk)]);
    const image = imageOf(registry, [zstdCompressSync(layer), mediaTypes.ociLayerZstd]);
    const opened = await openDisk(registry, 'a', image);
    expect([opened.name, await text(opened.stream)]).toEqual(['disk.qcow2', 'bytes of a disk']);
  });

  test('is looked for behind so many bytes of all layers together as are allowed, and is as large as it is', async () => {
    const registry = memoryRegistry();
    const other = await tar({ name: 'README', content: 'x'.repeat(5_000) });
    const large = { name: 'disk/disk.raw', content: 'x'.repeat(100_000) };
    const [before, after] = [await tar(large), other].map((bytes): [Buffer, string] => [bytes, plain]);
    const image = imageOf(registry, before!, after!);
    const mostBefore = { headers: 2, bytes: other.length + 512 };
    const { stream } = await openDisk(registry, 'a', image, { mostBefore });
    expect(await text(stream)).toHaveLength(100_000);
    const less = (change: object) =>
      openDisk(registry, 'a', image, { mostBefore: { ...mostBefore, ...change } });
    await expect(less({ bytes: mostBefore.bytes - 1 })).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'a layer of r.example.com/a has too many bytes before its disk',
    });
    await expect(less({ headers: 1 })).rejects.toThrow('has too many files before its disk');
  });

  test.each<[string, () => Promise<Buffer>]>([
    ['no archive', async () => Buffer.alloc(2048, 7)],
    ['cut off in a header', async () => (await tar(disk)).subarray(0, 100)],
    ['cut off in an extended header', async () => paxHeader({ a: 'x'.repeat(2_000) }).subarray(0, 1024)],
  ])('is in no layer that is %s', async (_what, make) => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [await make(), plain]);
    await expect(openDisk(registry, 'a', image)).rejects.toMatchObject({
      reason: 'BadGateway',
      message: expect.stringMatching(/^a layer of r.example.com\/a (is no tar archive|ends too early)$/),
    });
  });

  test('is whole, or its stream fails', async () => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [(await tar(disk)).subarray(0, 520), plain]);
    const { stream, verified } = await openDisk(registry, 'a', image);
    const ends = { reason: 'BadGateway', message: 'a layer of r.example.com/a ends too early' };
    await expect(text(stream)).rejects.toMatchObject(ends);
    await expect(verified).rejects.toMatchObject(ends);
  });

  test('lets go of its layer once nobody wants it, though that gives nothing any more', async () => {
    const registry = memoryRegistry();
    const header = tarEntry({ size: '1000' });
    const image = imageOf(registry, [Buffer.concat([header, Buffer.alloc(1024)]), plain]);
    const silent = new Readable({ read: () => undefined });
    silent.push(header);
    const { stream } = await openDisk({ ...registry, blob: async () => silent }, 'a', image);
    stream.resume();
    stream.destroy();
    await expect.poll(() => silent.destroyed).toBe(true);
  });

  test('is not unpacked with more memory than a process has that all share', async () => {
    const registry = memoryRegistry();
    const read = async (windowLog: number, isShared: boolean): Promise<string> => {
      const layer = zstdFrame(tarEntry({ content: 'bytes' }), windowLog);
      const image = imageOf(registry, [layer, mediaTypes.ociLayerZstd]);
      return text((await openDisk(registry, 'a', image, { isShared })).stream);
    };
    expect(await read(23, true)).toBe('bytes');
    expect(await read(27, false)).toBe('bytes');
    await expect(read(24, true)).rejects.toMatchObject({
      reason: 'Invalid',
      message:
        'a layer of r.example.com/a is packed so that too much of it has to be kept in memory to unpack it',
    });
  });

  test('is not unpacked beyond what it may have', async () => {
    const registry = memoryRegistry();
    const bytes = await tar({ name: 'disk/zeros.raw', content: '\0'.repeat(300_000) });
    const image = imageOf(registry, [zstdCompressSync(bytes), mediaTypes.ociLayerZstd]);
    const read = async (maxUnpackedBytes: number): Promise<unknown> => {
      const opened = await openDisk(registry, 'a', image, { maxUnpackedBytes });
      const whole = text(opened.stream).catch(() => undefined);
      await opened.verified;
      return whole;
    };
    expect(await read(bytes.length)).toHaveLength(300_000);
    await expect(read(bytes.length - 1)).rejects.toThrow(
      `a layer of r.example.com/a unpacks to more than ${bytes.length - 1} bytes`,
    );
  });
});

describe('a disk that is read from any place', () => {
  test('is found by the beginning of its layer', async () => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [await tar({ name: 'disk', type: 'directory' }, disk), plain]);
    const found = await locateDisk(registry, 'a', image);
    expect(found).toMatchObject({ name: 'disk.qcow2', size: 15 });
    expect(await text(found!.read())).toBe('bytes of a disk');
    expect(await text(found!.read(6))).toBe('of a disk');
    expect(await text(found!.read(6, 8))).toBe('of');
    const layer = image.manifest.layers[0]!;
    expect(registry.calls[0]).toBe(`blob ${layer.digest} 0-${Math.min(8_192, layer.size) - 1}`);
  });

  test('is none in a layer that is packed, nor where it does not stand at the beginning', async () => {
    const registry = memoryRegistry();
    const packed = imageOf(registry, [gzipSync(await tar(disk)), mediaTypes.ociLayerGzip]);
    expect(await locateDisk(registry, 'a', packed)).toBeUndefined();
    const late = await tar({ name: 'README', content: 'x'.repeat(9_000) }, disk);
    expect(await locateDisk(registry, 'a', imageOf(registry, [late, plain]))).toBeUndefined();
    const none: ResolvedImage = { ...packed, manifest: { ...packed.manifest, layers: [] } };
    expect(await locateDisk(registry, 'a', none)).toBeUndefined();
  });

  test('is not read beyond what was asked for', async () => {
    const registry = memoryRegistry();
    const image = imageOf(registry, [await tar(disk), plain]);
    const more = { ...registry, blob: async () => Readable.from([Buffer.alloc(100_000)]) };
    await expect(locateDisk(more, 'a', image)).rejects.toMatchObject({
      reason: 'BadGateway',
      message: 'r.example.com/a sent more of a layer than asked for',
    });
  });
});

describe('a disk that is pushed', () => {
  const push = (registry: MemoryRegistry, more: object = {}) =>
    pushDisk(registry, {
      repository: 'a',
      tag: '1',
      architecture: 'arm64',
      fileName: 'disk.qcow2',
      size: disk.content.length,
      content: Readable.from([Buffer.from(disk.content)]),
      ...more,
    });

  test('comes back as it was, for its architecture, in files that the emulator may read', async () => {
    const registry = memoryRegistry();
    const told: number[] = [];
    const { digest, size } = await push(registry, { onProgress: (bytes: number) => told.push(bytes) });
    const image = await resolveImage(registry, { registry: 'r', repository: 'a', tag: '1' });
    expect([diskDigestOf(image), image.annotations]).toEqual([undefined, {}]);
    expect(image).toMatchObject({ digest, size, architecture: 'arm64', annotations: {} });
    expect(told).toEqual([size]);
    const opened = await openDisk(registry, 'a', image);
    expect([opened.name, await text(opened.stream)]).toEqual(['disk.qcow2', disk.content]);
    const layer = registry.blobs.get(image.manifest.layers[0]!.digest)!;
    const octal = (at: number): number => Number.parseInt(layer.toString('latin1', at, at + 7), 8);
    for (const [at, mode] of [
      [0, 0o755],
      [512, 0o444],
    ] as const)
      expect([octal(at + 100), octal(at + 108), octal(at + 116)]).toEqual([mode, 107, 107]);
    // The same disk is the same layer, whenever it is pushed.
    const again = memoryRegistry();
    expect((await push(again)).digest).toBe(digest);
  });

  test('has annotations, and its own digest where it is to be noted', async () => {
    const registry = memoryRegistry();
    await push(registry, { noteDigest: true, annotations: { a: 'b' } });
    const image = await resolveImage(registry, { registry: 'r', repository: 'a', tag: '1' });
    expect(image.annotations['a']).toBe('b');
    expect(diskDigestOf(image)).toBe(sha256(Buffer.from(disk.content)));
    expect(diskDigestOf({ ...image, annotations: {} })).toBeUndefined();
    const wrong = { 'svc3.dev/disk-digest': `x${sha256(Buffer.from(''))}` };
    expect(diskDigestOf({ ...image, annotations: wrong })).toBeUndefined();
  });

  test.each<[string, object]>([
    ['breaks off', { content: Readable.from(brokenOff()) }],
    ['breaks off while it is digested', { content: Readable.from(brokenOff()), noteDigest: true }],
    ['is shorter than it was said', { size: 16 }],
    ['is longer than it was said', { size: 14 }],
  ])('that %s is not named, and its upload is given up', async (_what, more) => {
    const registry = memoryRegistry();
    await expect(push(registry, more)).rejects.toThrow();
    expect(registry.calls).toEqual(['cancel a']);
    expect([...registry.manifests.keys()]).toEqual([]);
  });
});

async function* brokenOff(): AsyncGenerator<Buffer> {
  yield Buffer.from('byt');
  throw new Error('cut off');
}
