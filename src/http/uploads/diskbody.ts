import { Readable } from 'node:stream';
import { Svc3Error, invalidField } from '../../errors.ts';
import type { Upload } from '../server/route.ts';

/** The file of an upload, whose size is known before its first byte: the image layer it becomes has to begin with it. */
export interface DiskBody {
  readonly fields: Readonly<Record<string, string>>;
  /** As the client named it; empty for a raw upload. */
  readonly fileName: string;
  readonly size: number;
  readonly content: Readable;
  /** Lets the rest of the body pass unread, so that a client that still sends can read its refusal. */
  discard(): void;
}

/** Form fields and part headers in front of the file. */
const maxPreludeBytes = 64 * 1024;
const crlf = Buffer.from('\r\n');

function broken(message: string): Svc3Error {
  const text = `body: ${message}`;
  return new Svc3Error('BadRequest', text, { details: { causes: [{ field: 'body', message }] } });
}

function boundaryOf(contentType: string): string {
  const [, quoted, plain] = /boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw broken('multipart/form-data without a boundary');
  return boundary;
}

interface Part {
  readonly name: string;
  readonly fileName: string | undefined;
}

function partOf(headers: string): Part {
  const disposition = /^content-disposition:\s*form-data;(.*)$/im.exec(headers)?.[1] ?? '';
  const name = /[;\s]name="([^"\r\n]*)"/i.exec(` ${disposition}`)?.[1] ?? '';
  const fileName = /[;\s]filename="([^"\r\n]*)"/i.exec(` ${disposition}`)?.[1];
  return { name, fileName };
}

type Chunks = AsyncIterator<Buffer>;

/** Reads parts until the file's content begins; `offset` counts the bytes of the body in front of it. */
class Prelude {
  #held: Buffer = Buffer.alloc(0);
  offset = 0;
  readonly #chunks: Chunks;

  constructor(chunks: Chunks) {
    this.#chunks = chunks;
  }

  get held(): Buffer {
    return this.#held;
  }

  /** The bytes up to the mark, which is taken too. */
  async until(mark: Buffer): Promise<Buffer> {
    for (;;) {
      const at = this.#held.indexOf(mark);
      if (at !== -1) {
        const taken = this.#held.subarray(0, at);
        this.#held = this.#held.subarray(at + mark.length);
        this.offset += at + mark.length;
        return taken;
      }
      if (this.#held.length > maxPreludeBytes) throw broken('more than 64 KiB stand in front of the file');
      const next = await this.#chunks.next();
      if (next.done === true) throw broken('ended before the file');
      this.#held = Buffer.concat([this.#held, next.value]);
    }
  }
}

/** The file's bytes, and then nothing but the end of the form. */
async function* fileBytes(
  held: Buffer,
  chunks: Chunks,
  { size, delimiter }: { readonly size: number; readonly delimiter: Buffer },
): AsyncGenerator<Buffer> {
  const end = endOf(delimiter);
  const holdsNextPart = searchFor(Buffer.concat([delimiter, crlf]));
  let left = size;
  let rest = held;
  let tail: Buffer = Buffer.alloc(0);
  for (;;) {
    const part = rest.subarray(0, left);
    left -= part.length;
    if (holdsNextPart(part)) throw broken('the file must be the last part of the form');
    if (part.length > 0) yield part;
    if (left === 0) tail = Buffer.concat([tail, rest.subarray(part.length)]);
    if (tail.length >= end.length) break;
    const next = await chunks.next();
    if (next.done === true) break;
    rest = next.value;
  }
  if (left > 0) throw broken('ended before the file did');
  if (!tail.equals(end)) throw broken('the file must be the last part of the form');
}

function endOf(delimiter: Buffer): Buffer {
  return Buffer.concat([delimiter, Buffer.from('--\r\n')]);
}

/** Tells of pieces that come one after the other whether the mark is in them, also from one piece to the next. */
function searchFor(mark: Buffer): (piece: Buffer) => boolean {
  let before: Buffer = Buffer.alloc(0);
  return (piece) => {
    const seam = Buffer.concat([before, piece.subarray(0, mark.length - 1)]);
    const both = piece.length < mark.length ? Buffer.concat([before, piece]) : piece;
    before = Buffer.from(both.subarray(Math.max(0, both.length - mark.length + 1)));
    return seam.includes(mark) || piece.includes(mark);
  };
}

async function formBody(upload: Upload, length: number): Promise<DiskBody> {
  const chunks = upload.stream.iterator({ destroyOnReturn: false }) as Chunks;
  const discard = (): void => {
    void chunks.return?.();
    upload.stream.resume();
  };
  try {
    return { ...(await fileOf(upload, length, chunks)), discard };
  } catch (error) {
    discard();
    throw error;
  }
}

async function fileOf(upload: Upload, length: number, chunks: Chunks): Promise<Omit<DiskBody, 'discard'>> {
  const boundary = boundaryOf(upload.contentType);
  const prelude = new Prelude(chunks);
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  await prelude.until(Buffer.from(`--${boundary}\r\n`));
  const fields: Record<string, string> = {};
  for (;;) {
    const headers = await prelude.until(Buffer.from('\r\n\r\n'));
    const { name, fileName } = partOf(headers.toString('utf8'));
    if (fileName !== undefined) {
      const size = length - prelude.offset - endOf(delimiter).length;
      if (size < 0) throw broken('ended before the file did');
      return {
        fields,
        fileName,
        size,
        content: Readable.from(fileBytes(prelude.held, chunks, { size, delimiter }), { objectMode: false }),
      };
    }
    const value = await prelude.until(delimiter);
    if (name !== '__proto__') fields[name] = value.toString('utf8');
    const next = await prelude.until(crlf);
    if (next.toString() === '--') throw invalidField('file', 'a file is required', 'FieldValueRequired');
  }
}

/** Finds the file of an upload: the last part of a form, or the whole body. Content-Length is needed to know its size. */
export async function readDiskBody(upload: Upload): Promise<DiskBody> {
  const { contentLength: length } = upload;
  if (length === undefined) {
    throw new Svc3Error('BadRequest', 'Content-Length: is required for an upload', {
      details: { causes: [{ field: 'Content-Length', message: 'is required for an upload' }] },
    });
  }
  if (/^multipart\/form-data/i.test(upload.contentType)) return await formBody(upload, length);
  if (length === 0) throw invalidField('body', 'is required', 'FieldValueRequired');
  return {
    fields: {},
    fileName: '',
    size: length,
    content: upload.stream,
    discard: () => upload.stream.resume(),
  };
}
