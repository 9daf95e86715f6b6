import { describe, expect, it } from 'vitest';
import { blankQcow2 } from '../../src/controllers/image/blankdisk.ts';
import { isQcow2, readQcow2Fields } from '../../src/qcow2.ts';

describe('the header of a qcow2 file', () => {
  it('is read as it was written', () => {
    const fields = readQcow2Fields(blankQcow2(2 ** 30));
    expect(fields).toMatchObject({ version: 3, clusterBits: 16, virtualSize: 2n ** 30n, headerLength: 104 });
    expect(fields).toMatchObject({ l1Entries: 2, l1Offset: 3n * 65_536n, refcountTableOffset: 65_536n });
  });

  it('has, in version 2, no features, whatever follows it', () => {
    const disk = blankQcow2(2 ** 30);
    disk.writeUInt32BE(2, 4);
    disk.fill(0xff, 72, 104);
    expect(readQcow2Fields(disk)).toMatchObject({
      incompatibleFeatures: 0n,
      refcountOrder: 4,
      headerLength: 72,
    });
  });

  it('is 0 where the file ends', () => {
    const head = blankQcow2(2 ** 30).subarray(0, 8);
    expect(readQcow2Fields(head)).toMatchObject({ version: 3, virtualSize: 0n, headerLength: 0 });
  });

  it.each<[string, string, boolean]>([
    ['another file', '464649fb', false],
    ['less than its first word', '514649', false],
    ['its first word', '514649fb', true],
  ])('begins with %s', (_, bytes, is) => expect(isQcow2(Buffer.from(bytes, 'hex'))).toBe(is));
});
