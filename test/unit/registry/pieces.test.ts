import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { appendPiece, pieces, sendPieces } from '../../../src/registry/pieces.ts';
import { defaultPieceBytes, type Upload } from '../../../src/registry/upload.ts';
import { withoutDelays } from '../delays.ts';

async function* stream(chunks: readonly Uint8Array[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

describe('pieces of a stream', () => {
  test('are its bytes, all of one size but the last', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 }),
        fc.integer({ min: 1, max: 30 }),
        async (chunks, size) => {
          const found: Buffer[] = [];
          for await (const piece of pieces(stream(chunks), size)) found.push(Buffer.from(piece));
          expect(Buffer.concat(found)).toEqual(Buffer.concat(chunks));
          expect(found.slice(0, -1).every(({ length }) => length === size)).toBe(true);
          expect(found.every(({ length }) => length > 0 && length <= size)).toBe(true);
        },
      ),
    );
  });

  test('are still what they were while the next one is read', async () => {
    const read = pieces(stream([Buffer.from('aaaabbbbccccdd')]), 4);
    const one = (await read.next()).value as Buffer;
    const two = (await read.next()).value as Buffer;
    expect([one.toString(), two.toString()]).toEqual(['aaaa', 'bbbb']);
    const three = (await read.next()).value as Buffer;
    expect([two.toString(), three.toString()]).toEqual(['bbbb', 'cccc']);
  });
});

/** An upload whose `append` does what each turn says: keeps so many bytes, then throws or not. */
function anUpload(...turns: { keeps?: number; error?: Error; resync?: Error; loses?: number }[]) {
  let held = Buffer.alloc(0);
  let known = 0;
  let turn = 0;
  let resyncs = 0;
  const upload: Upload = {
    location: '/u',
    pieceBytes: defaultPieceBytes,
    get offset() {
      return known;
    },
    async append(bytes) {
      const { keeps, error } = turns[turn++] ?? {};
      held = Buffer.concat([held, (bytes as Buffer).subarray(0, keeps)]);
      if (error !== undefined) throw error;
      known = held.length;
    },
    async resync() {
      resyncs += 1;
      const { resync } = turns[turn - 1] ?? {};
      if (resync !== undefined && resyncs % 3 !== 0) throw resync;
      held = held.subarray(0, held.length - (turns[turn - 1]?.loses ?? 0));
      return (known = held.length);
    },
    finish: async () => undefined,
    cancel: async () => undefined,
  };
  return { upload, held: () => held.toString(), appends: () => turn, resyncs: () => resyncs };
}

describe('a piece of an upload', () => {
  const piece = Buffer.from('0123456789');
  const cut = new Error('cut off');

  test('is sent once where it arrives', async () => {
    const { upload, held, appends, resyncs } = anUpload();
    await appendPiece(upload, piece, {});
    await appendPiece(upload, piece, {});
    expect([held(), appends(), resyncs()]).toEqual(['01234567890123456789', 2, 0]);
  });

  test('is gone on with from where the registry has it', async () => {
    const waited = withoutDelays();
    const { upload, held, appends } = anUpload({}, { keeps: 3, error: cut }, { keeps: 4, error: cut });
    await appendPiece(upload, Buffer.from('ab'), {});
    await appendPiece(upload, piece, {});
    expect([held(), appends(), waited.length]).toEqual(['ab0123456789', 4, 2]);
    for (const [i, ms] of waited.entries()) expect(ms).toBeLessThanOrEqual(400 * 2 ** (i + 1));
  });

  test('that the registry takes in parts is sent in parts', async () => {
    const { upload, held } = anUpload({ keeps: 4 }, { keeps: 4 });
    await appendPiece(upload, piece, {});
    expect(held()).toBe('0123456789');
  });

  test('that the registry takes and does not keep is given up after six times', async () => {
    const { upload, appends } = anUpload(...Array.from({ length: 20 }, () => ({ keeps: 0 })));
    await expect(appendPiece(upload, piece, {})).rejects.toThrow(
      'takes a piece of an upload and does not keep it',
    );
    expect(appends()).toBe(6);
  });

  test('that never arrives is given up after six times', async () => {
    withoutDelays();
    const { upload, appends } = anUpload(...Array.from({ length: 20 }, () => ({ keeps: 0, error: cut })));
    await expect(appendPiece(upload, piece, {})).rejects.toThrow('cut off');
    expect(appends()).toBe(6);
  });

  test.each<ErrorReason>(['Unauthorized', 'Forbidden', 'RequestEntityTooLarge'])(
    'that is refused (%s) is refused',
    async (reason) => {
      const { upload, appends } = anUpload({ keeps: 0, error: new Svc3Error(reason, 'no') });
      await expect(appendPiece(upload, piece, {})).rejects.toMatchObject({ reason });
      expect(appends()).toBe(1);
    },
  );

  test('is asked after again where the registry is away', async () => {
    const waited = withoutDelays();
    const { upload, held, resyncs } = anUpload({ keeps: 3, error: cut, resync: cut });
    await appendPiece(upload, piece, {});
    expect([held(), resyncs(), waited.length]).toEqual(['0123456789', 3, 3]);
  });

  test('is not asked after again where the registry says that it is gone', async () => {
    withoutDelays();
    const gone = new Svc3Error('BadGateway', 'gone');
    const { upload, resyncs } = anUpload({ keeps: 3, error: cut, resync: gone });
    await expect(appendPiece(upload, piece, {})).rejects.toThrow('gone');
    expect(resyncs()).toBe(1);
  });

  test('is not sent where the registry has less than it had before: what is missing is not in it', async () => {
    withoutDelays();
    const { upload, held, appends } = anUpload({}, { keeps: 3, error: cut, loses: 5 });
    await appendPiece(upload, Buffer.from('abcd'), {});
    await expect(appendPiece(upload, piece, {})).rejects.toMatchObject({
      reason: 'BadGateway',
      message: 'the registry has lost bytes of an upload that it had taken',
    });
    expect([held(), appends()]).toEqual(['ab', 2]);
  });

  test('that nobody wants any more is not tried again', async () => {
    const { upload, appends } = anUpload({ keeps: 3, error: cut });
    await expect(appendPiece(upload, piece, { signal: AbortSignal.abort() })).rejects.toThrow('cut off');
    expect(appends()).toBe(1);
  });
});

