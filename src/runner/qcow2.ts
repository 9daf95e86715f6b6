import { open } from 'node:fs/promises';

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

/** What of a file `readDiskHeader` needs. */
const headerBytes = 112;

/** The header of the disk in a file. */
export async function headerOf(path: string): Promise<DiskHeader> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headerBytes), 0, headerBytes, 0);
    return readDiskHeader(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

/** Why a guest does not get a qcow2 file: QEMU would open other files, or cannot read it. Undefined where it may. */
export function qcow2Refusal(header: Extract<DiskHeader, { kind: 'qcow2' }>): string | undefined {
  if (header.version !== 2 && header.version !== 3) return `has the unknown qcow2 version ${header.version}`;
  if (header.backingFile) return 'needs a backing file; flatten it with qemu-img convert';
  if (header.dataFile) return 'keeps its data in an external file; flatten it with qemu-img convert';
  return header.encrypted ? 'is encrypted' : undefined;
}
