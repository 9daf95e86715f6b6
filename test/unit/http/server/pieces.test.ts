import { randomBytes } from 'node:crypto';
import { PassThrough, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { Pieces, pieceBytes } from '../../../../src/http/server/pieces.ts';

test.each([
  ['nothing', 0],
  ['one byte', 1],
  ['exactly one piece', pieceBytes],
  ['one byte more than a piece', pieceBytes + 1],
  ['many pieces', 5 * pieceBytes + 7],
])('%s comes out as it went in, read or piped', async (_, length) => {
  const bytes = randomBytes(length);
  expect(bytes.equals(await buffer(new Pieces(bytes)))).toBe(true);
  expect(bytes.equals(await buffer(new Pieces(bytes).pipe(new PassThrough())))).toBe(true);
});

test('no more than one piece waits for a reader who does not read', async () => {
  const written: number[] = [];
  let leave: (() => void) | undefined;
  const slow = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written.push(chunk.length);
      leave = done;
    },
  });
  new Pieces(randomBytes(10 * pieceBytes)).pipe(slow);
  await new Promise(setImmediate);
  expect(written).toEqual([pieceBytes]);
  expect(slow.writableLength).toBe(pieceBytes);
  leave?.();
  await expect.poll(() => written).toEqual([pieceBytes, pieceBytes]);
});

test('nothing is written after the reader has gone', async () => {
  const reader = new PassThrough();
  const pieces = new Pieces(randomBytes(10 * pieceBytes));
  pieces.pipe(reader);
  pieces.destroy();
  reader.resume();
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  expect(reader.readableEnded).toBe(false);
});
