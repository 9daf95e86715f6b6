import { Readable } from 'node:stream';

/** A reply that is larger is written in pieces. */
export const largeBytes = 64 * 1024;

/** One TLS record. */
export const pieceBytes = 16 * 1024;

/**
 * Bytes in pieces, the next one only when the one before has left. TLS encrypts what it is given at once and for each
 * connection anew: 500 clients who ask for the same megabyte would take 500 of them.
 */
export class Pieces extends Readable {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    super({ highWaterMark: 1 });
    this.#bytes = bytes;
  }

  #next(): Buffer | undefined {
    if (this.#at >= this.#bytes.length) return undefined;
    const piece = this.#bytes.subarray(this.#at, this.#at + pieceBytes);
    this.#at += piece.length;
    return piece;
  }

  override _read(): void {
    this.push(this.#next() ?? null);
  }

  /** Waits for every single piece: a stream's own would fill the reply's buffer first. */
  override pipe<T extends NodeJS.WritableStream>(to: T): T {
    const write = (error?: Error | null): void => {
      if (this.destroyed || (error !== undefined && error !== null)) return;
      const piece = this.#next();
      if (piece === undefined) to.end();
      else to.write(piece, write);
    };
    write();
    return to;
  }
}
