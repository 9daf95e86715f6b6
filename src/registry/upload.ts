import { Readable } from 'node:stream';
import { Svc3Error } from '../errors.ts';
import {
  into,
  type RegistryReply,
  type RegistryRequest,
  type RegistryTransport,
  whereNothingIsMissing,
} from './transport.ts';

/**
 * A blob upload in progress. After a failed `append` the registry knows how much it has: `resync` asks, and the caller
 * goes on from `offset`. `location` can be written down and given to `RegistryClient.upload` by another process.
 */
export interface Upload {
  readonly location: string;
  /** Bytes of each piece that is sent, but for the last: no less than the registry takes in one. */
  readonly pieceBytes: number;
  /** Bytes that the registry has taken. */
  readonly offset: number;
  /** Sends bytes from `offset` on. A stream needs its length where the registry wants chunks (`contentLength`). */
  append(bytes: Buffer | Readable, options?: { contentLength?: number; signal?: AbortSignal }): Promise<void>;
  /** Asks the registry how far it came; returns the new offset. */
  resync(options?: ResyncOptions): Promise<number>;
  /** Makes the bytes a blob; the registry checks the digest. An answer that was lost is looked for. */
  finish(digest: string, options?: { signal?: AbortSignal }): Promise<void>;
  /** Gives the upload up; never throws, and takes no longer than five seconds. */
  cancel(): Promise<void>;
}

export interface ResyncOptions {
  readonly signal?: AbortSignal;
  /** Bytes that were sent: no more have arrived, whatever the registry says. */
  readonly sent?: number;
  /** Where it said that it is, and then took nothing: it is a byte before that. Quay counts one too many here. */
  readonly refused?: number | undefined;
}

/** Uploads are sent in pieces of this size, so that one that breaks off goes on from the last piece. */
export const defaultPieceBytes = 4 * 1024 * 1024;
/** A piece lies in memory until it has arrived. */
const mostPieceBytes = 64 * 1024 * 1024;
/** Until the registry has taken a piece of the usual size; a larger one has as much longer. */
const appendWithinMs = 60_000;

/** A registry may copy or hash the whole blob before it answers. In milliseconds. */
const finishWithinMs = 600_000;

/** For what is done after a failure, often of a registry that says nothing any more: it drops what is left of an upload by itself. */
const cancelWithinMs = 5_000;

interface CallOptions {
  signal?: AbortSignal;
}

interface Progress {
  location: string;
  offset: number;
  pieceBytes: number;
}

/** Bytes of a blob; undefined where there is none. */
export async function sizeOfBlob(
  transport: RegistryTransport,
  {
    repository,
    digest,
    scope,
  }: { readonly repository: string; readonly digest: string; readonly scope: string },
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  const path = `/v2/${repository}/blobs/${digest}`;
  const reply = await transport.send({
    method: 'HEAD',
    path,
    scope,
    accept: [200, 404],
    ...abortable(signal),
  });
  await reply.body.dump();
  return reply.status === 404 ? undefined : Number(reply.headers['content-length'] ?? 0);
}

/** `Range: 0-41` says that 42 bytes are there; `0-0` of an empty upload is how distribution says none. */
function offsetFrom(range: string | undefined, fallback: number): number {
  const end = /^(?:bytes=)?\d{1,15}-(\d{1,15})$/.exec(range ?? '')?.[1];
  if (end === undefined) return fallback;
  return end === '0' ? 0 : Number(end) + 1;
}

/**
 * Bytes that are there when those from `offset` to `sent` were taken. That a part of them was not is believed, but no `Range` that stands still: zot before
 * July 2025 says the size of the piece (https://github.com/project-zot/zot/issues/3279), Amazon ECR the end of the first one
 * (https://github.com/aws/containers-roadmap/issues/2831). What is believed wrongly the digest at the end finds out.
 */
function offsetAfter(offset: number, sent: number, range: string | undefined): number {
  const said = offsetFrom(range, sent);
  const isBehind = offset > 0 && said <= offset;
  return isBehind || said > sent ? sent : said;
}

/**
 * Goes on with an upload that was begun.
 *
 * @param from.location - of the upload, as the registry gave it
 * @param from.offset - bytes that are there; undefined: the registry is asked
 * @param from.pieceBytes - size of a piece, 4 MiB unless the registry wants more
 * @throws Svc3Error BadGateway where the location is empty; NotFound and others in the registry's words where it is asked and has no such upload
 */
export async function openUpload(
  transport: RegistryTransport,
  repository: string,
  from: { location: string; offset?: number; pieceBytes?: number },
  signal?: AbortSignal,
): Promise<Upload> {
  if (from.location === '')
    throw new Svc3Error('BadGateway', `the registry began an upload to ${repository} without a location`);
  const { location, offset = 0, pieceBytes = defaultPieceBytes } = from;
  const upload = new DistributionUpload(transport, repository, { location, offset, pieceBytes });
  if (from.offset === undefined) await upload.resync(abortable(signal));
  return upload;
}

