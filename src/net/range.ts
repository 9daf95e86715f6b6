import { Svc3Error } from '../errors.ts';

export interface ByteRange {
  readonly start: number;
  /** Inclusive. */
  readonly end: number;
}

/**
 * The one range that a `Range` header asks for (RFC 9110, 14.2), cut to the size in bytes; undefined, for the whole, without a header, for several ranges and for
 * another unit.
 *
 * @throws Svc3Error RangeNotSatisfiable where it begins behind the end, or ends before it begins
 */
export function parseRange(header: string | undefined, size: number): ByteRange | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (match === null || (match[1] === '' && match[2] === '')) return undefined;
  const [, first = '', last = ''] = match;
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (start >= size || start > end)
    throw new Svc3Error('RangeNotSatisfiable', `Range: the file has ${size} bytes`);
  return { start, end };
}
