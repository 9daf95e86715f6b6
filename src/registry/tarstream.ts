import { Readable } from 'node:stream';
import { Svc3Error } from '../errors.ts';
import { Gathered } from '../net/gathered.ts';
import { readPaxRecords, type TarExtension } from './paxrecords.ts';
import { hasTarSum, padded, tarBlock, tarName, tarSize, tarText, tarType } from './tarheader.ts';

/**
 * Most bytes of an extended header: what Go's archive/tar takes, and so the kubelet's container runtimes. Most honest ones have a few dozen
 * bytes, those of files with extended attributes some kilobytes.
 */
const longestExtension = 2 ** 20;

/** What may still be read of archives without finding the file; it is counted down. */
export interface TarBudget {
  headers: number;
  bytes: number;
}

export interface StreamedFile {
  readonly name: string;
  readonly size: number;
  /** Destroyed before its end, it ends the archive's stream. */
  readonly stream: Readable;
  /** Once the stream has been read: resolves when the archive has been to its end as well, rejects where that failed. */
  readonly whole: Promise<void>;
}

/**
 * Reads a tar archive as far as the first regular file that is wanted. Archives come from whoever wrote the image, so what a byte costs does
 * not depend on those before it: of extended headers the name and size of the file behind them are read, and global ones, which hold
 * for all files behind them, are skipped, as container runtimes do.
 *
 * @param what names the archive in messages.
 * @returns undefined where there is none; the archive has been read to its end then.
 * @throws Invalid where more would have to be read than `budget` has, or is kept in memory; BadGateway where it is no tar archive: that it is the
 * one that was meant is known at its end only. What the archive's stream fails with.
 */
export async function streamFromTar(
  archive: Readable,
  isWanted: (name: string) => boolean,
  budget: TarBudget,
  what: string,
): Promise<StreamedFile | undefined> {
  const pieces = new Pieces(archive, what, budget);
  try {
    const entry = await firstOf(pieces, isWanted);
    if (entry !== undefined) return streamed(archive, pieces, entry);
    await pieces.skip(Number.POSITIVE_INFINITY);
    return undefined;
  } catch (error) {
    archive.destroy();
    throw error;
  }
}

type TarEntry = Required<Omit<TarExtension, 'sparseName'>>;

async function firstOf(pieces: Pieces, isWanted: (name: string) => boolean): Promise<TarEntry | undefined> {
  let extended: TarExtension = {};
  for (;;) {
    const header = await pieces.header();
    if (header === undefined) return undefined;
    const type = tarType(header);
    const own = sizeIn(header);
    if (own === undefined) throw pieces.noArchive();
    if (type === 'x' || type === 'L') Object.assign(extended, await extensionOf(pieces, type, own));
    else if (isPassedOver(type)) await pieces.skip(padded(own));
    else {
      const { name = tarName(header), size = own, sparseName = name } = extended;
      if (type === 'S') await skipSparseMap(pieces, header);
      if ((type === 'S' || sparseName !== name) && isWanted(sparseName)) throw pieces.invalid(packedSparsely);
      if (isFile(type) && isWanted(name)) return { name, size };
      if (hasContent(type)) await pieces.skip(padded(size));
      extended = {};
    }
  }
}

const packedSparsely =
  'has its disk without its holes, as `tar --sparse` packs it; pack it without that option';

/** Where the map of a sparse file of GNU's own format goes on in a further block. */
const sparseGoesOn = { header: 482, block: 504 };

/** Blocks between the header of a sparse file of GNU's own format and its content. */
async function skipSparseMap(pieces: Pieces, header: Buffer): Promise<void> {
  let goesOn = header[sparseGoesOn.header] !== 0;
  while (goesOn) goesOn = (await pieces.take(tarBlock))[sparseGoesOn.block] !== 0;
}

/** Old programs leave the size of what has none blank. */
function sizeIn(header: Buffer): number | undefined {
  return tarText(header.subarray(124, 136)).trim() === '' ? 0 : tarSize(header);
}

function isFile(type: string): boolean {
  return type === '0' || type === '\0';
}

/** Global headers and long names of links: they may stand between the extended header of a file and its own. */
function isPassedOver(type: string): boolean {
  return type === 'g' || type === 'K';
}

