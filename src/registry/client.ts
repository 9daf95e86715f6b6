import type { Readable } from 'node:stream';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import { parseForeignJson, readWhole } from '../net/foreign.ts';
import { parseManifest, sha256, type Descriptor, type Manifest } from './manifest.ts';
import {
  createTransport,
  into,
  type RegistryEndpoint,
  type RegistryReply,
  type RegistryTransport,
} from './transport.ts';
import { beginUpload, openUpload, sizeOfBlob, type Upload } from './upload.ts';

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
/** The distribution specification asks registries to take 4 MiB; nothing honest is larger. A page of a list is less. */
const manifestLimitBytes = 4 * 1024 * 1024;

export interface FetchedManifest {
  readonly digest: string;
  readonly mediaType: string;
  readonly bytes: Buffer;
  readonly manifest: Manifest;
}

interface CallOptions {
  signal?: AbortSignal;
}

export interface ListOptions extends CallOptions {
  /** Most names wanted: no more are asked for. Default: all that there are, but no more than 100,000. */
  limit?: number;
}

/** For what is read whole, with all tries: a registry that sends a byte now and then is as good as silent. */
const wholeTimeoutMs = 300_000;
const mostListed = 100_000;
const mostPages = 1_000;

/**
 * A client of one OCI registry with one credential. Errors are `Svc3Error` with the registry's name and words
 * (Unauthorized, Forbidden, NotFound, TooManyRequests, BadGateway …) or `RegistryUnreachable`; neither ever holds a
 * credential. Memory is bounded whatever the size of a layer: blobs are streams.
 */
export interface RegistryClient {
  readonly registry: string;
  /**
   * Logs in: resolves when the registry accepts the credential, or asks for none.
   *
   * @returns whether there is a credential and it was sent, to the registry or to its token service.
   */
  login(options?: CallOptions): Promise<boolean>;
  /** The manifest under a tag or digest; its digest is computed, and compared where one was asked for. */
  manifest(
    repository: string,
    name: string,
    options?: CallOptions & {
      /** What an index says that it has. */
      size?: number;
    },
  ): Promise<FetchedManifest>;
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
  /** What names a manifest as its subject; `undefined` where the registry has no referrers API (distribution specification 1.1). */
  referrers(repository: string, digest: string, options?: CallOptions): Promise<Descriptor[] | undefined>;
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
  /** None where there is no such repository. */
  tags(repository: string, options?: ListOptions): Promise<string[]>;
  /** @throws NotFound where the registry has no catalogue: nothing says that it has to. */
  repositories(options?: ListOptions): Promise<string[]>;
  close(): Promise<void>;
}

const pull = (repository: string): string => `repository:${repository}:pull`;
const push = (repository: string): string => `repository:${repository}:pull,push`;

/**
 * A client of the registry that `endpoint` names, with its credential and authorities. Nothing is connected before the first call; `close` ends what is kept
 * alive.
 */
export function createRegistryClient(endpoint: RegistryEndpoint): RegistryClient {
  return new DistributionClient(endpoint);
}

/** The OCI distribution specification over our transport. */
class DistributionClient implements RegistryClient {
  readonly registry: string;
  readonly #transport: RegistryTransport;
  readonly #hasCredentials: boolean;

  constructor(endpoint: RegistryEndpoint) {
    this.registry = endpoint.registry;
    this.#hasCredentials = endpoint.credentials !== undefined;
    this.#transport = createTransport(endpoint);
  }

  async login({ signal }: CallOptions = {}): Promise<boolean> {
    const asked = { method: 'GET', path: '/v2/', scope: '', accept: [200], ...abortable(signal) } as const;
    const { body, isAuthorized } = await this.#transport.send(asked);
    await body.dump();
    return isAuthorized && this.#hasCredentials;
  }

