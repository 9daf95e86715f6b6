/** One file of the root directory. */
export interface IsoFile {
  readonly name: string;
  readonly content: Buffer;
}

const sector = 2048;
const firstSector = 16;
const pvd = firstSector;
const pathTableSectors = 19;
const primaryRoot = 23;
const jolietRoot = 24;
const firstFile = 25;

/**
 * An ISO 9660 image with a Joliet tree and files in its root only: what a NoCloud seed needs. No clock in it, so that
 * the same files make the same bytes. ECMA-119; Joliet for the names with small letters and dashes.
 */
export function writeIso(volume: string, files: readonly IsoFile[]): Buffer {
  const placed: PlacedFile[] = [];
  let at = firstFile;
  for (const file of files) {
    placed.push({ ...file, extent: at });
    at += Math.max(1, Math.ceil(file.content.length / sector));
  }
  const image = Buffer.alloc(at * sector);
  const put = (sectorNumber: number, bytes: Buffer) => bytes.copy(image, sectorNumber * sector);
  put(pvd, descriptor(1, volume, at, primaryRoot));
  put(pvd + 1, descriptor(2, volume, at, jolietRoot));
  put(pvd + 2, Buffer.from('\xffCD001\x01', 'latin1'));
  put(pathTableSectors, pathTable(primaryRoot, false));
  put(pathTableSectors + 1, pathTable(primaryRoot, true));
  put(pathTableSectors + 2, pathTable(jolietRoot, false));
  put(pathTableSectors + 3, pathTable(jolietRoot, true));
  put(
    primaryRoot,
    directory(primaryRoot, placed, (name) => Buffer.from(`${name.toUpperCase()};1`, 'latin1')),
  );
  put(jolietRoot, directory(jolietRoot, placed, ucs2));
  for (const file of placed) put(file.extent, file.content);
  return image;
}

interface PlacedFile extends IsoFile {
  readonly extent: number;
}

function descriptor(type: 1 | 2, volume: string, sectors: number, root: number): Buffer {
  const bytes = Buffer.alloc(sector);
  const joliet = type === 2;
  const text = (offset: number, length: number, value: string) => {
    const encoded = joliet ? ucs2(value.padEnd(length / 2)) : Buffer.from(value.padEnd(length), 'latin1');
    encoded.copy(bytes, offset, 0, length);
  };
  bytes.write(`${String.fromCodePoint(type)}CD001\u0001`, 0, 'latin1');
  text(8, 32, '');
  text(40, 32, volume);
  both32(bytes, 80, sectors);
  if (joliet) bytes.write('%/E', 88, 'latin1');
  both16(bytes, 120, 1);
  both16(bytes, 124, 1);
  both16(bytes, 128, sector);
  both32(bytes, 132, 10);
  const table = joliet ? pathTableSectors + 2 : pathTableSectors;
  bytes.writeUInt32LE(table, 140);
  bytes.writeUInt32BE(table + 1, 148);
  record(root, sector, 2, Buffer.from([0])).copy(bytes, 156);
  for (const [offset, length] of [
    [190, 128],
    [318, 128],
    [446, 128],
    [574, 128],
  ] as const)
    text(offset, length, '');
  // Volume dates "not specified": sixteen zeros in ASCII and offset 0.
  for (const offset of [813, 830, 847, 864]) bytes.write('0'.repeat(16), offset, 'latin1');
  bytes[881] = 1;
  return bytes;
}

function pathTable(root: number, bigEndian: boolean): Buffer {
  const bytes = Buffer.alloc(10);
  bytes[0] = 1;
  if (bigEndian) bytes.writeUInt32BE(root, 2);
  else bytes.writeUInt32LE(root, 2);
  if (bigEndian) bytes.writeUInt16BE(1, 6);
  else bytes.writeUInt16LE(1, 6);
  return bytes;
}

function directory(root: number, files: readonly PlacedFile[], encode: (name: string) => Buffer): Buffer {
  const entries = files
    .map((file) => ({ name: encode(file.name), file }))
    .sort((a, b) => Buffer.compare(a.name, b.name))
    .map(({ name, file }) => record(file.extent, file.content.length, 0, name));
  const bytes = Buffer.concat([
    record(root, sector, 2, Buffer.from([0])),
    record(root, sector, 2, Buffer.from([1])),
    ...entries,
  ]);
  if (bytes.length > sector) throw new Error('too many files for one directory sector');
  return bytes;
}

function record(extent: number, size: number, flags: number, name: Buffer): Buffer {
  const length = 33 + name.length + ((name.length + 1) % 2);
  const bytes = Buffer.alloc(length);
  bytes[0] = length;
  both32(bytes, 2, extent);
  both32(bytes, 10, size);
  // 1 January 2000, so that no reader stumbles over month 0.
  Buffer.from([100, 1, 1, 0, 0, 0, 0]).copy(bytes, 18);
  bytes[25] = flags;
  both16(bytes, 28, 1);
  bytes[32] = name.length;
  name.copy(bytes, 33);
  return bytes;
}

function ucs2(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16();
}

function both16(bytes: Buffer, offset: number, value: number): void {
  bytes.writeUInt16LE(value, offset);
  bytes.writeUInt16BE(value, offset + 2);
}

function both32(bytes: Buffer, offset: number, value: number): void {
  bytes.writeUInt32LE(value, offset);
  bytes.writeUInt32BE(value, offset + 4);
}
