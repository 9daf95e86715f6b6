export interface HeaderFields {
  readonly name?: string;
  readonly type?: string;
  /** Octal digits, or a field of 12 bytes. Default: of `content`. */
  readonly size?: string;
  readonly content?: Buffer | string;
  /** Of the format; default POSIX's. */
  readonly magic?: string;
  readonly prefix?: string;
}

/** An entry of a tar archive as it lies there: its header with these fields, and its content, padded. Nothing of it has to make sense. */
export function tarEntry({
  name = 'disk/disk.raw',
  type = '0',
  content = '',
  magic = 'ustar\0',
  prefix = '',
  ...given
}: HeaderFields): Buffer {
  const bytes = Buffer.from(content);
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write(given.size ?? bytes.length.toString(8).padStart(11, '0'), 124);
  header.write(type, 156);
  header.write(`${magic}00`, 257);
  header.write(prefix, 345);
  header.fill(' ', 148, 156);
  const sum = header.reduce((all, byte) => all + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);
}

/** An extended header of POSIX. */
export function paxHeader(records: Readonly<Record<string, string>>, type = 'x'): Buffer {
  const content = Object.entries(records).map(([key, value]) => record(key, value));
  return tarEntry({ name: 'pax', type, content: content.join('') });
}

function record(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(rest);
  while (String(length).length + Buffer.byteLength(rest) !== length) length += 1;
  return `${length}${rest}`;
}

export const tarEnd = Buffer.alloc(1024);

/**
 * What takes minutes to whoever copies a global header for each extended one behind it: a global header of so many bytes, a record in
 * every eight of them, and extended headers.
 */
export function manyHeaders(globalBytes: number, extendedHeaders: number): Buffer {
  const keys = Array.from(
    { length: globalBytes / 8 },
    (_, key) => `8 ${key.toString(36).padStart(4, '0')}=\n`,
  );
  const global = tarEntry({ name: 'pax', type: 'g', content: keys.join('') });
  const extended = paxHeader({ a: '' });
  return Buffer.concat([global, ...Array.from({ length: extendedHeaders }, () => extended)]);
}
