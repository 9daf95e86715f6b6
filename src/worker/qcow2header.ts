import { Svc3Error } from '../errors.ts';
import { isQcow2, type Qcow2Fields, qcow2Features, qcow2HeaderBytes, readQcow2Fields } from '../qcow2.ts';

/** What matters of a qcow2 header, after every field that could harm has been looked at. */
export interface Qcow2Header {
  readonly version: 2 | 3;
  readonly virtualSize: number;
  readonly clusterSize: number;
}

/** Enough of a file to hold header and extensions of any honest image. */
export const headerBytes = 64 * 1024;

/** QEMU's own limits. */
const limits = { l1Bytes: 32 * 2 ** 20, refcountTableBytes: 8 * 2 ** 20, snapshots: 65_536 } as const;
const extensions = {
  end: 0,
  backingFormat: 0xe2792aca,
  externalData: 0x44415441,
  encryption: 0x0537be77,
} as const;

function refuse(why: string): never {
  throw new Svc3Error('Invalid', `the qcow2 file ${why}`);
}

/**
 * Reads the header of an untrusted qcow2 file from its first bytes (`headerBytes` of them, or the whole file).
 *
 * @throws Invalid with a sentence: it names another file (backing, external data), is encrypted, damaged or of a version
 * that is not known, or its virtual size is 0 or larger than `maxVirtualSize`. Nothing else is ever thrown.
 */
export function readQcow2Header(
  head: Buffer,
  { fileSize, maxVirtualSize }: { fileSize: number; maxVirtualSize: number },
): Qcow2Header {
  if (!isQcow2(head)) refuse('does not begin as one');
  if (head.length < qcow2HeaderBytes.version2) refuse('ends within its header');
  const fields = readQcow2Fields(head);
  const { version, clusterBits } = fields;
  if (version !== 2 && version !== 3) refuse(`has version ${version}, only 2 and 3 are known`);
  if (version === 3 && head.length < qcow2HeaderBytes.version3) refuse('ends within its header');
  if (fields.backingFileOffset !== 0n) refuse('has a backing file; flatten it with qemu-img convert');
  if (fields.encryption !== 0) refuse('is encrypted');
  if (clusterBits < 9 || clusterBits > 21) refuse(`has a cluster size of 2^${clusterBits} bytes`);
  const clusterSize = 2 ** clusterBits;
  const virtualSize = sizeOf(fields.virtualSize, maxVirtualSize);
  checkTables(fields, { clusterSize, virtualSize, fileSize });
  if (version === 3) checkVersion3(fields, clusterSize);
  checkExtensions(head, fields.headerLength, Math.min(clusterSize, fileSize));
  return { version, virtualSize, clusterSize };
}

function sizeOf(size: bigint, maxVirtualSize: number): number {
  if (size === 0n) refuse('is a disk of 0 bytes');
  if (size > BigInt(maxVirtualSize))
    refuse(`is a disk of ${size} bytes, the largest that is taken has ${maxVirtualSize}`);
  return Number(size);
}

function checkTables(
  fields: Qcow2Fields,
  { clusterSize, virtualSize, fileSize }: { clusterSize: number; virtualSize: number; fileSize: number },
): void {
  const { l1Entries, snapshots } = fields;
  const needed = Math.ceil(virtualSize / (clusterSize * (clusterSize / 8)));
  if (l1Entries < needed) refuse('has an L1 table that is too small for its size');
  checkTable('L1 table', fields.l1Offset, l1Entries * 8, {
    most: limits.l1Bytes,
    clusterSize,
    fileSize,
  });
  const refcountBytes = fields.refcountTableClusters * clusterSize;
  if (refcountBytes === 0) refuse('has no refcount table');
  checkTable('refcount table', fields.refcountTableOffset, refcountBytes, {
    most: limits.refcountTableBytes,
    clusterSize,
    fileSize,
  });
  if (snapshots > limits.snapshots) refuse(`claims to hold ${snapshots} snapshots`);
  if (snapshots > 0 && fields.snapshotsOffset >= BigInt(fileSize)) refuse('ends before its snapshots');
}

function checkTable(
  what: string,
  offset: bigint,
  bytes: number,
  { most, clusterSize, fileSize }: { most: number; clusterSize: number; fileSize: number },
): void {
  if (bytes > most) refuse(`has a ${what} of ${bytes} bytes`);
  if (offset === 0n || offset % BigInt(clusterSize) !== 0n) refuse(`has a ${what} at a wrong place`);
  if (offset + BigInt(bytes) > BigInt(fileSize)) refuse(`ends before its ${what} does; it is cut off`);
}

function checkVersion3(
  { incompatibleFeatures: features, refcountOrder, headerLength }: Qcow2Fields,
  clusterSize: number,
): void {
  if ((features & qcow2Features.externalData) !== 0n) refuse('keeps its data in another file');
  if ((features & qcow2Features.corrupt) !== 0n) refuse('is marked as corrupt');
  if ((features & ~qcow2Features.known) !== 0n) refuse('uses features that are not known');
  if (refcountOrder > 6) refuse('has refcounts of an unknown width');
  if (headerLength < qcow2HeaderBytes.version3 || headerLength % 8 !== 0 || headerLength > clusterSize)
    refuse(`has a header of ${headerLength} bytes`);
}

/** Extensions lie between header and end of the first cluster; an honest list is short. */
function checkExtensions(head: Buffer, start: number, end: number): void {
  const last = Math.min(end, head.length);
  for (let at = start; at + 8 <= last;) {
    const type = head.readUInt32BE(at);
    const length = head.readUInt32BE(at + 4);
    if (type === extensions.end) return;
    if (type === extensions.backingFormat) refuse('names the format of a backing file');
    if (type === extensions.externalData) refuse('names another file for its data');
    if (type === extensions.encryption) refuse('is encrypted');
    if (length > last - at - 8) refuse('has a header extension that does not end');
    at += 8 + Math.ceil(length / 8) * 8;
  }
  if (end > head.length) refuse('has header extensions without end');
}
