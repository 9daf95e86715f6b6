import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { writeSparse, type SparseFileOptions } from '../../../src/worker/sparsefile.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-sparsefile-'));
});
afterAll(() => rm(folder, { recursive: true }));

const block = 65_536;
const { signal } = new AbortController();

async function landed(chunks: Buffer[], more: Partial<SparseFileOptions> = {}) {
  const path = join(folder, 'file');
  const source = Readable.from(chunks, { objectMode: false });
  const size = await writeSparse(source, path, { maxBytes: 10 * block, signal, ...more });
  return { size, bytes: await readFile(path), held: (await stat(path)).blocks * 512 };
}

describe('a stream that is written into a file', () => {
  test('is there byte by byte, in whatever pieces it came', async () => {
    const chunk = fc.record({ length: fc.integer({ min: 0, max: 100_000 }), byte: fc.constantFrom(0, 0, 1) });
    await fc.assert(
      fc.asyncProperty(fc.array(chunk, { maxLength: 5 }), async (given) => {
        const chunks = given.map(({ length, byte }) => Buffer.alloc(length, byte));
        const { size, bytes } = await landed(chunks);
        expect(bytes.equals(Buffer.concat(chunks))).toBe(true);
        expect(size).toBe(bytes.length);
      }),
      { numRuns: 30 },
    );
  });

  test('has holes where there are only zeros, also at its end, and no others', async () => {
    const zeros = await landed([Buffer.alloc(3), Buffer.alloc(4 * block)]);
    expect([zeros.size, zeros.bytes.length, zeros.held]).toEqual([4 * block + 3, 4 * block + 3, 0]);
    const last = Buffer.alloc(2 * block);
    last[2 * block - 1] = 1;
    expect((await landed([last])).held).toBe(block);
  });

  test('may be as large as allowed, and no larger', async () => {
    expect((await landed([Buffer.alloc(100, 1)], { maxBytes: 100 })).size).toBe(100);
    await expect(landed([Buffer.alloc(101, 1)], { maxBytes: 100 })).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'the disk file has more than 100 bytes',
    });
    await expect(landed([Buffer.alloc(2 * block, 1)], { maxBytes: 2 * block - 1 })).rejects.toThrow();
  });

  test('that is known to be larger than allowed is refused before a byte of it is read', async () => {
    const source = Readable.from([Buffer.alloc(5)], { objectMode: false });
    const read = vi.spyOn(source, '_read');
    const path = join(folder, 'none');
    const refused = writeSparse(source, path, { maxBytes: 100, expected: 101, signal });
    await expect(refused).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'the disk file has more than 100 bytes',
    });
    expect(read).not.toHaveBeenCalled();
    expect(source.destroyed).toBe(true);
    await expect(stat(path)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test.each([99, 101])('of %i bytes is refused where 100 had to come', async (bytes) => {
    await expect(landed([Buffer.alloc(bytes, 1)], { expected: 100 })).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `the disk file ended after ${bytes} of 100 bytes`,
    });
  });

  test('of as many bytes as had to come is well, also of none', async () => {
    expect((await landed([Buffer.alloc(100, 1)], { expected: 100 })).size).toBe(100);
    expect((await landed([], { expected: 0 })).size).toBe(0);
  });

  test('tells how far it is', async () => {
    const told: number[] = [];
    await landed([Buffer.alloc(block + 5)], { onProgress: (bytes) => told.push(bytes) });
    expect(told).toEqual([block, block + 5]);
  });

  test('ends its source when nobody wants it any more', async () => {
    const source = Readable.from([Buffer.alloc(5)], { objectMode: false });
    const given = { maxBytes: 10, signal: AbortSignal.abort(new Error('enough')) };
    await expect(writeSparse(source, join(folder, 'file'), given)).rejects.toThrow('enough');
    expect(source.destroyed).toBe(true);
  });

  test('for which there is no room says so', async () => {
    const source = Readable.from([Buffer.alloc(5, 1)], { objectMode: false });
    await expect(writeSparse(source, '/dev/full', { maxBytes: 10, signal })).rejects.toMatchObject({
      reason: 'RequestEntityTooLarge',
    });
  });

  test('that breaks off is told as it is', async () => {
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.alloc(5);
      throw new Error('cut off');
    }
    const source = Readable.from(broken(), { objectMode: false });
    await expect(writeSparse(source, join(folder, 'file'), { maxBytes: 10, signal })).rejects.toThrow(
      'cut off',
    );
  });
});