/** Links, devices, folders and pipes have none, whatever their size says: so Go's archive/tar reads them. */
function hasContent(type: string): boolean {
  return type < '1' || type > '6';
}

/** Of an extended header of POSIX (`x`) or GNU's long name (`L`). */
async function extensionOf(pieces: Pieces, type: 'x' | 'L', size: number): Promise<TarExtension> {
  if (size > longestExtension)
    throw pieces.invalid(`has an extended header of more than ${longestExtension} bytes`);
  const content = (await pieces.take(padded(size))).subarray(0, size);
  if (type === 'L') return { name: tarText(content) };
  const records = readPaxRecords(content);
  if (records === undefined) throw pieces.noArchive();
  return records;
}

function streamed(archive: Readable, pieces: Pieces, { name, size }: TarEntry): StreamedFile {
  const { promise: whole, resolve, reject } = Promise.withResolvers<void>();
  // Whoever gives the stream up does not ask.
  whole.catch(() => undefined);
  let isRead = false;
  async function* content(): AsyncGenerator<Buffer> {
    try {
      for (let left = size; left > 0;) {
        const piece = await pieces.next(left);
        left -= piece.length;
        yield piece;
      }
    } catch (error) {
      reject(error);
      throw error;
    }
    isRead = true;
    pieces.readOut().then(resolve, reject);
  }
  const chunks = content();
  const iterator = {
    next: () => chunks.next(),
    // The generator itself ends only where it gives a chunk: before that it waits for the archive.
    return: () => {
      if (!isRead) archive.destroy();
      return chunks.return(undefined);
    },
  };
  const stream = Readable.from({ [Symbol.asyncIterator]: () => iterator }, { objectMode: false });
  return { name, size, stream, whole };
}

/** The bytes of an archive in the pieces that are wanted. */
class Pieces {
  readonly #source: AsyncIterator<Buffer>;
  readonly #what: string;
  readonly #budget: TarBudget;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: Readable, what: string, budget: TarBudget) {
    this.#source = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#what = what;
    this.#budget = budget;
  }

  /** The next header; undefined where the archive is at its end. @throws BadGateway where it is none */
  async header(): Promise<Buffer | undefined> {
    if (this.#held.length === 0 && !(await this.#more())) return undefined;
    const header = await this.take(tarBlock);
    if (header.every((byte) => byte === 0)) return undefined;
    if (!hasTarSum(header)) throw this.noArchive();
    this.#budget.headers -= 1;
    if (this.#budget.headers < 0) throw this.invalid('has too many files before its disk');
    return header;
  }

  /** So many bytes, in one piece. */
  async take(bytes: number): Promise<Buffer> {
    this.#spend(bytes);
    if (this.#held.length >= bytes) return this.#cut(bytes);
    const read = new Gathered(bytes);
    while (read.length < bytes) read.add(await this.next(bytes - read.length));
    return read.take();
  }

  /** The next bytes of a file that is read, `most` of them at most. */
  async next(most: number): Promise<Buffer> {
    if (this.#held.length === 0 && !(await this.#more()))
      throw new Svc3Error('BadGateway', `${this.#what} ends too early`);
    return this.#cut(most);
  }

  /** Leaves out so many bytes, or all there are. */
  async skip(bytes: number): Promise<void> {
    for (let left = bytes; left > 0;) {
      if (this.#held.length === 0 && !(await this.#more())) return;
      const { length } = this.#cut(left);
      this.#spend(length);
      left -= length;
    }
  }

  /** What is behind the file that was looked for. */
  async readOut(): Promise<void> {
    while (await this.#more());
  }

  invalid(why: string): Svc3Error {
    return new Svc3Error('Invalid', `${this.#what} ${why}`);
  }

  noArchive(): Svc3Error {
    return new Svc3Error('BadGateway', `${this.#what} is no tar archive`);
  }

  #spend(bytes: number): void {
    this.#budget.bytes -= bytes;
    if (this.#budget.bytes < 0) throw this.invalid('has too many bytes before its disk');
  }

  #cut(most: number): Buffer {
    const piece = this.#held.subarray(0, most);
    this.#held = this.#held.subarray(piece.length);
    return piece;
  }

  async #more(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done === true) return false;
    this.#held = next.value;
    return true;
  }
}
