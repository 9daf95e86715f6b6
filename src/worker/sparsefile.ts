import { open, type FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { Svc3Error } from '../errors.ts';
import { noRoom } from './failure.ts';

const blockBytes = 64 * 1024;
const zeros = Buffer.alloc(blockBytes);

export interface SparseFileOptions {
  /** More than this is refused, before a byte is read where `expected` says so. */
  readonly maxBytes: number;
  /** Bytes that have to come; undefined where the source does not say. */
  readonly expected?: number | undefined;
  readonly signal: AbortSignal;
  readonly onProgress?: (bytes: number) => void;
}

/**
 * Writes a stream into a file, leaving holes where there are only zeros.
 *
 * @returns bytes that came.
 * @throws Invalid when there are more than allowed, BadGateway when fewer than expected; `RequestEntityTooLarge` when the
 * volume is full.
 */
export async function writeSparse(
  source: Readable,
  path: string,
  options: SparseFileOptions,
): Promise<number> {
  const { maxBytes, expected, signal, onProgress } = options;
  const tooLarge = () => new Svc3Error('Invalid', `the disk file has more than ${maxBytes} bytes`);
  if (expected !== undefined && expected > maxBytes) {
    source.destroy();
    throw tooLarge();
  }
  const file = await open(path, 'w');
  let at = 0;
  try {
    for await (const block of blocks(source)) {
      signal.throwIfAborted();
      if (at + block.length > maxBytes) throw tooLarge();
      if (!block.equals(block.length === blockBytes ? zeros : zeros.subarray(0, block.length)))
        await writeAll(file, block, at);
      at += block.length;
      onProgress?.(at);
    }
    await file.truncate(at);
  } catch (error) {
    source.destroy();
    throw isFull(error) ? noRoom(error) : error;
  } finally {
    await file.close();
  }
  if (expected !== undefined && at !== expected)
    throw new Svc3Error('BadGateway', `the disk file ended after ${at} of ${expected} bytes`);
  return at;
}

/** A volume that is nearly full takes the part of a write for which it has room, and says so by its length only. */
async function writeAll(file: FileHandle, block: Buffer, at: number): Promise<void> {
  for (let done = 0; done < block.length;)
    done += (await file.write(block, done, block.length - done, at + done)).bytesWritten;
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/**
 * The stream in aligned blocks, so that a run of zeros is found however the chunks were cut. A block is valid until the next
 * one is asked for: all of them are the same buffer.
 */
async function* blocks(source: Readable): AsyncGenerator<Buffer> {
  const block = Buffer.allocUnsafeSlow(blockBytes);
  let held = 0;
  for await (const chunk of source as AsyncIterable<Buffer>)
    for (let at = 0; at < chunk.length;) {
      const copied = chunk.copy(block, held, at);
      at += copied;
      held += copied;
      if (held < blockBytes) continue;
      yield block;
      held = 0;
    }
  if (held > 0) yield block.subarray(0, held);
}
