import { beforeEach, describe, expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { mediaTypes } from '../../../src/registry/client.ts';
import { copyImage, resolveImage } from '../../../src/registry/image.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { deleteVersions, publish } from '../../../src/registry/publish.ts';
import { memoryRegistry, type MemoryRegistry } from './memoryregistry.ts';

const layer = { mediaType: mediaTypes.ociLayer, digest: sha256(Buffer.from('layer')), size: 5 };

interface Given {
  config?: unknown;
  tag?: string;
  annotations?: Record<string, string>;
  layers?: object[];
}

/** Puts an image of one layer. */
function put(
  registry: MemoryRegistry,
  { config = {}, tag = '1', annotations, layers = [layer] }: Given = {},
) {
  const bytes = Buffer.from(typeof config === 'string' ? config : JSON.stringify(config));
  registry.blobs.set(sha256(bytes), bytes).set(layer.digest, Buffer.from('layer'));
  return registry.put('a', tag, {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: { mediaType: mediaTypes.ociConfig, digest: sha256(bytes), size: bytes.length },
    layers,
    ...(annotations === undefined ? {} : { annotations }),
  });
}

const reference = { registry: 'r.example.com', repository: 'a', tag: '1' };

/** An index of images for these architectures; `unknown` is an attestation. */
function anIndex(...architectures: (string | undefined)[]): MemoryRegistry {
  const registry = memoryRegistry();
  const manifests = architectures.map((architecture, i) => {
    const { digest, size } = put(registry, { tag: `m${i}`, config: { architecture, i } });
    const os = architecture === 'unknown' ? 'unknown' : 'linux';
    const platform = architecture === undefined ? undefined : { architecture, os };
    return { mediaType: mediaTypes.ociManifest, digest, size, platform };
  });
  registry.put('a', '1', { schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests });
  return registry;
}

describe('an image', () => {
  test('is what lies under its tag', async () => {
    const registry = memoryRegistry();
    const { digest } = put(registry, { config: { architecture: 'arm64' }, annotations: { a: 'b' } });
    expect(await resolveImage(registry, reference)).toMatchObject({
      digest,
      architecture: 'arm64',
      mediaType: mediaTypes.ociManifest,
      annotations: { a: 'b' },
      size: 5,
    });
    const byDigest = { registry: 'r.example.com', repository: 'a', tag: 'other', digest };
    expect((await resolveImage(registry, byDigest)).digest).toBe(digest);
  });

  test.each([
    ['{}', 'amd64'],
    ['null', 'amd64'],
    ['{"architecture":""}', 'amd64'],
    ['{"architecture":"riscv64"}', 'riscv64'],
  ])('whose configuration is %s is for %s', async (config, architecture) => {
    const registry = memoryRegistry();
    put(registry, { config });
    const image = await resolveImage(registry, reference);
    expect(image).toMatchObject({ architecture, annotations: {} });
  });

  test.each([
    ['<html>', 'is not JSON'],
    ['{"architecture":5}', 'names an architecture that is none'],
    ['{"architecture":"a b"}', 'names an architecture that is none'],
    [`{"architecture":"${'a'.repeat(65)}"}`, 'names an architecture that is none'],
  ])('whose configuration is %s is refused', async (config, message) => {
    const registry = memoryRegistry();
    put(registry, { config });
    await expect(resolveImage(registry, reference)).rejects.toMatchObject({
      reason: 'Invalid',
      message: `the configuration of a ${message}`,
    });
  });

  test('has layers and a configuration', async () => {
    const registry = memoryRegistry();
    registry.put('a', '1', { schemaVersion: 2, layers: [layer] });
    await expect(resolveImage(registry, reference)).rejects.toThrow('is not an image');
  });

  test('may have a configuration of a mebibyte', async () => {
    const registry = memoryRegistry();
    put(registry, { config: '{}'.padEnd(2 ** 20) });
    expect((await resolveImage(registry, reference)).architecture).toBe('amd64');
    put(registry, { config: '{}'.padEnd(2 ** 20 + 1) });
    await expect(resolveImage(registry, reference)).rejects.toThrow('is larger than 1048576 bytes');
  });
});

describe('of an index', () => {
  test.each<[string, (string | undefined)[], string | undefined, string]>([
    ['the wanted architecture is taken', ['amd64', 'arm64'], 'arm64', 'arm64'],
    ['amd64 is taken where nobody says what is wanted', ['arm64', 'amd64'], undefined, 'amd64'],
    ['the only one is taken', ['arm64'], undefined, 'arm64'],
    ['the only one is taken, attestations aside', ['unknown', 'arm64'], undefined, 'arm64'],
    ['the first is taken where none says what it is for', [undefined, undefined], 'arm64', 'amd64'],
    ['the first is taken where none is amd64', ['riscv64', 'arm64'], undefined, 'riscv64'],
  ])('%s', async (_sentence, offered, architecture, expected) => {
    const image = resolveImage(
      anIndex(...offered),
      reference,
      architecture === undefined ? {} : { architecture },
    );
    expect(await image).toMatchObject({ architecture: expected });
  });

  test('an architecture that is not there is refused, and those that are there are named once', async () => {
    const registry = anIndex('riscv64', 'arm64', 'arm64', 'unknown', undefined);
    await expect(resolveImage(registry, reference, { architecture: 'amd64' })).rejects.toMatchObject({
      reason: 'NotFound',
      message: 'r.example.com/a has no image for amd64, only for riscv64, arm64, unknown',
    });
  });

  test('no more than eight architectures are named', async () => {
    const names = Array.from({ length: 12 }, (_, i) => `a${i}`);
    await expect(resolveImage(anIndex(...names), reference, { architecture: 'amd64' })).rejects.toThrow(
      new RegExp(`only for ${names.slice(0, 8).join(', ')}$`),
    );
  });
});

describe('an image that is copied', () => {
  const to = { repository: 'b', tag: '2', annotations: { more: '1' } };

  test('is mounted and named, with annotations of its own', async () => {
    const registry = memoryRegistry();
    put(registry, { annotations: { kept: '1' } });
    const image = await resolveImage(registry, reference);
    registry.calls.length = 0;
    const digest = await copyImage(registry, image, 'a', to);
    const blobs = [image.manifest.config.digest, layer.digest];
    expect(registry.calls).toEqual([...blobs.map((blob) => `mount b ${blob}`), 'put b:2']);
    const copy = await registry.manifest('b', '2');
    expect(copy).toMatchObject({ digest, manifest: { annotations: { kept: '1', more: '1' } } });
    // What is there is not mounted again.
    registry.calls.push(...blobs.map((blob) => `mount c ${blob}`));
    const before = registry.calls.length;
    await copyImage(registry, image, 'a', { ...to, repository: 'c' });
    expect(registry.calls.slice(before)).toEqual(['put c:2']);
  });

  test('is not named where the registry does not mount', async () => {
    const registry = memoryRegistry({ mounts: false });
    put(registry);
    const image = await resolveImage(registry, reference);
    registry.blobs.delete(layer.digest);
    await expect(copyImage(registry, image, 'a', to)).rejects.toMatchObject({
      reason: 'NotImplemented',
      message: 'registry r.example.com does not mount blobs of a into b',
    });
    expect(registry.calls).not.toContain('put b:2');
  });
});

describe('versions', () => {
  test('the newest is also found as latest', async () => {
    const registry = memoryRegistry();
    const { digest } = put(registry);
    await publish(registry, 'a', digest);
    expect(await registry.digestOf('a', 'latest')).toBe(digest);
    expect((await registry.manifest('a', 'latest')).mediaType).toBe(mediaTypes.ociManifest);
  });

  test('are deleted all, also those that have lost their tags, each once', async () => {
    const registry = memoryRegistry();
    const [one, two] = [put(registry, { tag: '1' }), put(registry, { tag: '2', config: { i: 2 } })];
    registry.calls.length = 0;
    registry.manifests.delete('a:1');
    expect(await deleteVersions(registry, 'a', one.digest)).toBe(true);
    expect(registry.calls).toEqual([two.digest, one.digest].map((digest) => `delete a@${digest}`));
    expect(await registry.tags('a')).toEqual([]);
  });

  test('are left where the one that is known is not among them', async () => {
    const registry = memoryRegistry();
    put(registry, { tag: '1' });
    registry.calls.length = 0;
    expect(await deleteVersions(registry, 'a', 'sha256:gone')).toBe(false);
    expect(registry.calls).toEqual([]);
    expect(await deleteVersions(registry, 'a', undefined)).toBe(true);
    expect(await registry.tags('a')).toEqual([]);
    expect(await deleteVersions(registry, 'a', 'sha256:gone')).toBe(true);
  });

  describe('of which there are more than can be asked for in one try', () => {
    let registry: MemoryRegistry;
    let known: string;
    /** How many tags can still be asked for. */
    let left: number;
    beforeEach(() => {
      registry = memoryRegistry();
      // The known one comes first of all, and has to go last.
      known = put(registry, { tag: 'latest' }).digest;
      for (let i = 0; i < 250; i += 1) put(registry, { tag: `v${i}`, config: { i } });
      const { digestOf } = registry;
      registry.digestOf = async (...asked) => {
        left -= 1;
        if (left < 0) throw new DOMException('The operation was aborted due to timeout', 'TimeoutError');
        return digestOf(...asked);
      };
    });
    const once = (signal?: AbortSignal) => {
      left = 150;
      return deleteVersions(registry, 'a', known, signal);
    };

    test('are deleted over several tries, the known one last', async () => {
      await expect(once()).rejects.toThrow('aborted');
      const afterOne = (await registry.tags('a')).length;
      expect(afterOne).toBeLessThan(251);
      expect(registry.manifests.has(`a@${known}`)).toBe(true);
      await expect(once()).rejects.toThrow('aborted');
      expect((await registry.tags('a')).length).toBeLessThan(afterOne);
      expect(registry.manifests.has(`a@${known}`)).toBe(true);
      expect(await once()).toBe(true);
      expect(registry.manifests.size).toBe(0);
    });

    test('are said to be refused where that is why no end is in sight', async () => {
      const refusal = new Svc3Error('MethodNotAllowed', 'answered 405');
      registry.deleteManifest = () => Promise.reject(refusal);
      await expect(once(AbortSignal.abort())).rejects.toBe(refusal);
    });
  });
});
