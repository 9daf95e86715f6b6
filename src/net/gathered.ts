/** The least that is taken for pieces; the most of what is read is smaller. */
const leastBytes = 16 * 1024;

/**
 * Bytes that come in pieces, kept in memory. The first piece is kept as it is, since mostly no other comes; from the second on all are
 * copied into one buffer that doubles. A piece is an object, which holds more than a hundred times the byte that a sender may have put
 * into it.
 */
export class Gathered {
  readonly #mostBytes: number;
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  /** @param mostBytes - of all pieces, where that is known: no more is taken for them */
  constructor(mostBytes = Infinity) {
    this.#mostBytes = mostBytes;
  }

  /** Bytes that have been added. */
  get length(): number {
    return this.#length;
  }

  /** Bytes of memory that this piece would take beside what is held already. */
  growthFor(piece: Uint8Array): number {
    return this.#capacityFor(this.#length + piece.length) - this.#buffer.length;
  }

  add(piece: Uint8Array): void {
    if (this.#length === 0) this.#buffer = asBuffer(piece);
    else {
      this.#growTo(this.#capacityFor(this.#length + piece.length));
      this.#buffer.set(piece, this.#length);
    }
    this.#length += piece.length;
  }

  /** All bytes, of which nothing is kept here. */
  take(): Buffer {
    const bytes = this.#buffer.subarray(0, this.#length);
    this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    return bytes;
  }

  #capacityFor(length: number): number {
    if (this.#length === 0) return length;
    if (length <= this.#buffer.length) return this.#buffer.length;
    const roomy = Math.max(leastBytes, 2 * this.#buffer.length);
    return Math.max(length, Math.min(roomy, this.#mostBytes));
  }

  #growTo(capacity: number): void {
    if (capacity === this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(capacity);
    larger.set(this.#buffer.subarray(0, this.#length));
    this.#buffer = larger;
  }
}

function asBuffer(piece: Uint8Array): Buffer {
  return Buffer.isBuffer(piece) ? piece : Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
}
