import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { Svc3Error } from '../../../src/errors.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { parseManifest, sha256 } from '../../../src/registry/manifest.ts';
import { defaultPieceBytes, type Upload } from '../../../src/registry/upload.ts';

export interface MemoryRegistry extends RegistryClient {
  readonly blobs: Map<string, Buffer>;
  /** By `repository:tag` and `repository@digest`. */
  readonly manifests: Map<string, { bytes: Buffer; mediaType: string }>;
  /** Bytes of an upload under way over HTTP, by repository. */
  readonly uploads: Map<string, Buffer>;
  /** What was asked of it, in order. */
  readonly calls: string[];
  put(repository: string, tag: string, manifest: object): { digest: string; size: number };
}

/** What is asked for and not there. */
function missing(what: string): never {
  throw new Svc3Error('NotFound', `${what} is not there`);
}

/**
 * A registry in memory, to see what is asked of it. What it cannot show, HTTP and how registries differ: client.test.ts beside it and
 * test/integration/registry on a real one.
 */
export function memoryRegistry({ mounts = true } = {}): MemoryRegistry {
  const blobs = new Map<string, Buffer>();
  const manifests = new Map<string, { bytes: Buffer; mediaType: string }>();
  const calls: string[] = [];

  function put(repository: string, name: string, bytes: Buffer, mediaType: string): string {
    const digest = sha256(bytes);
    for (const key of [`${repository}:${name}`, `${repository}@${digest}`])
      manifests.set(key, { bytes, mediaType });
    return digest;
  }

  function upload(repository: string): Upload {
    let held = Buffer.alloc(0);
    return {
      location: `/uploads/${repository}`,
      pieceBytes: defaultPieceBytes,
      get offset() {
        return held.length;
      },
      async append(bytes) {
        held = Buffer.concat([held, Buffer.isBuffer(bytes) ? bytes : await buffer(bytes)]);
      },
      resync: async () => held.length,
      async finish(digest) {
        calls.push(`finish ${repository}`);
        if (sha256(held) !== digest) throw new Svc3Error('BadRequest', 'DIGEST_INVALID');
        blobs.set(digest, held);
      },
      async cancel() {
        calls.push(`cancel ${repository}`);
      },
    };
  }

  return {
    registry: 'r.example.com',
    blobs,
    manifests,
    uploads: new Map(),
    calls,
    put(repository, tag, manifest) {
      const bytes = Buffer.from(JSON.stringify(manifest));
      const { mediaType = '' } = manifest as { mediaType?: string };
      return { digest: put(repository, tag, bytes, mediaType), size: bytes.length };
    },
    login: async () => false,
    referrers: async () => undefined,
    async manifest(repository, name) {
      calls.push(`manifest ${repository} ${name}`);
      const found = manifests.get(`${repository}${name.startsWith('sha256:') ? '@' : ':'}${name}`);
      const { bytes, mediaType } = found ?? missing(name);
      return { digest: sha256(bytes), mediaType, bytes, manifest: parseManifest(bytes, repository) };
    },
    async digestOf(repository, name) {
      const found = manifests.get(`${repository}${name.startsWith('sha256:') ? '@' : ':'}${name}`);
      return found === undefined ? undefined : sha256(found.bytes);
    },
    async putManifest(repository, name, bytes, mediaType) {
      calls.push(`put ${repository}:${name}`);
      return put(repository, name, bytes, mediaType);
    },
    async deleteManifest(repository, digest) {
      calls.push(`delete ${repository}@${digest}`);
      for (const [key, { bytes }] of manifests)
        if (key.startsWith(repository) && sha256(bytes) === digest) manifests.delete(key);
    },
    async blob(_repository, digest, { offset = 0, end } = {}) {
      calls.push(`blob ${digest} ${offset}-${end ?? ''}`);
      const bytes = blobs.get(digest) ?? missing(digest);
      return Readable.from([bytes.subarray(offset, end === undefined ? undefined : end + 1)], {
        objectMode: false,
      });
    },
    blobSize: async (repository, digest) =>
      calls.includes(`mount ${repository} ${digest}`) || !mounts ? blobs.get(digest)?.length : undefined,
    async mountBlob(repository, digest, from) {
      if (!mounts) return false;
      calls.push(`mount ${repository} ${digest}`);
      return blobs.has(digest) && from !== repository;
    },
    async putBlob(_repository, bytes) {
      blobs.set(sha256(bytes), bytes);
      return sha256(bytes);
    },
    upload: async (repository) => upload(repository),
    tags: async (repository) =>
      [...manifests.keys()]
        .filter((key) => key.startsWith(`${repository}:`))
        .map((key) => key.slice(repository.length + 1)),
    repositories: async () => [],
    close: async () => undefined,
  };
}
