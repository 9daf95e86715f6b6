import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { readDiskBody } from '../../../../src/http/uploads/diskbody.ts';

const disposition = (name: string, fileName?: string) =>
  `Content-Disposition: form-data; name="${name}"${fileName === undefined ? '' : `; filename="${fileName}"`}\r\n\r\n`;
const field = (name: string, value: string) => `--b\r\n${disposition(name)}${value}\r\n`;
const file = (content: string) => `--b\r\n${disposition('file', 'disk.qcow2')}${content}`;
const end = '\r\n--b--\r\n';

/** The body comes in pieces of this many bytes; Content-Length is what it says. */
async function read(
  body: string,
  { pieces = body.length, length = body.length, type = 'multipart/form-data; boundary=b' } = {},
) {
  const bytes = Buffer.from(body);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieces) chunks.push(bytes.subarray(at, at + pieces));
  const stream = Readable.from(chunks);
  const found = await readDiskBody({ contentType: type, contentLength: length, stream, isCut: () => false });
  return { ...found, content: await text(found.content) };
}

describe('the file of a form', () => {
  const disk = 'the disk'.padEnd(512, '.');
  const whole = `${field('name', 'golden')}${field('description', 'a\r\nb')}${file(disk)}${end}`;

  test.each([1, 2, 7, 1000])(
    'is found with its size and the fields before it, in pieces of %i bytes',
    async (pieces) => {
      expect(await read(whole, { pieces })).toMatchObject({
        fields: { name: 'golden', description: 'a\r\nb' },
        fileName: 'disk.qcow2',
        size: 512,
        content: disk,
      });
    },
  );

  test.each<[what: string, parameters: string, fileName: string]>([
    [
      'without quotes, as .NET writes it',
      "name=image; filename=base.img; filename*=utf-8''base.img",
      'base.img',
    ],
    ['that is no ASCII', `name=image; filename="=?utf-8?B?w6Q=?="; filename*=utf-8''%C3%A4.img`, 'ä.img'],
    ['in any order and case', 'FileName="a b.img";Name=image', 'a b.img'],
    ['with a quote in it', String.raw`name="image"; filename="a\"b; c.img"`, 'a"b; c.img'],
    ['of a path', String.raw`filename="C:\dir\base.img"; name="image"`, String.raw`C:\dir\base.img`],
    ['in an unknown character set', `name=image; filename=base.img; filename*=latin1''%E4`, 'base.img'],
  ])('has its name %s', async (_what, parameters, fileName) => {
    const other =
      '--b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=name\r\n\r\ngolden\r\n';
    const headers = `content-disposition: Form-Data; ${parameters}\r\nContent-Type: x/y`;
    const found = await read(`${other}--b\r\n${headers}\r\n\r\n${disk}${end}`);
    expect(found).toMatchObject({ fileName, content: disk, fields: { name: 'golden' } });
  });

  const endings = [
    ['no line break, as fetch of Node.js 18 to 22', '\r\n--b--'],
    ['one line break', end],
    ['two, as form-data-encoder', `${end}\r\n`],
  ] as const;
  test.each(
    endings.flatMap(([what, ending]) => [1, 3, 1000].map((pieces) => [what, pieces, ending] as const)),
  )('is the same where the form ends with %s, in pieces of %i bytes', async (_what, pieces, ending) => {
    const found = await read(`${field('name', 'golden')}${file(disk)}${ending}`, { pieces });
    expect(found).toMatchObject({ content: disk, fields: { name: 'golden' } });
    expect(found.size).toBe(ending === end ? 512 : undefined);
  });

  test('has a size before its end only where that is a number of sectors', async () => {
    expect(await read(`${file('the disk')}${end}`)).toMatchObject({ size: undefined, content: 'the disk' });
    expect(await read(`${file('')}\r\n--b--`)).toMatchObject({ size: undefined, content: '' });
  });

  test('needs no Content-Length', async () => {
    const stream = Readable.from([Buffer.from(whole)]);
    const type = 'multipart/form-data; boundary=b';
    const found = await readDiskBody({ contentType: type, stream, isCut: () => false });
    expect([found.size, await text(found.content)]).toEqual([undefined, disk]);
  });

  test.each(['', '\r\n--b--', '\r\n--b--\r\n', '\r\n--b--\r\n\r\n--b-', `\r\n--b--${' '.repeat(200)}`])(
    'may hold what looks like the end of the form: %j',
    async (content) => {
      for (const pieces of [1, 5, 1000])
        expect((await read(`${file(`x${content}y`)}${end}`, { pieces })).content).toBe(`x${content}y`);
    },
  );

  test.each(['\r\n--b--', `${end}\r\n`])(
    'that was measured and ends otherwise is refused with what to do: %j',
    async (ending) => {
      const odd = 'x'.repeat(512 + end.length - ending.length);
      const sent = read(`${file(odd)}${ending}`);
      await expect(sent).rejects.toThrow('must end with its closing boundary and one line break');
    },
  );

  test('may hold what begins like a boundary, and may be empty', async () => {
    const content = 'x\r\n--bb\r\n--b-\r\ny';
    expect((await read(`${file(content)}${end}`)).content).toBe(content);
    expect(await read(`${file('')}${end}`)).toMatchObject({ size: 0, content: '' });
  });

  test('sets no prototype', async () => {
    const { fields } = await read(`${field('__proto__', 'x')}${file('d')}${end}`);
    expect(Object.keys(fields)).toEqual([]);
    expect(({} as { polluted?: string }).polluted).toBeUndefined();
  });

  test.each<[what: string, body: string, options: object, message: string]>([
    ['a form without a file', `${field('name', 'x').slice(0, -2)}${end}`, {}, 'file: a file is required'],
    [
      'a file that is not the last part',
      `${file('d')}\r\n${field('name', 'x').slice(0, -2)}${end}`,
      {},
      'the file must be the last part',
    ],
    [
      'a file before another part, in pieces',
      `${file('d')}\r\n${field('name', 'x').slice(0, -2)}${end}`,
      { pieces: 3 },
      'the file must be the last part',
    ],
    ['a form that breaks off in its file', file('the di'), { length: 200 }, 'ended before the file did'],
    ['a form without its end', file(disk), {}, 'closing boundary of the form is missing'],
    ['a form that breaks off before it', field('name', 'x'), {}, 'ended before the file'],
    ['a length that leaves no file', `${file('')}${end}`, { length: 20 }, 'ended before the file did'],
    ['a form without a boundary', '', { type: 'multipart/form-data' }, 'without a boundary'],
    [
      'fields of more than 64 KiB',
      `${field('name', 'x'.repeat(70_000))}${file('d')}${end}`,
      { pieces: 4096 },
      'more than 64 KiB',
    ],
  ])('%s is refused', async (_what, body, options, message) => {
    await expect(read(body, options)).rejects.toThrow(message);
  });
});

describe('a raw body', () => {
  test('is the file', async () => {
    const raw = await read('the disk', { type: 'application/octet-stream' });
    expect(raw).toMatchObject({ fields: {}, fileName: '', size: 8, content: 'the disk' });
  });

  test('must not be empty, and needs its length', async () => {
    await expect(read('', { type: 'application/octet-stream' })).rejects.toThrow('body: is required');
    const stream = Readable.from([]);
    const body = readDiskBody({ contentType: 'application/octet-stream', stream, isCut: () => false });
    await expect(body).rejects.toMatchObject({ details: { causes: [{ field: 'Content-Length' }] } });
  });
});
