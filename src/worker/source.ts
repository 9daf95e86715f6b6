import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkSource } from '../api/worker.ts';
import { downloadExport } from '../runnerapi/download.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { RegistryClient } from '../registry/client.ts';
import { openDisk } from '../registry/disk.ts';
import { isPartList, readAllParts } from '../registry/parts.ts';
import { resolveImage, type ResolvedImage } from '../registry/image.ts';
import { resumable } from '../registry/resume.ts';
import { manifestName, parseReference, type ImageReference } from '../registry/reference.ts';
import { UploadLost } from './failure.ts';

export interface OpenedSource {
  readonly stream: Readable;
  /** Bytes of the file, where the source says. */
  readonly size: number | undefined;
  readonly architecture: 'amd64' | 'arm64' | undefined;
  /** Once the stream has been read: rejects when its bytes are not those that were meant. */
  readonly verified?: Promise<void>;
  /** The image that the disk is the one file of, where it lies in a registry. */
  readonly image?: SourceImage;
}

export interface SourceImage {
  readonly registry: string;
  readonly repository: string;
  readonly resolved: ResolvedImage;
  readonly fileName: string;
}

export type ExportSource = Extract<WorkSource, { type: 'export' }>;

export interface SourceOptions {
  readonly open: (registry: string) => RegistryClient;
  readonly ticket: string;
  /** Most bytes that a layer may unpack to. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** Opens the bytes of the disk. Errors are those of registry and runner. */
export async function openSource(source: WorkSource, options: SourceOptions): Promise<OpenedSource> {
  if (source.type === 'export') return openExport(source, options);
  const reference = parseReference(source.reference, 'source');
  const client = options.open(reference.registry);
  if (source.type === 'upload') await awaitManifest(client, reference, options.signal);
  const wanted = source.type === 'remote' ? source.architecture : undefined;
  const opened = await openRemote(client, reference, wanted, options);
  // Nobody knows what was uploaded: the layer says what the api wrote.
  return source.type === 'upload' ? { ...opened, architecture: undefined } : opened;
}

/** Between two looks for an upload: there are registries that show a moment later what they have taken. */
const lookAgainMs = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000] as const;

/** @throws UploadLost where the store does not have it in the end. */
async function awaitManifest(
  client: RegistryClient,
  reference: ImageReference,
  signal: AbortSignal,
): Promise<void> {
  for (let looks = 0; ; looks += 1)
    try {
      await client.manifest(reference.repository, manifestName(reference), { signal });
      return;
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound')) throw error;
      const waitMs = lookAgainMs[looks];
      if (waitMs === undefined) throw new UploadLost(error);
      await delay(waitMs, undefined, { signal });
    }
}

async function openRemote(
  client: RegistryClient,
  reference: ImageReference,
  wanted: 'amd64' | 'arm64' | undefined,
  { maxBytes, signal }: SourceOptions,
): Promise<OpenedSource> {
  const image = await resolveImage(client, reference, { signal, architecture: wanted });
  if (isPartList(image.manifest)) {
    const { layers } = image.manifest;
    const stream = readAllParts(client, reference.repository, layers, signal);
    return { stream, size: image.size, architecture: undefined };
  }
  const { stream, size, verified, name } = await openDisk(client, reference.repository, image, {
    signal,
    maxUnpackedBytes: maxBytes + 64 * 2 ** 20,
  });
  const { architecture } = image;
  if (architecture !== 'amd64' && architecture !== 'arm64') {
    stream.destroy();
    throw new Svc3Error('Invalid', `the image is for ${architecture}; VMs are amd64 or arm64`);
  }
  const { registry, repository } = reference;
  return {
    stream,
    size,
    architecture,
    verified,
    image: { registry, repository, resolved: image, fileName: name },
  };
}

async function openExport(source: ExportSource, options: SourceOptions): Promise<OpenedSource> {
  return { ...(await openPart(source, source.path, options)), architecture: undefined };
}

/** Opens a file of an export; a broken connection is taken up at the last byte. */
export async function openPart(
  { address, port, fingerprint }: ExportSource,
  path: string,
  { ticket, signal }: Pick<SourceOptions, 'ticket' | 'signal'>,
): Promise<{ readonly stream: Readable; readonly size: number }> {
  const open = (start: number) =>
    downloadExport({ address, port, fingerprint, ticket: { ticket, path }, start, signal });
  const { stream: first, size } = await open(0);
  let opened: Readable | undefined = first;
  const again = async (offset: number): Promise<Readable> => {
    const stream = opened ?? (await open(offset)).stream;
    opened = undefined;
    return stream;
  };
  return { stream: resumable(again, { size, signal }), size };
}
