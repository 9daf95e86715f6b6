import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { streamFromTar, type StreamedFile } from '../../../src/registry/tarstream.ts';
import { paxHeader, tarEnd, tarEntry } from '../../support/tarheaders.ts';

const isDisk = (name: string) => name.startsWith('disk/');
const enough = () => ({ headers: 1_000, bytes: 10 * 2 ** 20 });
const disk = tarEntry({ content: 'bytes' });

/** In pieces of so many bytes. */
function archive(bytes: Buffer, piece = bytes.length): Readable {
  const pieces = Array.from({ length: Math.ceil(bytes.length / piece) }, (_, at) =>
    bytes.subarray(at * piece, (at + 1) * piece),
  );
  return Readable.from(pieces, { objectMode: false });
}

const find = (entries: Buffer[], budget = enough(), piece?: number): Promise<StreamedFile | undefined> =>
  streamFromTar(archive(Buffer.concat([...entries, tarEnd]), piece), isDisk, budget, 'it');

async function found(...entries: Buffer[]): Promise<[string, string] | undefined> {
  const file = await find(entries);
  return file && [file.name, await text(file.stream)];
}

const bytes = ['disk/disk.raw', 'bytes'];

describe('a file that is read from a tar archive', () => {
  test.each([1, 7, 512, 513, 100_000])('comes in pieces of %i bytes as well', async (piece) => {
    const entries = [
      tarEntry({ name: 'README', content: 'x'.repeat(700) }),
      paxHeader({ a: 'b' }),
      disk,
      disk,
    ];
    const file = await find(entries, enough(), piece);
    expect([file?.name, file?.size, await text(file!.stream)]).toEqual([...bytes.slice(0, 1), 5, 'bytes']);
    await expect(file?.whole).resolves.toBeUndefined();
  });

  test('may be empty', async () => {
    expect(await found(tarEntry({}))).toEqual(['disk/disk.raw', '']);
  });

  const long = `disk/${'a'.repeat(300)}`;
  test.each<[string, Buffer[], string[] | undefined]>([
    ['of the old format', [tarEntry({ content: 'bytes', magic: '', type: '\0' })], bytes],
    [
      'of GNU’s format, which has times where others have a part of the name',
      [tarEntry({ content: 'bytes', magic: 'ustar ', prefix: '14000000000' })],
      bytes,
    ],
    [
      'with a part of the name in front',
      [tarEntry({ name: 'x', prefix: 'disk', content: 'y' })],
      ['disk/x', 'y'],
    ],
    [
      'whose name is in an extended header',
      [paxHeader({ path: long }), tarEntry({ name: 'x', content: 'y' })],
      [long, 'y'],
    ],
    [
      'whose name is in GNU’s header',
      [tarEntry({ type: 'L', content: `${long}\0` }), tarEntry({ name: 'x', content: 'y' })],
      [long, 'y'],
    ],
    [
      'whose size is in an extended header',
      [
        paxHeader({ size: '5' }),
        Buffer.concat([tarEntry({ size: '0' }), Buffer.from('bytes'.padEnd(512, '\0'))]),
      ],
      bytes,
    ],
    [
      'behind a file whose size is in an extended header',
      [paxHeader({ size: '1' }), tarEntry({ name: 'README', size: '0' }), Buffer.alloc(512), disk],
      bytes,
    ],
    [
      'behind one whose extended header is not its own',
      [paxHeader({ path: 'README' }), tarEntry({ content: 'other' }), disk],
      bytes,
    ],
    [
      'whose extended header says nothing of its name',
      [paxHeader({ path: '', atime: '1', 'SCHILY.xattr.user.path=': 'path=' }), disk],
      bytes,
    ],
    [
      'between whose headers there is another',
      [
        paxHeader({ path: long }),
        paxHeader({ size: '1' }, 'g'),
        tarEntry({ type: 'K', content: 'link\0' }),
        tarEntry({ name: 'x', content: 'y' }),
      ],
      [long, 'y'],
    ],
    [
      'though a global header says another name and size',
      [paxHeader({ path: 'x', size: '1' }, 'g'), disk],
      bytes,
    ],
    [
      'behind a folder and a link whose sizes are not theirs',
      [
        tarEntry({ name: 'disk', type: '5', size: '1000' }),
        tarEntry({ name: 'link', type: '2', size: '1000' }),
        disk,
      ],
      bytes,
    ],
    ['behind one without a size', [tarEntry({ name: 'pipe', type: '6', size: ' ' }), disk], bytes],
    [
      'behind one of a kind that nobody knows',
      [tarEntry({ name: 'x', type: 'Z', content: 'y' }), disk],
      bytes,
    ],
    ['that is a link', [tarEntry({ type: '1' }), tarEntry({ type: '2' })], undefined],
    ['behind the end of the archive', [tarEnd, disk], undefined],
  ])('%s', async (_what, entries, expected) => {
    expect(await found(...entries)).toEqual(expected);
  });
});

