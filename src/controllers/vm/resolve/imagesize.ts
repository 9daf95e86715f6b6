import type { Readable } from 'node:stream';
import { limits } from '../../../api/meta.ts';
import { parseQuantity } from '../../../api/quantity.ts';
import { isSvc3Error } from '../../../errors.ts';
import type { RegistryClient } from '../../../registry/client.ts';
import { openDisk } from '../../../registry/disk.ts';
import type { ResolvedImage } from '../../../registry/image.ts';
import { isQcow2 } from '../../../qcow2.ts';
import { headerBytes, readQcow2Header } from '../../../worker/qcow2header.ts';

/** In front of the disk of most honest images there is nothing else, and nobody waits here for the others. */
const mostBefore = { headers: 10_000, bytes: 64 * 2 ** 20 };

/**
 * Bytes that a guest sees of the disk of an image, by the first bytes of the layer that has it: the rest of the layer is not
 * transferred. Undefined where there is no disk, or one that cannot be used: the runner says why when it starts.
 */
export async function virtualSizeOf(
  client: RegistryClient,
  repository: string,
  image: ResolvedImage,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    const disk = await openDisk(client, repository, image, { signal, mostBefore, isShared: true });
    disk.verified.catch(() => undefined);
    const head = await beginning(disk.stream);
    if (!isQcow2(head)) return Math.ceil(disk.size / 512) * 512;
    const maxVirtualSize = parseQuantity(limits.diskSize.max);
    return readQcow2Header(head, { fileSize: disk.size, maxVirtualSize }).virtualSize;
  } catch (error) {
    if (isSvc3Error(error, 'Invalid')) return undefined;
    throw error;
  }
}

/** Ends the stream after its first `headerBytes`. */
async function beginning(stream: Readable): Promise<Buffer> {
  const head = Buffer.alloc(headerBytes);
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    // Kept as they are, pieces of a byte would take far more than their bytes.
    bytes += chunk.copy(head, bytes);
    if (bytes === headerBytes) break;
  }
  return head.subarray(0, bytes);
}
