import { open } from 'node:fs/promises';
import { isQcow2, qcow2Features, qcow2HeaderBytes, readQcow2Fields } from '../qcow2.ts';

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

/** Reads a disk's header, the first 104 bytes of its file, without following anything that it names. */
export function readDiskHeader(bytes: Buffer): DiskHeader {
  if (bytes.length < qcow2HeaderBytes.version2 || !isQcow2(bytes)) return { kind: 'raw' };
  const fields = readQcow2Fields(bytes);
  return {
    kind: 'qcow2',
    version: fields.version,
    virtualSize: Number(fields.virtualSize),
    backingFile: fields.backingFileOffset !== 0n,
    dataFile: (fields.incompatibleFeatures & qcow2Features.externalData) !== 0n,
    encrypted: fields.encryption !== 0,
  };
}

/** The header of the disk in a file. */
export async function headerOf(path: string): Promise<DiskHeader> {
  const file = await open(path);
  try {
    const length = qcow2HeaderBytes.version3;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, 0);
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
