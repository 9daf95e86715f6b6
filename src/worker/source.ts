import { Readable } from 'node:stream';
import type { WorkSource } from '../api/worker.ts';
import { downloadExport } from '../control/download.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { RegistryClient } from '../registry/client.ts';
import { verifyDigest } from '../registry/digest.ts';
import { openDisk } from '../registry/disk.ts';
import { resolveImage } from '../registry/image.ts';
import { manifestName, parseReference, type ImageReference } from '../registry/reference.ts';

export interface OpenedSource {
  readonly stream: Readable;
  /** Bytes of the file, where the source says. */
  readonly size: number | undefined;
  readonly architecture: 'amd64' | 'arm64' | undefined;
  /** Once the stream has been read: rejects when its bytes are not those that were meant. */
  readonly verified?: Promise<void>;
}

export interface SourceOptions {
  readonly open: (registry: string) => RegistryClient;
  readonly ticket: string;
  /** Most bytes that a layer may unpack to. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** A connection that breaks off is taken up again so often before the work fails. */
const mostResumes = 5;

/** Opens the bytes of the disk. Errors are those of registry and runner. */
export async function openSource(source: WorkSource, options: SourceOptions): Promise<OpenedSource> {
  if (source.type === 'export') return openExport(source, options);
  const reference = parseReference(source.reference, 'source');
  const client = options.open(reference.registry);
  return source.type === 'upload'
    ? openUpload(client, reference, options)
    : openRemote(client, reference, options);
}

async function openRemote(
  client: RegistryClient,
  reference: ImageReference,
  { maxBytes, signal }: SourceOptions,
): Promise<OpenedSource> {
  const image = await resolveImage(client, reference, { signal });
  const { stream, size, verified } = await openDisk(client, reference.repository, image, {
    signal,
    maxUnpackedBytes: maxBytes + 64 * 2 ** 20,
  });
  const { architecture } = image;
  if (architecture !== 'amd64' && architecture !== 'arm64') {
    stream.destroy();
    throw new Svc3Error('Invalid', `the image is for ${architecture}; VMs are amd64 or arm64`);
  }
  return { stream, size, architecture, verified };
}

async function openUpload(
  client: RegistryClient,
  reference: ImageReference,
  { signal }: SourceOptions,
): Promise<OpenedSource> {
  const { repository } = reference;
  const { manifest } = await client.manifest(repository, manifestName(reference), { signal });
  const [layer] = manifest.layers ?? [];
  if (layer === undefined) throw new Svc3Error('Invalid', 'the upload holds no file');
  const open = (offset: number) => client.blob(repository, layer.digest, { signal, offset });
  const stream = Readable.from(resuming(open, layer.size, signal), { objectMode: false });
  const checked = stream.pipe(verifyDigest(layer.digest, 'the upload', layer.size));
  stream.on('error', (error) => checked.destroy(error));
  return { stream: checked, size: layer.size, architecture: undefined };
}

async function openExport(
  source: Extract<WorkSource, { type: 'export' }>,
  { ticket, signal }: SourceOptions,
): Promise<OpenedSource> {
  const { address, port, fingerprint, path } = source;
  const open = (start: number) =>
    downloadExport({ address, port, fingerprint, ticket: { ticket, path }, start, signal });
  const { stream: first, size } = await open(0);
  let opened: Readable | undefined = first;
  const again = async (offset: number): Promise<Readable> => {
    const stream = opened ?? (await open(offset)).stream;
    opened = undefined;
    return stream;
  };
  return {
    stream: Readable.from(resuming(again, size, signal), { objectMode: false }),
    size,
    architecture: undefined,
  };
}

/** Reads `size` bytes, taking a stream up again where it broke off. */
async function* resuming(
  open: (offset: number) => Promise<Readable>,
  size: number,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let at = 0;
  for (let resumes = 0; at < size; resumes += 1) {
    try {
      for await (const chunk of await open(at)) {
        const bytes = chunk as Buffer;
        at += bytes.length;
        yield bytes;
      }
      if (at < size) throw new Svc3Error('BadGateway', `the source ended after ${at} of ${size} bytes`);
    } catch (error) {
      const isFinal =
        signal.aborted ||
        resumes >= mostResumes ||
        isSvc3Error(error, 'Unauthorized', 'Forbidden', 'NotFound');
      if (isFinal) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200 * 2 ** resumes));
    }
  }
}