/** Begins an upload in pieces as large as the registry wants them. */
export async function beginUpload(
  transport: RegistryTransport,
  { registry, repository, scope }: { registry: string; repository: string; scope: string },
  signal?: AbortSignal,
): Promise<Upload> {
  const begun = transport.send({
    method: 'POST',
    path: `/v2/${repository}/blobs/uploads/`,
    headers: { 'content-length': '0' },
    scope,
    accept: [202],
    ...abortable(signal),
  });
  const reply = await into(registry, repository, begun);
  await reply.body.dump();
  const { location = '' } = reply.headers;
  const pieceBytes = pieceBytesFor(reply.headers['oci-chunk-min-length']);
  const upload = await openUpload(transport, repository, { location, offset: 0, pieceBytes });
  if (pieceBytes <= mostPieceBytes) return upload;
  await upload.cancel();
  const wanted = `takes uploads in pieces of ${pieceBytes} bytes or more (OCI-Chunk-Min-Length)`;
  throw new Svc3Error('BadGateway', `registry ${registry} ${wanted}; svc3 sends ${mostPieceBytes} at most`);
}

/** @param minimum - as the distribution specification has it; what is no number says nothing */
function pieceBytesFor(minimum: string | undefined): number {
  return Math.max(defaultPieceBytes, /^\d{1,15}$/.test(minimum ?? '') ? Number(minimum) : 0);
}

class DistributionUpload implements Upload {
  readonly pieceBytes: number;
  readonly #transport: RegistryTransport;
  readonly #repository: string;
  readonly #scope: string;
  #location: string;
  #offset: number;

  constructor(transport: RegistryTransport, repository: string, { location, offset, pieceBytes }: Progress) {
    this.pieceBytes = pieceBytes;
    this.#transport = transport;
    this.#repository = repository;
    this.#scope = `repository:${repository}:pull,push`;
    this.#location = location;
    this.#offset = offset;
  }

  get location(): string {
    return this.#location;
  }

  get offset(): number {
    return this.#offset;
  }

  async append(
    bytes: Buffer | Readable,
    { contentLength, signal }: { contentLength?: number; signal?: AbortSignal } = {},
  ): Promise<void> {
    const length = Buffer.isBuffer(bytes) ? bytes.length : contentLength;
    let sent = 0;
    const counted = Buffer.isBuffer(bytes)
      ? bytes
      : Readable.from(
          countBytes(bytes, (size) => (sent += size)),
          { objectMode: false },
        );
    const reply = await this.#send({
      method: 'PATCH',
      headers: { 'content-type': 'application/octet-stream', ...rangeHeaders(this.#offset, length) },
      body: counted,
      accept: [201, 202, 204],
      headersTimeoutMs: appendTimeoutMs(bytes),
      ...abortable(signal),
    });
    await reply.body.dump();
    this.#location = reply.headers['location'] ?? this.#location;
    const expected = this.#offset + (length ?? sent);
    // One byte is said as none is.
    this.#offset = expected === 1 ? 1 : offsetAfter(this.#offset, expected, reply.headers['range']);
  }

  async resync({ signal, sent = Infinity, refused }: ResyncOptions = {}): Promise<number> {
    const reply = await this.#send({ method: 'GET', accept: [204], ...abortable(signal) });
    await reply.body.dump();
    this.#location = reply.headers['location'] ?? this.#location;
    const said = Math.min(offsetFrom(reply.headers['range'], 0), sent);
    this.#offset = said === refused ? said - 1 : said;
    return this.#offset;
  }

  async finish(digest: string, { signal }: CallOptions = {}): Promise<void> {
    const joiner = this.#location.includes('?') ? '&' : '?';
    const wanted = {
      method: 'PUT',
      headers: { 'content-length': '0' },
      accept: [201],
      headersTimeoutMs: finishWithinMs,
      ...abortable(signal),
    } as const;
    try {
      const reply = await this.#send(wanted, `${joiner}digest=${encodeURIComponent(digest)}`);
      await reply.body.dump();
    } catch (error) {
      // The answer to the first try may have been lost, and the next have found the upload gone: it is a blob.
      if (signal?.aborted === true) throw error;
      const blob = { repository: this.#repository, digest, scope: this.#scope };
      const stored = await sizeOfBlob(this.#transport, blob, signal).catch(() => undefined);
      if (stored !== this.#offset) throw error;
    }
  }

  async cancel(): Promise<void> {
    const wanted = { method: 'DELETE', path: this.#location, scope: this.#scope } as const;
    const signal = AbortSignal.timeout(cancelWithinMs);
    await this.#transport.send({ ...wanted, accept: [204, 404, 405], signal }).then(
      async (reply) => reply.body.dump(),
      () => undefined,
    );
  }

  /** That the registry has lost an upload says nothing about what is sent. */
  #send(wanted: Omit<RegistryRequest, 'path' | 'scope'>, query = ''): Promise<RegistryReply> {
    const request = { ...wanted, path: this.#location + query, scope: this.#scope };
    const sent = this.#transport.send(request);
    return whereNothingIsMissing(sent, `the registry has lost an upload to ${this.#repository}`);
  }
}

function appendTimeoutMs(bytes: Buffer | Readable): number {
  const pieces = Buffer.isBuffer(bytes) ? Math.ceil(bytes.length / defaultPieceBytes) : 1;
  return appendWithinMs * Math.max(pieces, 1);
}

function abortable(signal: AbortSignal | undefined): CallOptions {
  return signal === undefined ? {} : { signal };
}

/** Of `length` bytes from `offset` on; none where nobody knows how many come. */
function rangeHeaders(offset: number, length: number | undefined): Record<string, string> {
  if (length === undefined) return {};
  return {
    'content-length': String(length),
    'content-range': `${offset}-${offset + Math.max(length, 1) - 1}`,
  };
}

async function* countBytes(source: Readable, add: (size: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    const bytes = chunk as Buffer;
    add(bytes.length);
    yield bytes;
  }
}
