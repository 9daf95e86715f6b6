import { Svc3Error } from '../errors.ts';
import { isQcow2 } from '../qcow2.ts';

/** Files that people mistake for a disk, by their first bytes. */
interface Foreign {
  readonly at: number;
  /** Hexadecimal. */
  readonly bytes: string;
  readonly name: string;
  readonly hint: string;
}

const convert = 'convert it with qemu-img convert -O qcow2';
const unpack = 'unpack it first';
const hex = (text: string): string => Buffer.from(text).toString('hex');
/** The dictionaries of the presets of lzma(1), low byte first: 256 KiB, then 1 to 64 MiB. With the file's first three bytes alone a raw disk could begin. */
const lzmaDictionaries = ['0400', '1000', '2000', '4000', '8000', '0001', '0002', '0004'];
const foreign: readonly Foreign[] = [
  { at: 0, bytes: hex('KDMV'), name: 'a VMDK disk', hint: convert },
  { at: 0, bytes: hex('COWD'), name: 'a VMDK disk', hint: convert },
  { at: 0, bytes: 'bebafeca00000000', name: 'a VMDK disk', hint: convert },
  { at: 0, bytes: hex('# Disk Descriptor'), name: 'the descriptor of a VMDK disk', hint: convert },
  { at: 0, bytes: hex('vhdxfile'), name: 'a VHDX disk', hint: convert },
  { at: 0, bytes: hex('conectix'), name: 'a VHD disk', hint: convert },
  { at: 64, bytes: '7f10dabe', name: 'a VDI disk', hint: convert },
  { at: 0, bytes: hex('QED\0'), name: 'a QED disk', hint: convert },
  { at: 0, bytes: hex('WithoutFreeSpace'), name: 'a Parallels disk', hint: convert },
  { at: 0, bytes: hex('WithouFreSpacExt'), name: 'a Parallels disk', hint: convert },
  { at: 0, bytes: '4c554b53babe', name: 'an encrypted disk (LUKS)', hint: 'decrypt it first' },
  { at: 0, bytes: '1f8b', name: 'a gzip file', hint: unpack },
  { at: 0, bytes: 'fd377a585a00', name: 'an xz file', hint: unpack },
  { at: 0, bytes: '28b52ffd', name: 'a zstd file', hint: unpack },
  { at: 0, bytes: '425a68', name: 'a bzip2 file', hint: unpack },
  { at: 0, bytes: '504b0304', name: 'a zip file', hint: unpack },
  { at: 0, bytes: '377abcaf271c', name: 'a 7-Zip file', hint: unpack },
  { at: 0, bytes: '526172211a07', name: 'a rar file', hint: unpack },
  { at: 0, bytes: '04224d18', name: 'an lz4 file', hint: unpack },
  { at: 0, bytes: '02214c18', name: 'an lz4 file', hint: unpack },
  { at: 0, bytes: hex('LZIP'), name: 'an lzip file', hint: unpack },
  { at: 0, bytes: '894c5a4f000d0a1a0a', name: 'an lzop file', hint: unpack },
  // Of compress(1) as it packs unless told otherwise: its magic alone has two bytes, which are x86 code as well.
  { at: 0, bytes: '1f9d90', name: 'a compress (.Z) file', hint: unpack },
  ...lzmaDictionaries.map((size) => ({
    at: 0,
    bytes: `5d0000${size}`,
    name: 'an lzma file',
    hint: unpack,
  })),
  {
    at: 257,
    bytes: hex('ustar'),
    name: 'a tar archive (such as .ova)',
    hint: 'unpack it and convert the disk in it',
  },
];

/** Where the first volume descriptor of ISO 9660 has its name. */
const isoMagicAt = 32_769;

function holds(head: Buffer, at: number, bytes: Buffer): boolean {
  return head.subarray(at, at + bytes.length).equals(bytes);
}

/**
 * What a file is by its first bytes; its name is no argument. From here on the format is forced: nobody probes again.
 *
 * @throws Invalid with a sentence that says what the file is instead.
 */
export function detectFormat(head: Buffer, kind: 'Image' | 'ISO'): 'qcow2' | 'raw' | 'iso' {
  if (head.length === 0) throw new Svc3Error('Invalid', 'the file is empty');
  if (kind === 'ISO') {
    if (holds(head, isoMagicAt, Buffer.from('CD001'))) return 'iso';
    throw new Svc3Error('Invalid', 'the file is not an ISO 9660 medium');
  }
  if (isQcow2(head)) return 'qcow2';
  const known = foreign.find(({ at, bytes }) => holds(head, at, Buffer.from(bytes, 'hex')));
  if (known !== undefined)
    throw new Svc3Error('Invalid', `the file is ${known.name}, not qcow2 or raw; ${known.hint}`);
  return 'raw';
}