describe('all pieces', () => {
  const options = { onPiece: () => undefined };

  test('are told of before and after they are sent', async () => {
    const { upload, held } = anUpload();
    const told: string[] = [];
    await sendPieces(upload, stream([Buffer.from('xy')]), {
      onPiece: (piece) => told.push(`sends ${piece.toString()}, ${held().length} there`),
      onSent: () => told.push(`sent, ${upload.offset} there`),
    });
    expect(told).toEqual(['sends xy, 0 there', 'sent, 2 there']);
  });

  test('are of 4 MiB, in order', async () => {
    const { upload, held, appends } = anUpload();
    const content = Buffer.alloc(defaultPieceBytes + 3, 'x');
    expect(await sendPieces(upload, stream([content]), options)).toBe(content.length);
    expect([defaultPieceBytes, appends(), held().length]).toEqual([4_194_304, 2, defaultPieceBytes + 3]);
  });

  test('are as large as the registry wants them, and a larger one has arrived before the next is read', async () => {
    const { upload, held } = anUpload();
    Object.assign(upload, { pieceBytes: defaultPieceBytes + 1 });
    const seen: string[] = [];
    async function* source(): AsyncGenerator<Buffer> {
      yield Buffer.alloc(defaultPieceBytes + 1, 'x');
      seen.push('the next is read');
      yield Buffer.from('yz');
    }
    await sendPieces(upload, source(), {
      onPiece: ({ length }) => seen.push(`${length} are sent`),
      onSent: () => seen.push(`${upload.offset} have arrived`),
    });
    expect(seen).toEqual([
      '4194305 are sent',
      '4194305 have arrived',
      'the next is read',
      '2 are sent',
      '4194307 have arrived',
    ]);
    expect(held().endsWith('xyz')).toBe(true);
  });

  test('fail with the one that fails, also the last', async () => {
    const { upload } = anUpload({ keeps: 0, error: new Svc3Error('Forbidden', 'no') });
    await expect(sendPieces(upload, stream([Buffer.from('xy')]), options)).rejects.toThrow('no');
  });

  test('fail with one that fails while the next is read, and the process goes on until then', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    onTestFinished(() => void process.off('unhandledRejection', unhandled));
    const { upload } = anUpload({ keeps: 0, error: new Svc3Error('Forbidden', 'no') });
    async function* slow(): AsyncGenerator<Buffer> {
      yield Buffer.alloc(defaultPieceBytes);
      for (let turns = 0; turns < 3; turns += 1) await new Promise((resolve) => setImmediate(resolve));
      yield Buffer.from('y');
    }
    await expect(sendPieces(upload, slow(), options)).rejects.toThrow('no');
    expect(unhandled).not.toHaveBeenCalled();
  });

  test('fail with their source, after what is under way', async () => {
    const { upload, held } = anUpload();
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.alloc(defaultPieceBytes, 'x');
      throw new Error('source cut off');
    }
    await expect(sendPieces(upload, broken(), options)).rejects.toThrow('source cut off');
    expect(held().length).toBe(defaultPieceBytes);
  });
});
