import { describe, expect, test } from 'vitest';
import { isQcow2 } from '../../../src/qcow2.ts';
import { headerBytes, readQcow2Header } from '../../../src/worker/qcow2header.ts';

/** Fields of the header as QEMU's docs/interop/qcow2.rst names them; by default an honest file of 4 clusters. */
interface Fields {
  version?: number;
  backing?: bigint;
  clusterBits?: number;
  size?: bigint;
  crypt?: number;
  l1Entries?: number;
  l1Offset?: bigint;
  refcountOffset?: bigint;
  refcountClusters?: number;
  snapshots?: number;
  snapshotsOffset?: bigint;
  incompatible?: bigint;
  refcountOrder?: number;
  headerLength?: number;
  /** Type, length and padded data of each, from the end of the header. */
  extensions?: [type: number, length: number][];
  fileSize?: number;
  /** Bytes that were read of the file. */
  head?: number;
}

const maxVirtualSize = 2 ** 50;
const MiB = 2 ** 20;

function read(given: Fields): ReturnType<typeof readQcow2Header> {
  const { version = 3, clusterBits = 16, fileSize = 4 * 65_536 } = given;
  const bytes = Buffer.alloc(Math.max(2 * 65_536, 2 ** Math.min(clusterBits, 22)));
  bytes.writeUInt32BE(0x514649fb, 0);
  bytes.writeUInt32BE(version, 4);
  bytes.writeBigUInt64BE(given.backing ?? 0n, 8);
  bytes.writeUInt32BE(clusterBits, 20);
  bytes.writeBigUInt64BE(given.size ?? 2n ** 29n, 24);
  bytes.writeUInt32BE(given.crypt ?? 0, 32);
  bytes.writeUInt32BE(given.l1Entries ?? 1, 36);
  bytes.writeBigUInt64BE(given.l1Offset ?? 0x30000n, 40);
  bytes.writeBigUInt64BE(given.refcountOffset ?? 0x10000n, 48);
  bytes.writeUInt32BE(given.refcountClusters ?? 1, 56);
  bytes.writeUInt32BE(given.snapshots ?? 0, 60);
  bytes.writeBigUInt64BE(given.snapshotsOffset ?? 0n, 64);
  const headerLength = version === 2 ? 72 : (given.headerLength ?? 104);
  if (version !== 2) {
    bytes.writeBigUInt64BE(given.incompatible ?? 0n, 72);
    bytes.writeUInt32BE(given.refcountOrder ?? 4, 96);
    bytes.writeUInt32BE(headerLength, 100);
  }
  let at = headerLength;
  for (const [type, length] of given.extensions ?? []) {
    bytes.writeUInt32BE(type, at);
    bytes.writeUInt32BE(length, at + 4);
    at += 8 + Math.ceil(length / 8) * 8;
  }
  const head = bytes.subarray(0, given.head ?? Math.min(headerBytes, fileSize));
  return readQcow2Header(head, { fileSize, maxVirtualSize });
}

const small = { clusterBits: 9, size: 32_768n, l1Offset: 1024n, refcountOffset: 512n, fileSize: 2_048 };
const big = { fileSize: 2 ** 40 };
const encryption = 0x0537be77;
const other = 7;

describe('a qcow2 header is taken', () => {
  test.each<[string, Fields]>([
    ['as it is', {}],
    ['of version 2', { version: 2 }],
    ['with the smallest clusters, 512 bytes', small],
    [
      'with the largest clusters, 2 MiB',
      { clusterBits: 21, l1Offset: 2n ** 21n, refcountOffset: 2n ** 22n, ...big },
    ],
    ['of the largest disk', { size: 2n ** 50n, l1Entries: 2 ** 21, ...big, clusterBits: 16 }],
    ['with an L1 table that is just large enough', { size: 2n ** 29n * 3n, l1Entries: 3 }],
    ['with an L1 table for the last byte', { size: 2n ** 29n * 2n + 1n, l1Entries: 3 }],
    ['with an L1 table of 32 MiB', { l1Entries: (32 * MiB) / 8, ...big }],
    ['with a refcount table of 8 MiB', { refcountClusters: 128, ...big }],
    ['with an L1 table that ends the file', { fileSize: 0x30000 + 8 }],
    [
      'with a refcount table that ends the file',
      { l1Offset: 0x10000n, refcountOffset: 0x20000n, fileSize: 0x30000 },
    ],
    ['with 65,536 snapshots', { snapshots: 65_536, snapshotsOffset: 1n }],
    ['with snapshots that begin with the last byte', { snapshots: 1, snapshotsOffset: 4n * 65_536n - 1n }],
    ['without snapshots, wherever they would be', { snapshotsOffset: 2n ** 63n }],
    ['of a disk that was not closed', { incompatible: 1n }],
    ['with a compression of its own', { incompatible: 1n << 3n }],
    ['with extended L2 entries', { incompatible: 1n << 4n }],
    ['with refcounts of 64 bits', { refcountOrder: 6 }],
    ['with a header of a whole cluster', { headerLength: 65_536 }],
    ['with a longer header', { headerLength: 112 }],
    ['with an extension that nobody knows', { extensions: [[other, 5]] }],
    ['with an extension up to the end of the cluster', { ...small, extensions: [[other, 512 - 104 - 8]] }],
    [
      'with something like an extension in the next cluster',
      {
        ...small,
        extensions: [
          [other, 400],
          [encryption, 0],
        ],
      },
    ],
    [
      'with something like an extension behind the end mark',
      {
        extensions: [
          [other, 0],
          [0, 0],
          [encryption, 0],
        ],
      },
    ],
    ['where the list ends within what was read', { head: 112 }],
  ])('%s', (_sentence, fields) => {
    const { size = 2n ** 29n, clusterBits = 16, version = 3 } = fields;
    expect(read(fields)).toEqual({ version, virtualSize: Number(size), clusterSize: 2 ** clusterBits });
  });
});

