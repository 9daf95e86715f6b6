/** Where a file lies in an uncompressed tar archive. */
export interface TarFile {
  readonly name: string;
  readonly offset: number;
  readonly size: number;
}

const block = 512;

/**
 * Finds a regular file by the headers at the beginning of a tar archive; `undefined` where it does not stand there, or the
 * archive has extended headers, which have to be read as a stream.
 */
export function findInTar(head: Buffer, isWanted: (name: string) => boolean): TarFile | undefined {
  for (let at = 0; at + block <= head.length;) {
    const header = head.subarray(at, at + block);
    const type = header.toString('latin1', 156, 157);
    const size = sizeOf(header.subarray(124, 136));
    const name = `${text(header.subarray(345, 500))}/${text(header.subarray(0, 100))}`.replace(/^\//, '');
    if (size === undefined || !['0', '\0', '5'].includes(type)) return undefined;
    if (type !== '5' && isWanted(name)) return { name, offset: at + block, size };
    at += block + Math.ceil(size / block) * block;
  }
  return undefined;
}

function text(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end === -1 ? field.length : end);
}

/** Octal, or base 256 where the first bit is set. */
function sizeOf(field: Buffer): number | undefined {
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const size = field.readBigUInt64BE(4);
    return size <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(size) : undefined;
  }
  const octal = text(field).trim();
  return /^[0-7]+$/.test(octal) ? Number.parseInt(octal, 8) : undefined;
}
