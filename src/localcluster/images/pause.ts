/** The image of a pod's sandbox container: one static program that sleeps for ever, written out byte by byte. */
import { arch } from 'node:os';
import { Svc3Error } from '../../errors.ts';
import type { Artifact } from '../../registry/artifact.ts';
import { type OciFile, createImage } from './oci.ts';

export const pauseImage = 'localhost/svc3/pause:1';

/** Machine code of `for (;;) pause();`, and the ELF number of the machine. */
const programs: Partial<Record<string, { machine: number; code: string }>> = {
  // mov eax, 34 (pause); syscall; jmp back
  x64: { machine: 0x3e, code: 'b8220000000f05ebf7' },
  // x0…x4 = 0; mov x8, 73 (ppoll); svc 0; branch to the first instruction
  arm64: {
    machine: 0xb7,
    code: '000080d2010080d2020080d2030080d2040080d2280980d2010000d4f9ffff17',
  },
};

const headerSize = 64;
const segmentSize = 56;
const loadAddress = 0x400000n;

/** A static ELF executable of one read-and-execute segment. */
function executable(machine: number, code: Buffer): Buffer {
  const start = headerSize + segmentSize;
  const file = Buffer.alloc(start + code.length);
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]); // 64 bits, little endian, version 1
  file.writeUInt16LE(2, 16); // executable
  file.writeUInt16LE(machine, 18);
  file.writeUInt32LE(1, 20);
  file.writeBigUInt64LE(loadAddress + BigInt(start), 24); // entry point
  file.writeBigUInt64LE(BigInt(headerSize), 32); // the segment table follows the header
  file.writeUInt16LE(headerSize, 52);
  file.writeUInt16LE(segmentSize, 54);
  file.writeUInt16LE(1, 56); // one segment
  file.writeUInt32LE(1, headerSize); // to be loaded
  file.writeUInt32LE(5, headerSize + 4); // read and execute
  file.writeBigUInt64LE(loadAddress, headerSize + 16);
  file.writeBigUInt64LE(loadAddress, headerSize + 24);
  file.writeBigUInt64LE(BigInt(file.length), headerSize + 32);
  file.writeBigUInt64LE(BigInt(file.length), headerSize + 40);
  file.writeBigUInt64LE(0x1000n, headerSize + 48);
  code.copy(file, start);
  return file;
}

/** Of this machine, as images name it. */
export function architectureOfHost(): 'amd64' | 'arm64' {
  return arch() === 'arm64' ? 'arm64' : 'amd64';
}

/** An image whose only process waits. `more`: further files, which make it another image. */
export async function createPauseImage(more: readonly OciFile[] = []): Promise<Artifact> {
  const program = programs[arch()];
  if (program === undefined)
    throw new Svc3Error('InternalError', `no local cluster on the architecture ${arch()}`);
  const content = executable(program.machine, Buffer.from(program.code, 'hex'));
  return createImage({
    files: [{ name: 'pause', content, mode: 0o755 }, ...more],
    architecture: architectureOfHost(),
    entrypoint: ['/pause'],
  });
}
