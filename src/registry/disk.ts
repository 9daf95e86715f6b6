import { pipeline, Transform, type Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { constants, createGunzip, createZstdDecompress } from 'node:zlib';
import { Svc3Error } from '../errors.ts';
import { readWhole } from '../net/foreign.ts';
import { blobOf } from './blob.ts';
import { mediaTypes, type RegistryClient } from './client.ts';
import { findInTar } from './tarheader.ts';
import { streamFromTar, type TarBudget } from './tarstream.ts';
import { digesting, verifyDigest } from './digest.ts';
import { manifestOf, type ResolvedImage } from './image.ts';
import { pushLayer, type PushedLayer } from './layer.ts';
import type { Descriptor } from './manifest.ts';

const diskPath = /^(?:\.?\/)?disk\/([^/]+\.(?:qcow2|raw|img|iso))$/;

/** Larger than the default, so that gigabytes of zeros are not a million pieces. */
const unpackedChunkBytes = 128 * 1024;

/** What an honest image has before its disk is the base system that somebody has put it into: some hundred MiB, and 100,000 files. */
const mostBefore = { headers: 250_000, bytes: 4 * 2 ** 30 };

/** Of what a layer that is packed with zstd has already unpacked to, so much is kept in memory: as much as every reader has to take (RFC 8878). */
const smallWindowLog = 23;

export interface DiskFile {
  /** Name in the layer, e.g. `disk.qcow2`. */
  readonly name: string;
  readonly size: number;
  readonly stream: Readable;
  /** Once the stream has been read: resolves when the layer matches its digest, rejects when it does not. */
  readonly verified: Promise<void>;
}

export interface OpenDiskOptions {
  readonly signal?: AbortSignal;
  /** Most bytes that a layer may unpack to. Default: any number. */
  readonly maxUnpackedBytes?: number;
  /** The most that may stand before the disk, in all layers together. Default: 250,000 headers and 4 GiB. */
  readonly mostBefore?: Readonly<TarBudget>;
  /** The process has little memory for all tenants: no layer may need more than 8 MiB of it to be unpacked. Default false: 128 MiB. */
  readonly isShared?: boolean;
}

/**
 * Opens the disk of an image: the first `/disk/<file>.{qcow2,raw,img,iso}` of its layers, last layer first. Reads the layer as
 * a stream, decompressing on the way.
 *
 * @throws Invalid when no layer holds one, or more stands before it than any honest image has there; BadGateway when what comes is no layer.
 */
export async function openDisk(
  client: RegistryClient,
  repository: string,
  image: ResolvedImage,
  options: OpenDiskOptions = {},
): Promise<DiskFile> {
  const budget = { ...(options.mostBefore ?? mostBefore) };
  for (const layer of image.manifest.layers.toReversed()) {
    const found = await diskOfLayer(client, repository, layer, budget, options);
    if (found !== undefined) return found;
  }
  throw new Svc3Error(
    'Invalid',
    `${client.registry}/${repository} holds no disk: no layer has /disk/<file>.qcow2, .raw, .img or .iso`,
  );
}

function decompressor(mediaType: string, isShared = false): Transform | undefined {
  const chunkSize = unpackedChunkBytes;
  if (mediaType.endsWith('+zstd'))
    return createZstdDecompress({
      chunkSize,
      ...(isShared ? { params: { [constants.ZSTD_d_windowLogMax]: smallWindowLog } } : {}),
    });
  if (mediaType.endsWith('+gzip') || mediaType.endsWith('.gzip') || mediaType.endsWith('tar.gzip'))
    return createGunzip({ chunkSize });
  return undefined;
}

async function diskOfLayer(
  client: RegistryClient,
  repository: string,
  layer: Descriptor,
  budget: TarBudget,
  { signal, maxUnpackedBytes = Number.POSITIVE_INFINITY, isShared }: OpenDiskOptions,
): Promise<DiskFile | undefined> {
  const what = `a layer of ${client.registry}/${repository}`;
  const packed = blobOf(client, repository, layer, { signal });
  const checked = verifyDigest(layer.digest, what, layer.size);
  const unpacking = decompressor(layer.mediaType, isShared);
  // A failure ends the last stream with it, where it is read.
  const archive = pipeline(
    [packed, checked, ...(unpacking === undefined ? [] : [unpacking]), atMost(maxUnpackedBytes, what)],
    () => undefined,
  ) as Transform;
  const isDisk = (name: string) => diskPath.test(name);
  const found = await streamFromTar(archive, isDisk, budget, what).catch((error: unknown) => {
    throw isWindowTooLarge(error) ? windowTooLarge(what, error) : error;
  });
  if (found === undefined) {
    await readOut(checked);
    return undefined;
  }
  const { size, stream, whole } = found;
  const verified = whole.then(() => readOut(checked));
  // Whoever gives the stream up does not ask.
  verified.catch(() => undefined);
  return { name: diskPath.exec(found.name)?.[1] ?? '', size, stream, verified };
}

/**
 * Reads what stands behind the packed data of a layer. zlib stops where these end, before the last bytes have been digested: a registry could send
 * any other disk and fill the rest up.
 *
 * @throws BadGateway where the layer is not the one of its digest
 */
async function readOut(checked: Transform): Promise<void> {
  if (checked.readableEnded) return;
  const ended = finished(checked);
  checked.unpipe();
  checked.resume();
  await ended;
}

function isWindowTooLarge(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && error.code === 'ZSTD_error_frameParameter_windowTooLarge'
  );
}

