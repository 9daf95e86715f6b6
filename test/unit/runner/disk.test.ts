import { describe, expect, test } from 'vitest';
import { bootKind } from '../../../src/runner/bootsector.ts';
import { Disk } from '../../../src/runner/disk.ts';
import { checkGrows, resizeReply, roundDiskSize, sizeOnImage } from '../../../src/runner/disksize.ts';
import { readDiskHeader } from '../../../src/runner/qcow2.ts';
import { parseRange } from '../../../src/net/range.ts';

function qcow2(change: (bytes: Buffer) => void = () => undefined): Buffer {
  const bytes = Buffer.alloc(112);
  bytes.write('QFI\u00fb', 0, 'latin1');
  bytes.writeUInt32BE(3, 4);
  bytes.writeBigUInt64BE(10n * 1024n ** 3n, 24);
  change(bytes);
  return bytes;
}

describe('the header of a disk', () => {
  test.each<[string, Buffer, object]>([
    [
      'a plain qcow2',
      qcow2(),
      {
        kind: 'qcow2',
        version: 3,
        virtualSize: 10 * 1024 ** 3,
        backingFile: false,
        dataFile: false,
        encrypted: false,
      },
    ],
    ['a backing file', qcow2((bytes) => bytes.writeBigUInt64BE(512n, 8)), { backingFile: true }],
    ['an external data file', qcow2((bytes) => bytes.writeBigUInt64BE(4n, 72)), { dataFile: true }],
    ['encryption', qcow2((bytes) => bytes.writeUInt32BE(2, 32)), { encrypted: true }],
    [
      'version 2, whose features lie elsewhere',
      qcow2((bytes) => {
        bytes.writeUInt32BE(2, 4);
        bytes.writeBigUInt64BE(4n, 72);
      }),
      { version: 2, dataFile: false },
    ],
    ['something else', Buffer.from('no qcow2 at all'.repeat(10)), { kind: 'raw' }],
    ['nothing', Buffer.alloc(0), { kind: 'raw' }],
    ['a cut-off header', qcow2().subarray(0, 60), { kind: 'raw' }],
  ])('tells %s', (_sentence, bytes, expected) => {
    expect(readDiskHeader(bytes)).toMatchObject(expected);
  });
});

describe('the firmware by the first sector', () => {
  // What Windows Vista, and what Windows 7 and all later ones begin with; what is behind it has the language of the installation.
  const [vista, windows] = ['1001', '0e01'].map((jump) =>
    Buffer.from(
      `33c08ed0bc007c8ec08ed8be007cbf0006b90002fcf3a450681c06cbfbb90400bdbe07807e00007c0b0f85${jump}83c510e2f1cd18`,
      'hex',
    ),
  );
  // The code of FreeBSD that finds its loader in a GPT, with a message that Windows has too.
  const pmbr = Buffer.concat([Buffer.from('fc31c08ec0', 'hex'), Buffer.from('Invalid partition table\0')]);
  const syslinux = Buffer.from('33c0fa8ed88ed0bc007c89e606578ec0', 'hex');

  function sector(options: {
    code?: boolean | Buffer | undefined;
    table?: number;
    signature?: boolean;
    active?: number;
  }): Buffer {
    const bytes = Buffer.alloc(512);
    if (options.code === true) bytes[0] = 0xeb;
    else if (options.code instanceof Buffer) options.code.copy(bytes);
    if (options.table !== undefined) bytes[450] = options.table;
    if (options.active !== undefined) bytes[446 + 16 * options.active] = 0x80;
    if (options.signature !== false) bytes.writeUInt16LE(0xaa55, 510);
    return bytes;
  }
  test.each([
    ['a GPT disk without boot code', sector({ table: 0xee }), 'uefi'],
    ['a GPT disk that a BIOS can boot too', sector({ table: 0xee, code: true }), 'bios'],
    ['a GPT disk of Windows', sector({ table: 0xee, code: windows }), 'uefi'],
    ['a GPT disk of Windows Vista', sector({ table: 0xee, code: vista }), 'uefi'],
    [
      'a GPT disk with the code of Windows and a partition for it',
      sector({ table: 0xee, code: windows, active: 3 }),
      'bios',
    ],
    ['an MBR disk of Windows', sector({ table: 0x07, code: windows, active: 0 }), 'bios'],
    ['a GPT disk of FreeBSD', sector({ table: 0xee, code: pmbr }), 'bios'],
    ['a GPT disk with syslinux', sector({ table: 0xee, code: syslinux }), 'bios'],
    ['an MBR disk', sector({ table: 0x83, code: true }), 'bios'],
    ['an empty disk', Buffer.alloc(512), 'bios'],
    ['a disk without a signature', sector({ table: 0xee, signature: false }), 'bios'],
    ['a disk of less than a sector', Buffer.alloc(10), 'bios'],
  ])('%s', (_sentence, bytes, kind) => {
    expect(bootKind(bytes)).toBe(kind);
  });
});

