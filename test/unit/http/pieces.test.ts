import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { Pieces, pieceBytes } from '../../../src/http/pieces.ts';

test.each([
  ['nothing', 0],
  ['one byte', 1],
  ['exactly one piece', pieceBytes],
  ['one byte more than a piece', pieceBytes + 1],
  ['many pieces', 5 * pieceBytes + 7],
])('%s comes out as it went in', async (_, length) => {
  const bytes = randomBytes(length);
  expect(bytes.equals(await buffer(new Pieces(bytes)))).toBe(true);
});

test('no more than one piece waits for a reader who does not read', async () => {
  const pieces = new Pieces(randomBytes(10 * pieceBytes));
  pieces.read(0);
  await new Promise(setImmediate);
  expect(pieces.readableLength).toBe(pieceBytes);
});
