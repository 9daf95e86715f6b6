/** What the first bytes of a disk file say. */
export type DiskHeader =
  | { kind: 'raw' }
  | {
      kind: 'qcow2';
      version: number;
      virtualSize: number;
      backingFile: boolean;
      dataFile: boolean;
      encrypted: boolean;
    };

const magic = 0x514649fb;
/** Bit 2 of the incompatible features: guest data lies in another file. */
const externalDataFile = 1n << 2n;

/** Reads a disk's header without following anything that it names; needs the first 112 bytes. */
export function readDiskHeader(bytes: Buffer): DiskHeader {
  if (bytes.length < 72 || bytes.readUInt32BE(0) !== magic) return { kind: 'raw' };
  const version = bytes.readUInt32BE(4);
  const features = version >= 3 && bytes.length >= 80 ? bytes.readBigUInt64BE(72) : 0n;
  return {
    kind: 'qcow2',
    version,
    virtualSize: Number(bytes.readBigUInt64BE(24)),
    backingFile: bytes.readBigUInt64BE(8) !== 0n,
    dataFile: (features & externalDataFile) !== 0n,
    encrypted: bytes.readUInt32BE(32) !== 0,
  };
}
