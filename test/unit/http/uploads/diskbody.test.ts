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
  const whole = `${field('name', 'golden')}${field('description', 'a\r\nb')}${file('the disk')}${end}`;

  test.each([1, 2, 7, 1000])(
    'is found with its size and the fields before it, in pieces of %i bytes',
    async (pieces) => {
      expect(await read(whole, { pieces })).toMatchObject({
        fields: { name: 'golden', description: 'a\r\nb' },
        fileName: 'disk.qcow2',
        size: 8,
        content: 'the disk',
      });
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
