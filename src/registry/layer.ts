import { createHash } from 'node:crypto';
import { pipeline, Readable } from 'node:stream';
import { createZstdCompress } from 'node:zlib';
import { pack, type Pack } from 'tar-stream';
import { mediaTypes, type RegistryClient } from './client.ts';
import { digesting } from './digest.ts';
import type { Descriptor } from './manifest.ts';
import { sendPieces } from './pieces.ts';

/** uid and gid of the files of an image (the containerDisk convention), and the only identity that may need to read them. */
const qemuId = 107;

export interface LayerFile {
  readonly name: string;
  /** Called when its turn has come. */
  readonly open: () => Promise<{
    readonly content: Readable;
    /** Bytes that `content` will give, exactly. */
    readonly size: number;
  }>;
}

export interface LayerToPush {
  readonly repository: string;
  /** Folder of the files, at the top. */
  readonly folder: string;
  readonly files: readonly LayerFile[];
  readonly isCompressed: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Told the bytes that the registry has taken. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

export interface PushedLayer {
  readonly descriptor: Descriptor;
  /** Digest of the tar archive, which is what a configuration names. */
  readonly diffId: string;
}

/** Streams files into a registry as one layer, a tar archive. Memory: two pieces of 4 MiB, or one as large as the registry wants it. */
export async function pushLayer(client: RegistryClient, layer: LayerToPush): Promise<PushedLayer> {
  const { repository, isCompressed, signal, onProgress } = layer;
  const abortable = signal === undefined ? {} : { signal };
  const hash = createHash('sha256');
  const unpacked = isCompressed ? digesting() : undefined;
  const upload = await client.upload(repository, abortable);
  try {
    const archive = tarOf(layer);
    const content = unpacked === undefined ? archive : compressed(archive, unpacked);
    const size = await sendPieces(upload, content as AsyncIterable<Buffer>, {
      signal,
      onPiece: (piece) => hash.update(piece),
      onSent: () => onProgress?.(upload.offset),
    });
    const digest = `sha256:${hash.digest('hex')}`;
    await upload.finish(digest, abortable);
    const mediaType = isCompressed ? mediaTypes.ociLayerZstd : mediaTypes.ociLayer;
    const descriptor = { mediaType, digest, size };
    return { descriptor, diffId: unpacked?.digest() ?? digest };
  } catch (error) {
    await upload.cancel();
    throw error;
  }
}

function compressed(archive: Readable, unpacked: ReturnType<typeof digesting>): Readable {
  // A failure ends the last stream with it, where it is read.
  return pipeline(archive, gathered, unpacked, createZstdCompress(), () => undefined);
}

/** A compressor takes a thread for each chunk that it is given, and streams of a network have small ones. */
const chunkBytes = 1024 * 1024;

async function* gathered(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let chunks: Buffer[] = [];
  let held = 0;
  for await (const chunk of source) {
    chunks.push(chunk);
    held += chunk.length;
    if (held < chunkBytes) continue;
    yield Buffer.concat(chunks, held);
    chunks = [];
    held = 0;
  }
  if (held > 0) yield Buffer.concat(chunks, held);
}

function tarOf({ folder, files }: LayerToPush): Readable {
  const archive = pack();
  // Times are of no use, and without them the same files are the same layer.
  const owned = { uid: qemuId, gid: qemuId, mtime: new Date(0) };
  const fill = async () => {
    archive.entry({ name: folder, type: 'directory', mode: 0o755, ...owned });
    for (const { name, open } of files) {
      const { content, size } = await open();
      await append(archive, { name: `${folder}/${name}`, size, mode: 0o444, ...owned }, content);
    }
    archive.finalize();
  };
  fill().catch((error: Error) => archive.destroy(error));
  return Readable.from(archive, { objectMode: false });
}

function append(archive: Pack, header: Parameters<Pack['entry']>[0], content: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    const entry = archive.entry(header, (error) => {
      if (error === null || error === undefined) resolve();
      else reject(error);
    });
    content.on('error', reject);
    entry.on('error', reject);
    content.pipe(entry);
  });
}
