import { setTimeout as delay } from 'node:timers/promises';
import { isSvc3Error } from '../errors.ts';
import type { Upload } from './upload.ts';

/** Uploads are sent in pieces of this size, so that one that breaks off goes on from the last piece. */
export const pieceBytes = 8 * 1024 * 1024;
const mostAttempts = 6;

/** A stream cut into pieces of `pieceBytes`. */
export async function* pieces(source: AsyncIterable<Buffer>, size = pieceBytes): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let held = 0;
  for await (const chunk of source) {
    let rest = chunk;
    while (held + rest.length >= size) {
      const taken = rest.subarray(0, size - held);
      yield Buffer.concat([...parts, taken]);
      rest = rest.subarray(taken.length);
      parts = [];
      held = 0;
    }
    if (rest.length > 0) parts.push(rest);
    held += rest.length;
  }
  if (held > 0) yield Buffer.concat(parts);
}

/** Sends one piece; after a fault, asks how much of it arrived and sends the rest. A refused login is final. */
export async function appendPiece(
  upload: Upload,
  piece: Buffer,
  abortable: { signal?: AbortSignal },
): Promise<void> {
  const end = upload.offset + piece.length;
  for (let attempt = 1; upload.offset < end; attempt += 1) {
    try {
      await upload.append(piece.subarray(piece.length - (end - upload.offset)), abortable);
    } catch (error) {
      const isFinal = isSvc3Error(error, 'Unauthorized', 'Forbidden', 'NotFound');
      if (isFinal || attempt >= mostAttempts || abortable.signal?.aborted === true) throw error;
      await resync(upload, attempt, abortable);
    }
  }
}

/** The registry may be away for a while: asking is tried again as well. */
async function resync(upload: Upload, attempt: number, abortable: { signal?: AbortSignal }): Promise<void> {
  for (let tries = attempt; ; tries += 1) {
    await delay(Math.random() * 400 * 2 ** tries, undefined, abortable);
    try {
      await upload.resync(abortable);
      return;
    } catch (error) {
      if (isSvc3Error(error) || tries >= mostAttempts || abortable.signal?.aborted === true) throw error;
    }
  }
}
