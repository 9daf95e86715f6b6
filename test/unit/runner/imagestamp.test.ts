import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { imageStampOf } from '../../../src/runner/imagestamp.ts';

const mebibyte = 2 ** 20;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-stamp-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** The stamp of a sparse file of this size with a byte at this place. */
async function stamp(size: number, at?: number): Promise<string> {
  const path = join(folder, 'disk.raw');
  await writeFile(path, '');
  await truncate(path, size);
  if (at !== undefined) {
    const file = await open(path, 'r+');
    await file.write('x', at);
    await file.close();
  }
  return imageStampOf(path);
}

test('is the same for the same content, however large', async () => {
  for (const size of [1, 5 * mebibyte, 6 * mebibyte, 6 * mebibyte + 1, 2 ** 40])
    expect(await stamp(size)).toBe(await stamp(size));
});

test('is another one for another size', async () => {
  expect(await stamp(100 * mebibyte)).not.toBe(await stamp(100 * mebibyte + 512));
});

test.each([
  ['the header', 64 * mebibyte, 0],
  ['the tables', 64 * mebibyte, mebibyte - 1],
  ['the last byte', 64 * mebibyte, 64 * mebibyte - 1],
  ['the first sample', 2 ** 40, mebibyte],
  ['the last sample', 2 ** 40, 2 ** 40 - mebibyte - 1],
  ['any byte of a small file', 6 * mebibyte, 3 * mebibyte + 7],
])('is another one where %s differs', async (_what, size, at) => {
  expect(await stamp(size, at)).not.toBe(await stamp(size));
});

test('says why the image cannot be used where its disk cannot be read', async () => {
  await expect(imageStampOf(join(folder, 'none.raw'))).rejects.toMatchObject({
    reason: 'ImageInvalid',
    message: expect.stringMatching(/^the image's disk cannot be read: ENOENT/),
  });
});
