import { Readable } from 'node:stream';
import { Svc3Error, invalidField } from '../../errors.ts';
import type { Upload } from '../call/route.ts';

/** The file of an upload. */
export interface DiskBody {
  readonly fields: Readonly<Record<string, string>>;
  /** As the client named it; empty for a raw upload. */
  readonly fileName: string;
  /** Known before the first byte, with which the image layer begins that the file becomes; undefined where only the end will tell. */
  readonly size: number | undefined;
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
  /** Undefined: a field. */
  readonly fileName: string | undefined;
}

/** Parameters of a header, quoted or not, by their names in lower case. */
function parametersOf(text: string): ReadonlyMap<string, string> {
  const found = text.matchAll(/;\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\\r\n]|\\.)*)"|([^\s;]*))/g);
  return new Map(
    Array.from(found, ([, name = '', quoted, plain = '']) => [
      name.toLowerCase(),
      quoted?.replaceAll('\\"', '"') ?? plain,
    ]),
  );
}

/** `utf-8''a%20b` (RFC 8187), as clients write what is not ASCII; undefined where it is in another character set, or is none. */
function decodedOf(extended: string | undefined): string | undefined {
  const encoded = /^utf-8'[^']*'(.*)$/i.exec(extended ?? '')?.[1];
  if (encoded === undefined) return undefined;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function partOf(headers: string): Part {
  const disposition = /^content-disposition:\s*form-data\s*(;.*)$/im.exec(headers)?.[1] ?? '';
  const parameters = parametersOf(disposition);
  const fileName = decodedOf(parameters.get('filename*')) ?? parameters.get('filename');
  return { name: parameters.get('name') ?? '', fileName };
}

/** Lets the rest of a body pass, so that a client that still sends can read its refusal. */
export function passUnread(stream: Readable): void {
  // Whoever has read a part of it may still listen for more, and a stream does not flow meanwhile.
  stream.on('data', () => undefined);
  stream.resume();
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
      if (this.#held.length > maxPreludeBytes)
        throw broken('more than 64 KiB stand in front of the file, which is the part with a filename');
      const next = await this.#chunks.next();
      if (next.done === true) throw broken('ended before the file');
      this.#held = Buffer.concat([this.#held, next.value]);
    }
  }
}

/** White space behind the closing boundary, at most. */
const maxBlankBytes = 64;

/** Bytes of white space behind the mark, where nothing else is; undefined where it does not end so. */
function blankBehind(bytes: Buffer, mark: Buffer): number | undefined {
  const end = bytes.subarray(Math.max(0, bytes.length - mark.length - maxBlankBytes));
  const at = end.lastIndexOf(mark);
  if (at === -1) return undefined;
  const behind = end.subarray(at + mark.length);
  return behind.toString('latin1').trim() === '' ? behind.length : undefined;
}

/**
 * The file's bytes: all in front of the last boundary of the form, behind which nothing but white space comes. Some clients end a form with its closing
 * boundary, some with a line break behind it, some with two.
 */
async function* fileBytes(first: Buffer, chunks: Chunks, delimiter: Buffer): AsyncGenerator<Buffer> {
  const closing = Buffer.concat([delimiter, Buffer.from('--')]);
  const holdsNextPart = searchFor(Buffer.concat([delimiter, crlf]));
  let held = first;
  for (;;) {
    const blank = blankBehind(held, closing);
    const kept = blank === undefined ? closing.length - 1 : closing.length + blank;
    const part = held.subarray(0, Math.max(0, held.length - kept));
    if (holdsNextPart(part)) throw broken('the file must be the last part of the form');
    if (part.length > 0) yield part;
    const next = await chunks.next();
    if (next.done === true && blank !== undefined) return;
    if (next.done === true)
      throw broken('ended before the file did: the closing boundary of the form is missing');
    held = Buffer.concat([held.subarray(part.length), next.value]);
  }
}

/** The same bytes, which have to be as many as were measured. */
async function* exactly(bytes: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  let left = size;
  for await (const part of bytes) {
    left -= part.length;
    if (left < 0) break;
    yield part;
  }
  if (left !== 0)
    throw broken(
      'the form must end with its closing boundary and one line break; or send the raw disk with ?name=',
    );
}

/** Disks have whole sectors. */
const sectorBytes = 512;

/**
 * Bytes of the file of a form, if it ends as most clients end theirs: with its closing boundary and one line break. Before its end nothing tells that it does, so a
 * size is believed only where it is that of a disk.
 */
function measured(length: number, inFront: number, delimiter: Buffer): number | undefined {
  const size = length - inFront - delimiter.length - '--\r\n'.length;
  if (size < -crlf.length) throw broken('ended before the file did');
  return size < 0 || size % sectorBytes !== 0 ? undefined : size;
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

async function formBody(upload: Upload): Promise<DiskBody> {
  const chunks = upload.stream.iterator({ destroyOnReturn: false }) as Chunks;
  const discard = (): void => {
    void chunks.return?.();
    passUnread(upload.stream);
  };
  try {
    return { ...(await fileOf(upload, chunks)), discard };
  } catch (error) {
    discard();
    throw error;
  }
}

async function fileOf(
  { contentType, contentLength: length }: Upload,
  chunks: Chunks,
): Promise<Omit<DiskBody, 'discard'>> {
  const boundary = boundaryOf(contentType);
  const prelude = new Prelude(chunks);
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  await prelude.until(Buffer.from(`--${boundary}\r\n`));
  const fields: Record<string, string> = {};
  for (;;) {
    const headers = await prelude.until(Buffer.from('\r\n\r\n'));
    const { name, fileName } = partOf(headers.toString('utf8'));
    if (fileName !== undefined) {
      const size = length === undefined ? undefined : measured(length, prelude.offset, delimiter);
      const bytes = fileBytes(prelude.held, chunks, delimiter);
      const content = size === undefined ? bytes : exactly(bytes, size);
      return { fields, fileName, size, content: Readable.from(content, { objectMode: false }) };
    }
    const value = await prelude.until(delimiter);
    if (name !== '__proto__') fields[name] = value.toString('utf8');
    const next = await prelude.until(crlf);
    if (next.toString() === '--') throw invalidField('file', 'a file is required', 'FieldValueRequired');
  }
}

/** Finds the file of an upload: the last part of a form, or the whole body, of which Content-Length says the size. */
export async function readDiskBody(upload: Upload): Promise<DiskBody> {
  if (/^multipart\/form-data/i.test(upload.contentType)) return await formBody(upload);
  const { contentLength: length } = upload;
  if (length === undefined)
    throw new Svc3Error('BadRequest', 'Content-Length: is required for an upload', {
      details: { causes: [{ field: 'Content-Length', message: 'is required for an upload' }] },
    });
  if (length === 0) throw invalidField('body', 'is required', 'FieldValueRequired');
  return {
    fields: {},
    fileName: '',
    size: length,
    content: upload.stream,
    discard: () => passUnread(upload.stream),
  };
}