function windowTooLarge(what: string, cause: unknown): Svc3Error {
  const message = `${what} is packed so that too much of it has to be kept in memory to unpack it`;
  return new Svc3Error('Invalid', message, { cause });
}

/** Bytes at the beginning of a layer in which the header of its disk is looked for. */
const headBytes = 8192;

export interface LocatedDisk {
  /** Name in the layer, e.g. `disk.qcow2`. */
  readonly name: string;
  readonly size: number;
  /** The file's bytes from `start` (default 0) to `end`, exclusive. Their digest is not checked: whoever has them all can. */
  read(start?: number, end?: number): Readable;
}

/**
 * The disk of an image whose layer is a plain tar archive, as `pushDisk` writes them: read from any place, without what is
 * before it. `undefined` for other images.
 */
export async function locateDisk(
  client: RegistryClient,
  repository: string,
  image: ResolvedImage,
  signal?: AbortSignal,
): Promise<LocatedDisk | undefined> {
  const layer = image.manifest.layers.at(-1);
  if (layer === undefined || decompressor(layer.mediaType) !== undefined) return undefined;
  const wanted = Math.min(headBytes, layer.size);
  const head = await readWhole(
    await client.blob(repository, layer.digest, {
      offset: 0,
      end: wanted - 1,
      ...(signal === undefined ? {} : { signal }),
    }),
    wanted,
    () => new Svc3Error('BadGateway', `${client.registry}/${repository} sent more of a layer than asked for`),
  );
  const file = findInTar(head, (name) => diskPath.test(name));
  if (file === undefined) return undefined;
  return {
    name: diskPath.exec(file.name)?.[1] ?? '',
    size: file.size,
    read: (start = 0, end = file.size) =>
      blobOf(client, repository, layer, { signal, start: file.offset + start, end: file.offset + end }),
  };
}

/** A few kilobytes of zstd can be terabytes of zeros. */
function atMost(limitBytes: number, what: string): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      bytes += chunk.length;
      if (bytes > limitBytes)
        callback(new Svc3Error('Invalid', `${what} unpacks to more than ${limitBytes} bytes`));
      else callback(null, chunk);
    },
  });
}

/** Annotation of a manifest: SHA-256 of its disk's own bytes (`sha256:…`), written by whoever has looked at the disk. */
const diskDigestAnnotation = 'svc3.dev/disk-digest';

export function diskDigestOf({ annotations }: ResolvedImage): string | undefined {
  const digest = annotations[diskDigestAnnotation];
  return /^sha256:[0-9a-f]{64}$/.test(digest ?? '') ? digest : undefined;
}

export function withDiskDigest(digest: string): Record<string, string> {
  return { [diskDigestAnnotation]: digest };
}

export interface DiskToPush {
  readonly repository: string;
  readonly tag: string;
  readonly architecture: string;
  /** Name in the layer, e.g. `disk.qcow2`. */
  readonly fileName: string;
  /** Bytes that `content` will give, exactly. */
  readonly size: number;
  readonly content: Readable;
  readonly annotations?: Record<string, string>;
  /** Digests `content` on the way, and notes it for `diskDigestOf`. Default false: it costs as much as the layer's. */
  readonly noteDigest?: boolean;
  /** Layers before that of the disk, in the registry already. The disk's is the last: readers look for it from the end. */
  readonly before?: readonly PushedLayer[];
  readonly signal?: AbortSignal;
  /** Told the bytes that the registry has taken. */
  readonly onProgress?: (bytes: number) => void;
}

/**
 * Streams a disk into a registry as an image in the containerDisk layout: a plain tar layer (a disk is compressed
 * already), then the configuration, then the manifest under its tag, so that there is no half image under a name. Memory: two
 * pieces of 4 MiB at most.
 *
 * @returns the manifest's digest and the bytes of the layers.
 */
export async function pushDisk(
  client: RegistryClient,
  disk: DiskToPush,
): Promise<{ digest: string; size: number }> {
  const abortable = disk.signal === undefined ? {} : { signal: disk.signal };
  const own = disk.noteDigest === true ? digesting() : undefined;
  const content = own === undefined ? disk.content : through(disk.content, own);
  const layer = await pushLayer(client, {
    repository: disk.repository,
    folder: 'disk',
    files: [{ name: disk.fileName, open: async () => ({ content, size: disk.size }) }],
    isCompressed: false,
    signal: disk.signal,
    onProgress: disk.onProgress,
  });
  const layers = [...(disk.before ?? []), layer];
  const config = Buffer.from(
    JSON.stringify({
      architecture: disk.architecture,
      os: 'linux',
      config: {},
      rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    }),
  );
  const configDigest = await client.putBlob(disk.repository, config, abortable);
  const bytes = manifestOf(
    { mediaType: mediaTypes.ociConfig, digest: configDigest, size: config.length },
    layers.map(({ descriptor }) => descriptor),
    { ...disk.annotations, ...(own === undefined ? {} : withDiskDigest(own.digest())) },
  );
  const digest = await client.putManifest(
    disk.repository,
    disk.tag,
    bytes,
    mediaTypes.ociManifest,
    abortable,
  );
  return { digest, size: layers.reduce((bytes, { descriptor }) => bytes + descriptor.size, 0) };
}

function through(content: Readable, transform: Transform): Transform {
  content.on('error', (error: Error) => transform.destroy(error));
  return content.pipe(transform);
}
