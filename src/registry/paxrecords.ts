/** What an extended header says of the file behind it. */
export interface TarExtension {
  readonly name?: string;
  readonly size?: number;
  /** What the file is called that GNU tar has packed without its holes, under another name. */
  readonly sparseName?: string;
}

const [space, newline, zero, nine] = [0x20, 0x0a, 0x30, 0x39];
const keys = {
  path: Buffer.from('path='),
  size: Buffer.from('size='),
  sparseName: Buffer.from('GNU.sparse.name='),
};

/**
 * `path`, `size` and `GNU.sparse.name` of an extended header of POSIX, records of the form `<length> <key>=<value>\n`. The last one of a key holds. The others are
 * passed over by their lengths and made to no text: there may be a hundred thousand.
 *
 * @returns undefined where it has another form.
 */
export function readPaxRecords(bytes: Buffer): TarExtension | undefined {
  const nothing = bytes.subarray(0, 0);
  let [path, digits, sparseName] = [nothing, nothing, nothing];
  for (let at = 0; at < bytes.length;) {
    const { start, end } = recordAt(bytes, at);
    if (bytes[start - 1] !== space || end <= start || end > bytes.length || bytes[end - 1] !== newline)
      return undefined;
    if (isOf(bytes, start, keys.path)) path = bytes.subarray(start + keys.path.length, end - 1);
    if (isOf(bytes, start, keys.size)) digits = bytes.subarray(start + keys.size.length, end - 1);
    if (isOf(bytes, start, keys.sparseName))
      sparseName = bytes.subarray(start + keys.sparseName.length, end - 1);
    at = end;
  }
  const size = integer(digits);
  // An empty value takes back what was said before.
  if (digits.length > 0 && size === undefined) return undefined;
  return {
    ...(path.length === 0 ? {} : { name: path.toString('utf8') }),
    ...(size === undefined ? {} : { size }),
    ...(sparseName.length === 0 ? {} : { sparseName: sparseName.toString('utf8') }),
  };
}

/** Where the key of the record at this offset begins, and the record ends, as its length has it. */
function recordAt(bytes: Buffer, at: number): { readonly start: number; readonly end: number } {
  let length = 0;
  let digit = at;
  // Eight digits are more than any header is long.
  for (; digit < at + 8; digit += 1) {
    const byte = bytes[digit] ?? space;
    if (byte < zero || byte > nine) break;
    length = length * 10 + byte - zero;
  }
  return { start: digit + 1, end: at + length };
}

function isOf(bytes: Buffer, start: number, key: Buffer): boolean {
  for (let at = 0; at < key.length; at += 1) if (bytes[start + at] !== key[at]) return false;
  return true;
}

function integer(bytes: Buffer): number | undefined {
  // Whatever is longer is no size that a number holds.
  const digits = bytes.toString('latin1', 0, 17);
  const value = /^\d{1,16}$/.test(digits) ? Number(digits) : Number.NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}