describe('a new size', () => {
  test('is rounded up to whole MiB', () => {
    expect([1, 1024 ** 2, 1024 ** 2 + 1].map(roundDiskSize)).toEqual([1024 ** 2, 1024 ** 2, 2 * 1024 ** 2]);
  });

  test.each([
    ['of the image, which is no whole MiB', 2 ** 20 + 512, 2 ** 20 + 512],
    ['less than the image', 1, 2 ** 20 + 512],
    ['more than the image', 2 ** 20 + 1024, 2 * 2 ** 20],
  ])('is that of the image where no more is asked for, else whole MiB: %s', (_what, asked, bytes) => {
    expect(sizeOnImage(asked, 2 ** 20 + 512)).toBe(bytes);
  });

  test('of an image that is no whole sector has that sector', () => {
    expect([0, 1000, 1024, 1025].map((asked) => sizeOnImage(asked, 1000))).toEqual([
      1024,
      1024,
      1024,
      2 ** 20,
    ]);
  });

  test('smaller than the disk is refused with both sizes, the same is not', () => {
    expect(() => checkGrows(10, 20)).toThrow('a disk can only grow: it has 20 bytes, 10 were asked for');
    expect(() => checkGrows(20, 20)).not.toThrow();
  });

  test('says what to do where the guest could not grow its file system', () => {
    expect(resizeReply(5, { grown: true, why: '' })).toMatchObject({ fileSystemGrown: true });
    expect(resizeReply(5, { grown: false, why: 'no guest agent answers' }).message).toContain(
      '(no guest agent answers); grow the partition',
    );
  });
});

test('a disk does not grow until the last copy of it has ended', async () => {
  const asleep = { current: { memory: {} } } as unknown as ConstructorParameters<typeof Disk>[1];
  const disk = new Disk({ folders: { state: '/nowhere' } } as never, asleep, {} as never);
  const grown = () => disk.resize(2 ** 30, undefined);
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  disk.hold(first.promise);
  disk.hold(second.promise);
  first.resolve();
  await expect(grown()).rejects.toThrow('the disk is being copied');
  second.reject(new Error('the copy has failed'));
  await disk.free();
  await expect(grown()).rejects.toThrow('the VM is suspended on its disk');
});

describe('a range of an export', () => {
  test.each([
    ['no header', undefined, undefined],
    ['another unit', 'lines=1-2', undefined],
    ['several ranges', 'bytes=0-1,4-5', undefined],
    ['nothing at all', 'bytes=-', undefined],
    ['the first bytes', 'bytes=0-9', { start: 0, end: 9 }],
    ['everything from a place on', 'bytes=90-', { start: 90, end: 99 }],
    ['the last bytes', 'bytes=-10', { start: 90, end: 99 }],
    ['more than there is at the end', 'bytes=-1000', { start: 0, end: 99 }],
    ['beyond the end', 'bytes=50-500', { start: 50, end: 99 }],
  ])('%s', (_sentence, header, range) => {
    expect(parseRange(header, 100)).toEqual(range);
  });

  test.each(['bytes=100-', 'bytes=5-4'])('%s is refused', (header) => {
    expect(() => parseRange(header, 100)).toThrow('the file has 100 bytes');
  });
});