describe('a qcow2 header is refused', () => {
  test.each<[string, Fields, string]>([
    ['that ends a byte too soon', { head: 103 }, 'ends within its header'],
    ['of version 2 that ends a byte too soon', { version: 2, head: 71 }, 'ends within its header'],
    ['of version 1', { version: 1 }, 'has version 1, only 2 and 3 are known'],
    [
      'with a backing file far away',
      { backing: 2n ** 63n },
      'has a backing file; flatten it with qemu-img convert',
    ],
    ['with an encryption that is not known', { crypt: 7 }, 'is encrypted'],
    ['with clusters of 256 bytes', { ...small, clusterBits: 8 }, 'has a cluster size of 2^8 bytes'],
    ['with clusters of 4 MiB', { clusterBits: 22, ...big }, 'has a cluster size of 2^22 bytes'],
    [
      'of a byte more than is taken',
      { size: 2n ** 50n + 1n },
      'is a disk of 1125899906842625 bytes, the largest',
    ],
    [
      'with an L1 table that is one entry too small',
      { size: 2n ** 29n * 3n, l1Entries: 2 },
      'too small for its size',
    ],
    [
      'with an L1 table that lacks the last byte',
      { size: 2n ** 29n * 2n + 1n, l1Entries: 2 },
      'too small for its size',
    ],
    [
      'with an L1 table of one entry more than 32 MiB',
      { l1Entries: (32 * MiB) / 8 + 1, ...big },
      'has a L1 table of 33554440 bytes',
    ],
    [
      'with a refcount table of a cluster more than 8 MiB',
      { refcountClusters: 129, ...big },
      'has a refcount table of',
    ],
    ['with an L1 table in its header', { l1Offset: 0n }, 'has a L1 table at a wrong place'],
    ['with a refcount table in its header', { refcountOffset: 0n }, 'has a refcount table at a wrong place'],
    ['with a crooked refcount table', { refcountOffset: 0x10200n }, 'has a refcount table at a wrong place'],
    [
      'that ends a byte before its L1 table',
      { fileSize: 0x30000 + 7 },
      'ends before its L1 table does; it is cut off',
    ],
    [
      'that ends a byte before its refcount table',
      { l1Offset: 0x10000n, refcountOffset: 0x20000n, fileSize: 0x30000 - 1 },
      'ends before its refcount table does',
    ],
    ['with 65,537 snapshots', { snapshots: 65_537, snapshotsOffset: 1n }, 'claims to hold 65537 snapshots'],
    [
      'with snapshots behind its end',
      { snapshots: 1, snapshotsOffset: 4n * 65_536n },
      'ends before its snapshots',
    ],
    [
      'with the first feature that is not known',
      { incompatible: 1n << 5n },
      'uses features that are not known',
    ],
    ['with a data file and unknown features', { incompatible: 0b100100n }, 'keeps its data in another file'],
    ['that is corrupt and not closed', { incompatible: 0b11n }, 'is marked as corrupt'],
    ['with refcounts of 128 bits', { refcountOrder: 7 }, 'has refcounts of an unknown width'],
    ['with a header that is too short', { headerLength: 96 }, 'has a header of 96 bytes'],
    ['with a crooked header', { headerLength: 108 }, 'has a header of 108 bytes'],
    ['with a header longer than its cluster', { ...small, headerLength: 520 }, 'has a header of 520 bytes'],
    [
      'with an extension a byte beyond its cluster',
      { ...small, extensions: [[other, 512 - 104 - 8 + 1]] },
      'does not end',
    ],
    [
      'with encryption behind another extension',
      {
        extensions: [
          [other, 5],
          [encryption, 0],
        ],
      },
      'is encrypted',
    ],
    [
      'with encryption behind an extension of whole words',
      {
        extensions: [
          [other, 8],
          [encryption, 0],
        ],
      },
      'is encrypted',
    ],
    [
      'with encryption behind an empty extension',
      {
        extensions: [
          [other, 0],
          [encryption, 0],
        ],
      },
      'is encrypted',
    ],
    [
      'with encryption at the end of its cluster',
      {
        ...small,
        extensions: [
          [other, 392],
          [encryption, 0],
        ],
      },
      'is encrypted',
    ],
    ['with encryption in version 2', { version: 2, extensions: [[encryption, 0]] }, 'is encrypted'],
    ['of which no more than the header was read', { head: 104 }, 'has header extensions without end'],
    [
      'of version 2 of which no more than the header was read',
      { version: 2, head: 72 },
      'has header extensions without end',
    ],
    ['whose extensions go on where reading ended', { head: 111 }, 'has header extensions without end'],
  ])('%s', (_sentence, fields, message) => {
    expect(() => read(fields)).toThrow(message);
    expect(() => read(fields)).toThrow(expect.objectContaining({ reason: 'Invalid' }));
  });
});

test('a file is qcow2 by its first four bytes', () => {
  expect(isQcow2(Buffer.from('514649fb', 'hex'))).toBe(true);
  expect(isQcow2(Buffer.from('514649fb00', 'hex'))).toBe(true);
  expect(isQcow2(Buffer.from('514649', 'hex'))).toBe(false);
  expect(isQcow2(Buffer.from('00514649fb', 'hex'))).toBe(false);
  expect(() => readQcow2Header(Buffer.alloc(200), { fileSize: 200, maxVirtualSize })).toThrow(
    'does not begin as one',
  );
  expect(headerBytes).toBe(65_536);
});
