import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pieces } from '../../../src/registry/pieces.ts';

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
