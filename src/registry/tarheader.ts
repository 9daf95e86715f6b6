/** Where a file lies in an uncompressed tar archive. */
export interface TarFile {
  readonly name: string;
  readonly offset: number;
  readonly size: number;
}

/** Bytes of a header, and what all content of an archive is padded to. */
export const tarBlock = 512;

/**
 * Finds a regular file by the headers at the beginning of a tar archive; `undefined` where it does not stand there, or the
 * archive has extended headers, which have to be read as a stream.
 */
export function findInTar(head: Buffer, isWanted: (name: string) => boolean): TarFile | undefined {
  for (let at = 0; at + tarBlock <= head.length;) {
    const header = head.subarray(at, at + tarBlock);
    const type = tarType(header);
    const size = tarSize(header);
    const name = tarName(header);
    if (size === undefined || !['0', '\0', '5'].includes(type)) return undefined;
    if (type !== '5' && isWanted(name)) return { name, offset: at + tarBlock, size };
    at += tarBlock + padded(size);
  }
  return undefined;
}

/** Bytes that content of this size takes in an archive. */
export function padded(size: number): number {
  return Math.ceil(size / tarBlock) * tarBlock;
}

export function tarType(header: Buffer): string {
  return header.toString('latin1', 156, 157);
}

export function tarName(header: Buffer): string {
  // GNU's own format has times there.
  const prefix = header.toString('latin1', 257, 263) === 'ustar ' ? '' : tarText(header.subarray(345, 500));
  return `${prefix}/${tarText(header.subarray(0, 100))}`.replace(/^\//, '');
}

/** Up to the first zero byte. */
export function tarText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString('utf8', 0, end === -1 ? field.length : end);
}

/** Octal, or base 256 where the first bit is set. */
export function tarSize(header: Buffer): number | undefined {
  const field = header.subarray(124, 136);
  if (((field[0] ?? 0) & 0x80) !== 0) {
    const size = field.readBigUInt64BE(4);
    return size <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(size) : undefined;
  }
  return octal(field);
}

/** Whether the header's sum is that of its bytes: what is no archive has none. */
export function hasTarSum(header: Buffer): boolean {
  // The sum is made with spaces in its own field.
  let sum = 8 * 0x20;
  for (let at = 0; at < tarBlock; at += 1) if (at < 148 || at >= 156) sum += header[at] ?? 0;
  return octal(header.subarray(148, 156)) === sum;
}

function octal(field: Buffer): number | undefined {
  const digits = tarText(field).trim();
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : undefined;
}
