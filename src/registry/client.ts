import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { Svc3Error } from '../errors.ts';
import {
  createTransport,
  type RegistryEndpoint,
  type RegistryReply,
  type RegistryTransport,
} from './transport.ts';
import { openUpload, type Upload } from './upload.ts';

export const mediaTypes = {
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  ociConfig: 'application/vnd.oci.image.config.v1+json',
  ociLayer: 'application/vnd.oci.image.layer.v1.tar',
  ociLayerGzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  ociLayerZstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
  dockerIndex: 'application/vnd.docker.distribution.manifest.list.v2+json',
} as const;

const manifestAccept = [
  mediaTypes.ociManifest,
  mediaTypes.ociIndex,
  mediaTypes.dockerManifest,
  mediaTypes.dockerIndex,
].join(', ');
/** The distribution specification asks registries to take 4 MiB; nothing honest is larger. */
const manifestLimitBytes = 4 * 1024 * 1024;

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  annotations?: Record<string, string>;
  platform?: { architecture: string; os: string; variant?: string };
}

/** An image manifest or an index of them. */
export interface Manifest {
  schemaVersion: 2;
  mediaType?: string;
  config?: Descriptor;
  layers?: Descriptor[];
  manifests?: Descriptor[];
  annotations?: Record<string, string>;
}

export interface FetchedManifest {
  readonly digest: string;
  readonly mediaType: string;
  readonly bytes: Buffer;
  readonly manifest: Manifest;
}

interface CallOptions {
  signal?: AbortSignal;
}

/**
 * A client of one OCI registry with one credential. Errors are `Svc3Error` with the registry's name and words
 * (Unauthorized, Forbidden, NotFound, TooManyRequests, BadGateway …) or `RegistryUnreachable`; neither ever holds a
 * credential. Memory is bounded whatever the size of a layer: blobs are streams.
 */
export interface RegistryClient {
  readonly registry: string;
  /** Logs in: resolves when the registry accepts the credential (or asks for none). */
  login(options?: CallOptions): Promise<void>;
  /** The manifest under a tag or digest; its digest is computed, and compared where one was asked for. */
  manifest(repository: string, name: string, options?: CallOptions): Promise<FetchedManifest>;
  /** The digest under a tag, without fetching; `undefined` when there is none. */
  digestOf(repository: string, name: string, options?: CallOptions): Promise<string | undefined>;
  putManifest(
    repository: string,
    name: string,
    bytes: Buffer,
    mediaType: string,
    options?: CallOptions,
  ): Promise<string>;
  deleteManifest(repository: string, digest: string, options?: CallOptions): Promise<void>;
  /** Bytes of a blob from `offset` (to `end`, inclusive). Whoever reads it checks the digest (`verifyDigest`). */
  blob(
    repository: string,
    digest: string,
    options?: CallOptions & { offset?: number; end?: number },
  ): Promise<Readable>;
  blobSize(repository: string, digest: string, options?: CallOptions): Promise<number | undefined>;
  /** Makes another repository's blob this one's, without moving bytes; false when the registry did not. */
  mountBlob(repository: string, digest: string, from: string, options?: CallOptions): Promise<boolean>;
  putBlob(repository: string, bytes: Buffer, options?: CallOptions): Promise<string>;
  /** Begins an upload, or goes on with one at the location that `Upload.location` gave. */
  upload(repository: string, options?: CallOptions & { location?: string }): Promise<Upload>;
  tags(repository: string, options?: CallOptions): Promise<string[]>;
  repositories(options?: CallOptions): Promise<string[]>;
  close(): Promise<void>;
}

