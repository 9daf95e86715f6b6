import { describe, expect, test } from 'vitest';
import { detectFormat } from '../../../src/worker/diskformat.ts';

function bytesAt(at: number, text: string): Buffer {
  const head = Buffer.alloc(40_000);
  head.write(text, at, 'latin1');
  return head;
}

describe('the format of a file', () => {
  test.each<[string, Buffer, 'Image' | 'ISO', string]>([
    ['begins as qcow2', bytesAt(0, 'QFI\xfb'), 'Image', 'qcow2'],
    ['begins as nothing that is known', bytesAt(0, '\xeb\x63\x90'), 'Image', 'raw'],
    ['holds only zeros', Buffer.alloc(10), 'Image', 'raw'],
    ['has a volume descriptor', bytesAt(32_769, 'CD001'), 'ISO', 'iso'],
    ['holds a magic elsewhere', bytesAt(1, 'KDMV'), 'Image', 'raw'],
    ['has the word for a tar archive elsewhere', bytesAt(256, 'ustar'), 'Image', 'raw'],
    ['has a boot sector', bytesAt(510, '\x55\xaa'), 'Image', 'raw'],
    ['begins as x86 code that pops flags', bytesAt(0, '\x1f\x9d\xfa'), 'Image', 'raw'],
    ['begins as lzma with a dictionary of no size', bytesAt(0, '\x5d'), 'Image', 'raw'],
    ['ends as a fixed VHD', bytesAt(39_488, 'conectix'), 'Image', 'raw'],
    ['holds half a magic', Buffer.from('vhdx'), 'Image', 'raw'],
    ['ends with its volume descriptor', bytesAt(32_769, 'CD001').subarray(0, 32_774), 'ISO', 'iso'],
    ['is a hybrid medium taken as a disk', bytesAt(32_769, 'CD001'), 'Image', 'raw'],
  ])('that %s is told by its bytes', (_what, head, kind, format) => {
    expect(detectFormat(head, kind)).toBe(format);
  });

  test.each<[string, Buffer, 'Image' | 'ISO', string]>([
    ['VMDK', bytesAt(0, 'KDMV'), 'Image', 'a VMDK disk, not qcow2 or raw; convert it'],
    ['VMDK descriptors', bytesAt(0, '# Disk DescriptorFile'), 'Image', 'descriptor of a VMDK disk'],
    ['VHDX', bytesAt(0, 'vhdxfile'), 'Image', 'a VHDX disk'],
    ['VHD', bytesAt(0, 'conectix'), 'Image', 'a VHD disk'],
    ['VDI', bytesAt(64, '\x7f\x10\xda\xbe'), 'Image', 'a VDI disk'],
    ['LUKS', bytesAt(0, 'LUKS\xba\xbe'), 'Image', 'an encrypted disk (LUKS)'],
    ['gzip', bytesAt(0, '\x1f\x8b'), 'Image', 'a gzip file, not qcow2 or raw; unpack it first'],
    ['xz', bytesAt(0, '\xfd7zXZ\0'), 'Image', 'an xz file'],
    ['zstd', bytesAt(0, '\x28\xb5\x2f\xfd'), 'Image', 'a zstd file'],
    [
      'QED',
      bytesAt(0, 'QED\0'),
      'Image',
      'a QED disk, not qcow2 or raw; convert it with qemu-img convert -O qcow2',
    ],
    ['VMDK, sparse as of ESX', bytesAt(0, 'COWD'), 'Image', 'a VMDK disk'],
    ['VMDK, space-efficient', bytesAt(0, '\xbe\xba\xfe\xca\0\0\0\0'), 'Image', 'a VMDK disk'],
    ['Parallels', bytesAt(0, 'WithoutFreeSpace'), 'Image', 'a Parallels disk'],
    ['Parallels, extended', bytesAt(0, 'WithouFreSpacExt'), 'Image', 'a Parallels disk'],
    ['7-Zip', bytesAt(0, '7z\xbc\xaf\x27\x1c'), 'Image', 'a 7-Zip file, not qcow2 or raw; unpack it first'],
    ['rar', bytesAt(0, 'Rar!\x1a\x07\x01\0'), 'Image', 'a rar file'],
    ['rar before 5.0', bytesAt(0, 'Rar!\x1a\x07\0'), 'Image', 'a rar file'],
    ['lz4', bytesAt(0, '\x04\x22\x4d\x18'), 'Image', 'an lz4 file'],
    ['lz4, legacy', bytesAt(0, '\x02\x21\x4c\x18'), 'Image', 'an lz4 file'],
    ['lzma', bytesAt(0, '\x5d\0\0\x80\0\xff'), 'Image', 'an lzma file'],
    ['lzma -0', bytesAt(0, '\x5d\0\0\x04\0\xff'), 'Image', 'an lzma file'],
    ['lzma -9', bytesAt(0, '\x5d\0\0\0\x04\xff'), 'Image', 'an lzma file'],
    ['lzip', bytesAt(0, 'LZIP\x01'), 'Image', 'an lzip file'],
    ['lzop', bytesAt(0, '\x89LZO\0\r\n\x1a\n'), 'Image', 'an lzop file'],
    ['compress', bytesAt(0, '\x1f\x9d\x90'), 'Image', 'a compress (.Z) file'],
    ['bzip2', bytesAt(0, 'BZh9'), 'Image', 'a bzip2 file'],
    ['zip', bytesAt(0, 'PK\x03\x04'), 'Image', 'a zip file'],
    [
      'tar of POSIX, as OVA',
      bytesAt(257, 'ustar\x0000'),
      'Image',
      'a tar archive (such as .ova), not qcow2 or raw; unpack it and convert the disk in it',
    ],
    ['tar of GNU', bytesAt(257, 'ustar  \0'), 'Image', 'a tar archive'],
    ['a tar archive as an ISO', bytesAt(257, 'ustar'), 'ISO', 'not an ISO 9660 medium'],
    ['LUKS, with what to do', bytesAt(0, 'LUKS\xba\xbe'), 'Image', 'decrypt it first'],
    ['a gzip file of two bytes', Buffer.from('1f8b', 'hex'), 'Image', 'a gzip file'],
    ['nothing as an ISO', Buffer.alloc(0), 'ISO', 'the file is empty'],
    [
      'an ISO that ends within its name',
      bytesAt(32_769, 'CD001').subarray(0, 32_773),
      'ISO',
      'not an ISO 9660',
    ],
    ['an ISO whose name is elsewhere', bytesAt(32_768, 'CD001'), 'ISO', 'not an ISO 9660'],
    ['nothing', Buffer.alloc(0), 'Image', 'the file is empty'],
    ['a disk as an ISO', bytesAt(0, 'QFI\xfb'), 'ISO', 'not an ISO 9660 medium'],
  ])('%s is refused by its name', (_what, head, kind, sentence) => {
    expect(() => detectFormat(head, kind)).toThrow(sentence);
    expect(() => detectFormat(head, kind)).toThrow(expect.objectContaining({ reason: 'Invalid' }));
  });
});
