import { setTimeout as delay } from 'node:timers/promises';
import { backoffDelay } from '../backoff.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import { defaultPieceBytes, type ResyncOptions, type Upload } from './upload.ts';

const mostAttempts = 6;
const resyncTimes = { baseMs: 800, maxMs: 30_000, jitter: 1 } as const;

/**
 * A stream cut into pieces of `size`. A piece is good until the one after the next is asked for: they lie in two buffers in turn,
 * so that one can be filled while the other is sent. Of one buffer alone it is good until the next is asked for.
 */
export async function* pieces(
  source: AsyncIterable<Buffer>,
  size: number,
  bufferCount: 1 | 2 = 2,
): AsyncGenerator<Buffer> {
  const buffers: Buffer[] = [];
  let turn = 0;
  let held = 0;
  for await (const chunk of source)
    for (let at = 0; at < chunk.length;) {
      // Taken from the system only when it is needed: most blobs are small.
      const buffer = (buffers[turn] ??= Buffer.allocUnsafeSlow(size));
      const copied = chunk.copy(buffer, held, at);
      at += copied;
      held += copied;
      if (held < size) continue;
      yield buffer;
      turn = (turn + 1) % bufferCount;
      held = 0;
    }
  if (held > 0) yield (buffers[turn] ?? Buffer.alloc(0)).subarray(0, held);
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with each piece before it is sent. */
  readonly onPiece: (piece: Buffer) => void;
  /** Called when one has arrived. */
  readonly onSent?: () => void;
}

/**
 * Sends all pieces; while one is under way the next is read. Pieces that are larger than usual are sent before the next is read: memory is for one of
 * them, or for two of the usual size.
 *
 * @returns the bytes of all pieces
 */
export async function sendPieces(
  upload: Upload,
  source: AsyncIterable<Buffer>,
  { signal, onPiece, onSent }: SendOptions,
): Promise<number> {
  const { pieceBytes } = upload;
  const isOneByOne = pieceBytes > defaultPieceBytes;
  const abortable = signal === undefined ? {} : { signal };
  let sending = Promise.resolve();
  let bytes = 0;
  try {
    for await (const piece of pieces(source, pieceBytes, isOneByOne ? 1 : 2)) {
      bytes += piece.length;
      onPiece(piece);
      await sending;
      sending = appendPiece(upload, piece, abortable).then(onSent);
      // It is waited for before the next one; until then nobody listens.
      sending.catch(() => undefined);
      if (isOneByOne) await sending;
    }
  } finally {
    await sending;
  }
  return bytes;
}

/** Sends one piece; after a fault, asks how much of it arrived and sends the rest. A refused login, and a refused size, are final. */
export async function appendPiece(
  upload: Upload,
  piece: Buffer,
  abortable: { signal?: AbortSignal },
): Promise<void> {
  const start = upload.offset;
  const end = start + piece.length;
  /** Where the registry said that it is, when it was asked last. */
  let told = start;
  for (let attempt = 1; upload.offset < end; attempt += 1) {
    if (attempt > mostAttempts)
      throw new Svc3Error('BadGateway', 'the registry takes a piece of an upload and does not keep it');
    if (upload.offset < start)
      throw new Svc3Error('BadGateway', 'the registry has lost bytes of an upload that it had taken');
    try {
      await upload.append(piece.subarray(upload.offset - start), abortable);
    } catch (error) {
      const isFinal = isSvc3Error(error, 'Unauthorized', 'Forbidden', 'RequestEntityTooLarge');
      if (isFinal || attempt >= mostAttempts || abortable.signal?.aborted === true) throw error;
      const refused = told > start && isSvc3Error(error, 'RangeNotSatisfiable') ? told : undefined;
      told = await resync(upload, attempt, { ...abortable, sent: end, refused });
    }
  }
}

/** The registry may be away for a while: asking is tried again as well. */
async function resync(upload: Upload, attempt: number, options: ResyncOptions): Promise<number> {
  const { signal } = options;
  for (let tries = attempt; ; tries += 1) {
    await delay(backoffDelay(tries, resyncTimes), undefined, signal === undefined ? {} : { signal });
    try {
      return await upload.resync(options);
    } catch (error) {
      if (isSvc3Error(error) || tries >= mostAttempts || signal?.aborted === true) throw error;
    }
  }
}