export function sha256(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

const pull = (repository: string): string => `repository:${repository}:pull`;
const push = (repository: string): string => `repository:${repository}:pull,push`;

export function createRegistryClient(endpoint: RegistryEndpoint): RegistryClient {
  const transport = createTransport(endpoint);
  const { registry } = endpoint;

  return {
    registry,
    async login({ signal } = {}) {
      await done(
        transport.send({ method: 'GET', path: '/v2/', scope: '', accept: [200], ...abortable(signal) }),
      );
    },
    async manifest(repository, name, { signal } = {}) {
      const reply = await transport.send({
        method: 'GET',
        path: `/v2/${repository}/manifests/${name}`,
        headers: { accept: manifestAccept },
        scope: pull(repository),
        accept: [200],
        ...abortable(signal),
      });
      const bytes = await readAtMost(reply, manifestLimitBytes, `the manifest of ${registry}/${repository}`);
      return checkedManifest({
        bytes,
        name,
        contentType: reply.headers['content-type'],
        where: `${registry}/${repository}`,
      });
    },
    async digestOf(repository, name, { signal } = {}) {
      const reply = await transport.send({
        method: 'HEAD',
        path: `/v2/${repository}/manifests/${name}`,
        headers: { accept: manifestAccept },
        scope: pull(repository),
        accept: [200, 404],
        ...abortable(signal),
      });
      await reply.body.dump();
      if (reply.status === 404) return undefined;
      return (
        reply.headers['docker-content-digest'] ??
        (await this.manifest(repository, name, abortable(signal))).digest
      );
    },
    async putManifest(repository, name, bytes, mediaType, { signal } = {}) {
      await done(
        transport.send({
          method: 'PUT',
          path: `/v2/${repository}/manifests/${name}`,
          headers: { 'content-type': mediaType },
          body: bytes,
          scope: push(repository),
          accept: [201],
          ...abortable(signal),
        }),
      );
      return sha256(bytes);
    },
    async deleteManifest(repository, digest, { signal } = {}) {
      const path = `/v2/${repository}/manifests/${digest}`;
      const scope = `repository:${repository}:pull,push,delete`;
      await done(transport.send({ method: 'DELETE', path, scope, accept: [202, 404], ...abortable(signal) }));
    },
    async blob(repository, digest, { signal, offset = 0, end } = {}) {
      const ranged = offset > 0 || end !== undefined;
      const reply = await transport.send({
        method: 'GET',
        path: `/v2/${repository}/blobs/${digest}`,
        headers: ranged ? { range: `bytes=${offset}-${end ?? ''}` } : {},
        scope: pull(repository),
        accept: ranged ? [206] : [200],
        ...abortable(signal),
      });
      return reply.body;
    },
    async blobSize(repository, digest, { signal } = {}) {
      const path = `/v2/${repository}/blobs/${digest}`;
      const reply = await transport.send({
        method: 'HEAD',
        path,
        scope: pull(repository),
        accept: [200, 404],
        ...abortable(signal),
      });
      await reply.body.dump();
      return reply.status === 404 ? undefined : Number(reply.headers['content-length'] ?? 0);
    },
    async mountBlob(repository, digest, from, { signal } = {}) {
      const reply = await transport.send({
        method: 'POST',
        path: `/v2/${repository}/blobs/uploads/?mount=${digest}&from=${encodeURIComponent(from)}`,
        headers: { 'content-length': '0' },
        scope: `${push(repository)} ${pull(from)}`,
        accept: [201, 202],
        ...abortable(signal),
      });
      await reply.body.dump();
      if (reply.status === 201) return true;
      const upload = await openUpload(transport, repository, {
        location: reply.headers['location'] ?? '',
        offset: 0,
      });
      await upload.cancel();
      return false;
    },
    async putBlob(repository, bytes, options = {}) {
      const digest = sha256(bytes);
      if ((await this.blobSize(repository, digest, options)) !== undefined) return digest;
      const upload = await this.upload(repository, options);
      await upload.append(bytes, options);
      await upload.finish(digest, options);
      return digest;
    },
    async upload(repository, { signal, location } = {}) {
      return location === undefined
        ? beginUpload(transport, repository, signal)
        : openUpload(transport, repository, { location }, signal);
    },
    async tags(repository, { signal } = {}) {
      return listAll(transport, `/v2/${repository}/tags/list`, 'tags', pull(repository), signal);
    },
    async repositories({ signal } = {}) {
      return listAll(transport, '/v2/_catalog', 'repositories', 'registry:catalog:*', signal);
    },
    close: async () => transport.close(),
  };
}

function abortable(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

async function done(sent: Promise<RegistryReply>): Promise<void> {
  await (await sent).body.dump();
}

async function readAtMost(reply: RegistryReply, limitBytes: number, what: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of reply.body) {
    const bytes = chunk as Buffer;
    size += bytes.length;
    if (size > limitBytes) throw new Svc3Error('BadGateway', `${what} is larger than ${limitBytes} bytes`);
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function checkedManifest(got: {
  bytes: Buffer;
  name: string;
  contentType: string | undefined;
  where: string;
}): FetchedManifest {
  const digest = sha256(got.bytes);
  if (got.name.startsWith('sha256:') && got.name !== digest) {
    throw new Svc3Error(
      'BadGateway',
      `${got.where} sent a manifest that does not match its digest ${got.name}`,
    );
  }
  let manifest: Manifest;
  try {
    manifest = JSON.parse(got.bytes.toString('utf8')) as Manifest;
  } catch (error) {
    throw new Svc3Error('BadGateway', `${got.where} sent a manifest that is not JSON`, { cause: error });
  }
  const mediaType = manifest.mediaType ?? got.contentType?.split(';', 1)[0] ?? mediaTypes.ociManifest;
  return { digest, mediaType, bytes: got.bytes, manifest };
}

async function beginUpload(
  transport: RegistryTransport,
  repository: string,
  signal?: AbortSignal,
): Promise<Upload> {
  const reply = await transport.send({
    method: 'POST',
    path: `/v2/${repository}/blobs/uploads/`,
    headers: { 'content-length': '0' },
    scope: push(repository),
    accept: [202],
    ...abortable(signal),
  });
  await reply.body.dump();
  return openUpload(transport, repository, { location: reply.headers['location'] ?? '', offset: 0 });
}

async function listAll(
  transport: RegistryTransport,
  path: string,
  key: string,
  scope: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const found: string[] = [];
  let next: string | undefined = `${path}?n=1000`;
  for (let page = 0; next !== undefined && page < 1000; page += 1) {
    const reply: RegistryReply = await transport.send({
      method: 'GET',
      path: next,
      scope,
      accept: [200, 404],
      ...abortable(signal),
    });
    if (reply.status === 404) {
      await reply.body.dump();
      return found;
    }
    const body = JSON.parse((await readAtMost(reply, manifestLimitBytes, path)).toString('utf8')) as Record<
      string,
      string[] | null
    >;
    found.push(...(body[key] ?? []));
    next = /<([^>]+)>\s*;\s*rel="?next"?/.exec(reply.headers['link'] ?? '')?.[1];
  }
  return found;
}