  async manifest(
    repository: string,
    name: string,
    { signal, size }: CallOptions & { size?: number } = {},
  ): Promise<FetchedManifest> {
    const where = `${this.registry}/${repository}`;
    return inTime(this.registry, signal, async (limited) => {
      const reply = await this.#transport.send({
        method: 'GET',
        path: `/v2/${repository}/manifests/${name}`,
        headers: { accept: manifestAccept },
        scope: pull(repository),
        accept: [200],
        signal: limited,
      });
      const most = Math.min(size ?? manifestLimitBytes, manifestLimitBytes);
      const bytes = await readReply(reply, most, `the manifest of ${where}`);
      return checkedManifest({ bytes, name, contentType: reply.headers['content-type'], where });
    });
  }

  async digestOf(
    repository: string,
    name: string,
    { signal }: CallOptions = {},
  ): Promise<string | undefined> {
    const reply = await this.#transport.send({
      method: 'HEAD',
      path: `/v2/${repository}/manifests/${name}`,
      headers: { accept: manifestAccept },
      scope: pull(repository),
      accept: [200, 404],
      ...abortable(signal),
    });
    await reply.body.dump();
    if (reply.status === 404) return undefined;
    const said = reply.headers['docker-content-digest'] ?? '';
    if (/^sha256:[0-9a-f]{64}$/.test(said)) return said;
    return (await this.manifest(repository, name, abortable(signal))).digest;
  }

  async putManifest(
    repository: string,
    name: string,
    bytes: Buffer,
    mediaType: string,
    { signal }: CallOptions = {},
  ): Promise<string> {
    const put = this.#transport.send({
      method: 'PUT',
      path: `/v2/${repository}/manifests/${name}`,
      headers: { 'content-type': mediaType },
      body: bytes,
      scope: push(repository),
      accept: [201],
      ...abortable(signal),
    });
    await done(into(this.registry, repository, put));
    return sha256(bytes);
  }

  async deleteManifest(repository: string, digest: string, { signal }: CallOptions = {}): Promise<void> {
    const path = `/v2/${repository}/manifests/${digest}`;
    const scope = `repository:${repository}:pull,push,delete`;
    await done(
      this.#transport.send({ method: 'DELETE', path, scope, accept: [202, 404], ...abortable(signal) }),
    );
  }

  async referrers(
    repository: string,
    digest: string,
    { signal }: CallOptions = {},
  ): Promise<Descriptor[] | undefined> {
    const where = `the referrers of ${this.registry}/${repository}`;
    return inTime(this.registry, signal, async (limited) => {
      const reply = await this.#transport.send({
        method: 'GET',
        path: `/v2/${repository}/referrers/${digest}`,
        headers: { accept: mediaTypes.ociIndex },
        scope: pull(repository),
        accept: [200, 404],
        signal: limited,
      });
      if (reply.status === 404) {
        await reply.body.dump();
        return undefined;
      }
      return parseManifest(await readReply(reply, manifestLimitBytes, where), where).manifests ?? [];
    });
  }

  async blob(
    repository: string,
    digest: string,
    { signal, offset = 0, end }: CallOptions & { offset?: number; end?: number } = {},
  ): Promise<Readable> {
    const ranged = offset > 0 || end !== undefined;
    const reply = await this.#transport.send({
      method: 'GET',
      path: `/v2/${repository}/blobs/${digest}`,
      headers: ranged ? { range: `bytes=${offset}-${end ?? ''}` } : {},
      scope: pull(repository),
      accept: ranged ? [206] : [200],
      ...abortable(signal),
    });
    if (ranged) checkRange(reply, offset, `${this.registry}/${repository}`);
    return reply.body;
  }

  async blobSize(
    repository: string,
    digest: string,
    { signal }: CallOptions = {},
  ): Promise<number | undefined> {
    return sizeOfBlob(this.#transport, { repository, digest, scope: pull(repository) }, signal);
  }

  async mountBlob(
    repository: string,
    digest: string,
    from: string,
    { signal }: CallOptions = {},
  ): Promise<boolean> {
    const mounted = this.#transport.send({
      method: 'POST',
      path: `/v2/${repository}/blobs/uploads/?mount=${digest}&from=${encodeURIComponent(from)}`,
      headers: { 'content-length': '0' },
      scope: `${push(repository)} ${pull(from)}`,
      accept: [201, 202],
      ...abortable(signal),
    });
    const reply = await into(this.registry, repository, mounted);
    await reply.body.dump();
    if (reply.status === 201) return true;
    const upload = await openUpload(this.#transport, repository, {
      location: reply.headers['location'] ?? '',
      offset: 0,
    });
    await upload.cancel();
    return false;
  }

  async putBlob(repository: string, bytes: Buffer, options: CallOptions = {}): Promise<string> {
    const digest = sha256(bytes);
    if ((await this.blobSize(repository, digest, options)) !== undefined) return digest;
    const upload = await this.upload(repository, options);
    await upload.append(bytes, options);
    await upload.finish(digest, options);
    return digest;
  }

  async upload(
    repository: string,
    { signal, location }: CallOptions & { location?: string } = {},
  ): Promise<Upload> {
    return location === undefined
      ? beginUpload(this.#transport, { registry: this.registry, repository, scope: push(repository) }, signal)
      : openUpload(this.#transport, repository, { location }, signal);
  }

  async tags(repository: string, options: ListOptions = {}): Promise<string[]> {
    const path = `/v2/${repository}/tags/list`;
    const list = { path, key: 'tags', scope: pull(repository), mayBeMissing: true };
    return inTime(this.registry, options.signal, (signal) =>
      listAll(this.#transport, list, { ...options, signal }),
    );
  }

  async repositories(options: ListOptions = {}): Promise<string[]> {
    const path = '/v2/_catalog';
    const list = { path, key: 'repositories', scope: 'registry:catalog:*', mayBeMissing: false };
    return inTime(this.registry, options.signal, (signal) =>
      listAll(this.#transport, list, { ...options, signal }),
    );
  }

  async close(): Promise<void> {
    await this.#transport.close();
  }
}

function abortable(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

async function done(sent: Promise<RegistryReply>): Promise<void> {
  await (await sent).body.dump();
}

/** @throws Timeout where it takes longer than what is read whole may take. */
async function inTime<T>(
  registry: string,
  signal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(wholeTimeoutMs);
  try {
    return await call(signal === undefined ? timeout : AbortSignal.any([signal, timeout]));
  } catch (error) {
    if (!timeout.aborted || signal?.aborted === true || isSvc3Error(error)) throw error;
    throw new Svc3Error('Timeout', `registry ${registry} took longer than ${wholeTimeoutMs / 1000} s`, {
      cause: error,
    });
  }
}

function readReply(reply: RegistryReply, limitBytes: number, what: string): Promise<Buffer> {
  return readWhole(
    reply.body,
    limitBytes,
    () => new Svc3Error('BadGateway', `${what} is larger than ${limitBytes} bytes`),
  );
}

/** Bytes from elsewhere would be taken for those that were asked for. */
function checkRange({ headers }: RegistryReply, offset: number, where: string): void {
  const start = /^bytes (\d{1,15})-/.exec(headers['content-range'] ?? '')?.[1];
  if (start === undefined || Number(start) === offset) return;
  throw new Svc3Error('BadGateway', `${where} sent bytes from ${start} on, not from ${offset}`);
}

function checkedManifest(got: {
  bytes: Buffer;
  name: string;
  contentType: string | undefined;
  where: string;
}): FetchedManifest {
  const digest = sha256(got.bytes);
  if (got.name.startsWith('sha256:') && got.name !== digest)
    throw new Svc3Error(
      'BadGateway',
      `${got.where} sent a manifest that does not match its digest ${got.name}`,
    );
  const manifest = parseManifest(got.bytes, got.where);
  const mediaType = manifest.mediaType ?? got.contentType?.split(';', 1)[0] ?? mediaTypes.ociManifest;
  return { digest, mediaType, bytes: got.bytes, manifest };
}

interface List {
  readonly path: string;
  /** Member of the reply that holds the names. */
  readonly key: string;
  readonly scope: string;
  /** Whether one that is not there (404) is one without names. */
  readonly mayBeMissing: boolean;
}

async function listAll(
  transport: RegistryTransport,
  { path, key, scope, mayBeMissing }: List,
  { signal, limit = mostListed }: ListOptions,
): Promise<string[]> {
  const found: string[] = [];
  let next: string | undefined = `${path}?n=${Math.min(limit, 1_000)}`;
  for (let page = 0; next !== undefined && found.length < limit && page < mostPages; page += 1) {
    const reply: RegistryReply = await transport.send({
      method: 'GET',
      path: next,
      scope,
      accept: mayBeMissing ? [200, 404] : [200],
      ...abortable(signal),
    });
    if (reply.status === 404) {
      await reply.body.dump();
      return found;
    }
    const names = namesIn(await readReply(reply, manifestLimitBytes, path), key, path);
    for (const name of names) found.push(name);
    next = /<([^<>]+)>\s*;\s*rel="?next"?/.exec(reply.headers['link'] ?? '')?.[1];
  }
  return found.slice(0, limit);
}

/** Names are no longer than the distribution specification has them. */
function namesIn(bytes: Buffer, key: string, path: string): string[] {
  const broken = (cause?: unknown) =>
    new Svc3Error('BadGateway', `the registry's answer to ${path} is not a list`, { cause });
  let body: unknown;
  try {
    body = parseForeignJson(bytes);
  } catch (error) {
    throw broken(error);
  }
  const names =
    (typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[key] : 0) ?? [];
  if (!Array.isArray(names)) throw broken();
  return names.filter((name): name is string => typeof name === 'string' && name.length <= 255);
}
