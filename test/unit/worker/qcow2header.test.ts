import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isSvc3Error } from '../../../src/errors.ts';
import { blankQcow2 } from '../../../src/controllers/image/blankdisk.ts';
import { readQcow2Header } from '../../../src/worker/qcow2header.ts';

const most = 2 ** 40;
const read = (head: Buffer, fileSize = head.length) =>
  readQcow2Header(head, { fileSize, maxVirtualSize: most });

function changed(change: (disk: Buffer) => void): Buffer {
  const disk = blankQcow2(2 ** 30);
  change(disk);
  return disk;
}

/** An extension behind the header, before the end mark. */
function withExtension(type: number, length: number): Buffer {
  return changed((disk) => {
    disk.writeUInt32BE(type, 104);
    disk.writeUInt32BE(length, 108);
  });
}

describe('the header of a qcow2 file', () => {
  test('of an empty disk tells size and cluster', () => {
    expect(read(blankQcow2(2 ** 30))).toEqual({ version: 3, virtualSize: 2 ** 30, clusterSize: 65_536 });
  });

  test('of version 2 is read as well', () => {
    const disk = changed((head) => {
      head.writeUInt32BE(2, 4);
      head.fill(0, 72, 104);
    });
    expect(read(disk)).toMatchObject({ version: 2, virtualSize: 2 ** 30 });
  });

  test.each<[string, Buffer, string]>([
    ['that names a backing file', changed((d) => d.writeBigUInt64BE(512n, 8)), 'has a backing file'],
    [
      'that keeps its data elsewhere',
      changed((d) => d.writeBigUInt64BE(4n, 72)),
      'keeps its data in another file',
    ],
    ['that names a data file', withExtension(0x44415441, 8), 'names another file for its data'],
    ['that names a backing format', withExtension(0xe2792aca, 5), 'names the format of a backing file'],
    ['that is encrypted the old way', changed((d) => d.writeUInt32BE(1, 32)), 'is encrypted'],
    ['that is encrypted with LUKS', withExtension(0x0537be77, 16), 'is encrypted'],
    ['that is marked as corrupt', changed((d) => d.writeBigUInt64BE(2n, 72)), 'is marked as corrupt'],
    [
      'with unknown features',
      changed((d) => d.writeBigUInt64BE(1n << 40n, 72)),
      'uses features that are not known',
    ],
    ['of version 4', changed((d) => d.writeUInt32BE(4, 4)), 'has version 4'],
    ['of no bytes', changed((d) => d.writeBigUInt64BE(0n, 24)), 'is a disk of 0 bytes'],
    ['of too many bytes', changed((d) => d.writeBigUInt64BE(2n ** 60n, 24)), 'the largest that is taken has'],
    ['with giant clusters', changed((d) => d.writeUInt32BE(40, 20)), 'has a cluster size of 2^40 bytes'],
    ['with a giant L1 table', changed((d) => d.writeUInt32BE(2 ** 31, 36)), 'has a L1 table of'],
    ['with a small L1 table', changed((d) => d.writeUInt32BE(1, 36)), 'has an L1 table that is too small'],
    ['with an L1 table beyond its end', changed((d) => d.writeBigUInt64BE(2n ** 40n, 40)), 'it is cut off'],
    ['with a crooked L1 table', changed((d) => d.writeBigUInt64BE(77n, 40)), 'at a wrong place'],
    ['without refcounts', changed((d) => d.writeUInt32BE(0, 56)), 'has no refcount table'],
    ['with giant refcounts', changed((d) => d.writeUInt32BE(2 ** 20, 56)), 'has a refcount table of'],
    ['with too many snapshots', changed((d) => d.writeUInt32BE(2 ** 31, 60)), 'claims to hold'],
    ['with an endless extension', withExtension(7, 2 ** 31), 'has a header extension that does not end'],
    ['with a giant header', changed((d) => d.writeUInt32BE(2 ** 30, 100)), 'has a header of'],
    ['that is cut', blankQcow2(2 ** 30).subarray(0, 90), 'ends within its header'],
    ['that is cut sooner', blankQcow2(2 ** 30).subarray(0, 20), 'ends within its header'],
  ])('%s is refused', (_what, disk, sentence) => {
    expect(() => read(disk)).toThrow(sentence);
  });

  test('is refused with a sentence or harmless, whatever its bytes are', () => {
    const field = fc.record({ at: fc.integer({ min: 4, max: 200 }), value: fc.bigInt(0n, 2n ** 64n - 1n) });
    const inputs = fc.record({
      fields: fc.array(field, { maxLength: 6 }),
      length: fc.integer({ min: 0, max: 4 * 65_536 }),
    });
    const whole = blankQcow2(2 ** 30);
    const honest = Buffer.from(whole.subarray(0, 256));
    fc.assert(
      fc.property(inputs, ({ fields, length }) => {
        honest.copy(whole);
        for (const { at, value } of fields) whole.writeBigUInt64BE(value, at);
        const head = whole.subarray(0, length);
        try {
          const { virtualSize } = readQcow2Header(head, { fileSize: head.length, maxVirtualSize: most });
          expect(head.readBigUInt64BE(8)).toBe(0n);
          expect(virtualSize).toBeGreaterThan(0);
          expect(virtualSize).toBeLessThanOrEqual(most);
        } catch (error) {
          if (!isSvc3Error(error, 'Invalid')) throw error;
          expect(error.message).toMatch(/^the qcow2 file [a-z ]/);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  test('of random bytes behind the magic never gets through with a backing file', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 0, maxLength: 400 }), (bytes) => {
        const head = Buffer.concat([Buffer.from('514649fb', 'hex'), bytes]);
        try {
          read(head, 2 ** 40);
          expect(head.readBigUInt64BE(8)).toBe(0n);
        } catch (error) {
          if (!isSvc3Error(error, 'Invalid')) throw error;
        }
      }),
      { numRuns: 3_000 },
    );
  });
});