describe('an archive', () => {
  test.each<[string, Buffer]>([
    ['a sum that is another', Buffer.concat([disk.subarray(0, 100), Buffer.from('x'), disk.subarray(101)])],
    ['a size that is none', tarEntry({ size: '9' })],
    ['a size that no number holds', tarEntry({ size: '\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff' })],
    ['a length that is too large', tarEntry({ type: 'x', content: '10 path=\n9 path=b\n' })],
    ['a length that is too small', tarEntry({ type: 'x', content: '1 path=a\n' })],
    ['a length of no digits', tarEntry({ type: 'x', content: 'x path=a\n' })],
    ['a length that leads beyond', tarEntry({ type: 'x', content: '99999999 path=a\n' })],
    ['a length without end', tarEntry({ type: 'x', content: '1'.repeat(512) })],
    ['a record without its last byte', tarEntry({ type: 'x', content: '8 path=a' })],
    ['an extended size that is none', paxHeader({ size: '-1' })],
    ['an extended size that no number holds', paxHeader({ size: '9'.repeat(16) })],
  ])('with %s is none', async (_what, header) => {
    await expect(find([header, disk])).rejects.toMatchObject({
      reason: 'BadGateway',
      message: 'it is no tar archive',
    });
  });

  /** As GNU tar writes a file with holes in its own format: with so many blocks of its map behind the header. */
  function sparse(name: string, mapBlocks: number): Buffer {
    const header = tarEntry({ name, type: 'S', content: 'x' });
    const [head, content] = [header.subarray(0, 512), header.subarray(512)];
    head[482] = mapBlocks === 0 ? 0 : 1;
    head.write('        ', 148);
    head.write(
      `${head
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, '0')}\0 `,
      148,
    );
    const maps = Array.from({ length: mapBlocks }, (_, at) => {
      const map = Buffer.alloc(512);
      map[504] = at + 1 < mapBlocks ? 1 : 0;
      return map;
    });
    return Buffer.concat([head, ...maps, content]);
  }

  test.each([0, 1, 3])(
    'is found behind a file with holes whose map has %i further blocks',
    async (blocks) => {
      expect(await found(sparse('README', blocks), disk)).toEqual(bytes);
    },
  );

  test.each([
    ['GNU’s format', sparse('disk/disk.raw', 1)],
    [
      'the one of POSIX',
      Buffer.concat([
        paxHeader({ 'GNU.sparse.name': 'disk/disk.raw' }),
        tarEntry({ name: 'GNUSparseFile.0/disk.raw', content: 'x' }),
      ]),
    ],
  ])('that is packed without its holes in %s is refused in a sentence', async (_format, entry) => {
    await expect(find([entry])).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'it has its disk without its holes, as `tar --sparse` packs it; pack it without that option',
    });
  });

  test('is read no further than its budget allows', async () => {
    const other = tarEntry({ name: 'README', content: 'x' });
    const most = { headers: 3, bytes: 2 * 1024 + 512 };
    expect(await find([other, other, disk], { ...most })).toMatchObject({ name: 'disk/disk.raw' });
    const less = (change: object) => find([other, other, disk], { ...most, ...change });
    await expect(less({ headers: 2 })).rejects.toThrow('it has too many files before its disk');
    await expect(less({ bytes: most.bytes - 1 })).rejects.toThrow('it has too many bytes before its disk');
    // Without a disk all of it is.
    await expect(find([other], { headers: 3, bytes: 1024 + 1023 })).rejects.toThrow('too many bytes');
    expect(await find([other], { headers: 3, bytes: 1024 + 1024 })).toBeUndefined();
  });

  test.each(['x', 'L'])(
    'has no extended header %s of more than a MiB, whatever is behind that',
    async (type) => {
      const largest = 2 ** 20;
      const source = archive(tarEntry({ type, size: (largest + 1).toString(8) }));
      await expect(streamFromTar(source, isDisk, enough(), 'it')).rejects.toMatchObject({
        reason: 'Invalid',
        message: 'it has an extended header of more than 1048576 bytes',
      });
      expect(source.destroyed).toBe(true);
      const path = 'disk/disk.raw';
      const head = `${largest} comment=`;
      const filled = type === 'L' ? `${path}\0`.padEnd(largest, 'x') : `${head.padEnd(largest - 1, 'x')}\n`;
      expect(await found(tarEntry({ type, content: filled }), disk)).toEqual(bytes);
    },
  );

  test('fails as its stream does', async () => {
    const fault = new Error('cut off');
    async function* breaking() {
      yield disk.subarray(0, 514);
      throw fault;
    }
    const source = Readable.from(breaking(), { objectMode: false });
    const file = await streamFromTar(source, isDisk, enough(), 'it');
    await expect(text(file!.stream)).rejects.toBe(fault);
    await expect(file?.whole).rejects.toBe(fault);
  });
});
