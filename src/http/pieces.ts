import { Readable } from 'node:stream';

/** A reply that is larger is written in pieces of this size. */
export const pieceBytes = 64 * 1024;

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

  override _read(): void {
    if (this.#at >= this.#bytes.length) {
      this.push(null);
      return;
    }
    const piece = this.#bytes.subarray(this.#at, this.#at + pieceBytes);
    this.#at += piece.length;
    this.push(piece);
  }
}
