import { Svc3Error } from '../errors.ts';

/** What matters of a qcow2 header, after every field that could harm has been looked at. */
export interface Qcow2Header {
  readonly version: 2 | 3;
  readonly virtualSize: number;
  readonly clusterSize: number;
}

/** Enough of a file to hold header and extensions of any honest image. */
export const headerBytes = 64 * 1024;

const magic = 0x514649fb;
const lengths = { version2: 72, version3: 104 } as const;
/** QEMU's own limits. */
const limits = { l1Bytes: 32 * 2 ** 20, refcountTableBytes: 8 * 2 ** 20, snapshots: 65_536 } as const;
const features = { corrupt: 1n << 1n, externalData: 1n << 2n, known: 0b11111n } as const;
const extensions = {
  end: 0,
  backingFormat: 0xe2792aca,
  externalData: 0x44415441,
  encryption: 0x0537be77,
} as const;

function refuse(why: string): never {
  throw new Svc3Error('Invalid', `the qcow2 file ${why}`);
}

export function isQcow2(head: Buffer): boolean {
  return head.length >= 4 && head.readUInt32BE(0) === magic;
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
  if (head.length < lengths.version2) refuse('ends within its header');
  const version = head.readUInt32BE(4);
  if (version !== 2 && version !== 3) refuse(`has version ${version}, only 2 and 3 are known`);
  if (version === 3 && head.length < lengths.version3) refuse('ends within its header');
  if (head.readBigUInt64BE(8) !== 0n) refuse('has a backing file; flatten it with qemu-img convert');
  if (head.readUInt32BE(32) !== 0) refuse('is encrypted');
  const clusterBits = head.readUInt32BE(20);
  if (clusterBits < 9 || clusterBits > 21) refuse(`has a cluster size of 2^${clusterBits} bytes`);
  const clusterSize = 2 ** clusterBits;
  const virtualSize = sizeOf(head.readBigUInt64BE(24), maxVirtualSize);
  checkTables(head, { clusterSize, virtualSize, fileSize });
  const headerLength = version === 3 ? checkVersion3(head, clusterSize) : lengths.version2;
  checkExtensions(head, headerLength, Math.min(clusterSize, fileSize));
  return { version, virtualSize, clusterSize };
}

function sizeOf(size: bigint, maxVirtualSize: number): number {
  if (size === 0n) refuse('is a disk of 0 bytes');
  if (size > BigInt(maxVirtualSize))
    refuse(`is a disk of ${size} bytes, the largest that is taken has ${maxVirtualSize}`);
  return Number(size);
}

function checkTables(
  head: Buffer,
  { clusterSize, virtualSize, fileSize }: { clusterSize: number; virtualSize: number; fileSize: number },
): void {
  const l1Entries = head.readUInt32BE(36);
  const needed = Math.ceil(virtualSize / (clusterSize * (clusterSize / 8)));
  if (l1Entries < needed) refuse('has an L1 table that is too small for its size');
  checkTable('L1 table', head.readBigUInt64BE(40), l1Entries * 8, {
    most: limits.l1Bytes,
    clusterSize,
    fileSize,
  });
  const refcountBytes = head.readUInt32BE(56) * clusterSize;
  if (refcountBytes === 0) refuse('has no refcount table');
  checkTable('refcount table', head.readBigUInt64BE(48), refcountBytes, {
    most: limits.refcountTableBytes,
    clusterSize,
    fileSize,
  });
  const snapshots = head.readUInt32BE(60);
  if (snapshots > limits.snapshots) refuse(`claims to hold ${snapshots} snapshots`);
  if (snapshots > 0 && head.readBigUInt64BE(64) >= BigInt(fileSize)) refuse('ends before its snapshots');
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

function checkVersion3(head: Buffer, clusterSize: number): number {
  const incompatible = head.readBigUInt64BE(72);
  if ((incompatible & features.externalData) !== 0n) refuse('keeps its data in another file');
  if ((incompatible & features.corrupt) !== 0n) refuse('is marked as corrupt');
  if ((incompatible & ~features.known) !== 0n) refuse('uses features that are not known');
  if (head.readUInt32BE(96) > 6) refuse('has refcounts of an unknown width');
  const headerLength = head.readUInt32BE(100);
  if (headerLength < lengths.version3 || headerLength % 8 !== 0 || headerLength > clusterSize)
    refuse(`has a header of ${headerLength} bytes`);
  return headerLength;
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
