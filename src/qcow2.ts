/**
 * Where what lies in the header of a qcow2 file (docs/interop/qcow2.rst of QEMU). Nothing is judged here: what an untrusted upload
 * may not have says `worker/qcow2header.ts`, what a guest is not given `runner/qcow2.ts`.
 */

export const qcow2Magic = 0x514649fb;

/** Bytes of a header without extensions; that of version 3 says its own length, which may be more. */
export const qcow2HeaderBytes = { version2: 72, version3: 104 } as const;

/** Bits of `incompatibleFeatures`. */
export const qcow2Features = { corrupt: 1n << 1n, externalData: 1n << 2n, known: 0b11111n } as const;

/** As they stand in the file. Offsets are in bytes, 0 for none. */
export interface Qcow2Fields {
  readonly version: number;
  readonly backingFileOffset: bigint;
  /** A cluster has two to this power bytes. */
  readonly clusterBits: number;
  /** Bytes that a guest sees. */
  readonly virtualSize: bigint;
  /** 0: none. */
  readonly encryption: number;
  readonly l1Entries: number;
  readonly l1Offset: bigint;
  readonly refcountTableOffset: bigint;
  readonly refcountTableClusters: number;
  readonly snapshots: number;
  readonly snapshotsOffset: bigint;
  readonly incompatibleFeatures: bigint;
  /** A refcount has two to this power bits. */
  readonly refcountOrder: number;
  readonly headerLength: number;
}

/** Whether a file that begins with these bytes says that it is one. */
export function isQcow2(head: Buffer): boolean {
  return head.length >= 4 && head.readUInt32BE(0) === qcow2Magic;
}

/** Reads a file's first bytes; what is not among them is 0. Version 2 has none of the last three fields, and what stands for them. */
export function readQcow2Fields(head: Buffer): Qcow2Fields {
  const bytes = Buffer.alloc(qcow2HeaderBytes.version3);
  head.copy(bytes);
  const version = bytes.readUInt32BE(4);
  return {
    version,
    backingFileOffset: bytes.readBigUInt64BE(8),
    clusterBits: bytes.readUInt32BE(20),
    virtualSize: bytes.readBigUInt64BE(24),
    encryption: bytes.readUInt32BE(32),
    l1Entries: bytes.readUInt32BE(36),
    l1Offset: bytes.readBigUInt64BE(40),
    refcountTableOffset: bytes.readBigUInt64BE(48),
    refcountTableClusters: bytes.readUInt32BE(56),
    snapshots: bytes.readUInt32BE(60),
    snapshotsOffset: bytes.readBigUInt64BE(64),
    ...(version >= 3
      ? {
          incompatibleFeatures: bytes.readBigUInt64BE(72),
          refcountOrder: bytes.readUInt32BE(96),
          headerLength: bytes.readUInt32BE(100),
        }
      : { incompatibleFeatures: 0n, refcountOrder: 4, headerLength: qcow2HeaderBytes.version2 }),
  };
}
