const newline = 10;

/**
 * Splits a byte stream at newlines without decoding it: a character cut in two by the network stays whole.
 * @param cut - shortens a line before it is decoded; it may work in place
 */
export function createLineSplitter(
  onLine: (line: string) => void,
  cut: (line: Buffer) => Buffer = (line) => line,
): {
  push(chunk: Uint8Array): void;
  rest(): number;
} {
  let pieces: Buffer[] = [];
  let held = 0;

  function take(last: Buffer): string {
    if (pieces.length === 0) return cut(last).toString('utf8');
    const line = cut(Buffer.concat([...pieces, last])).toString('utf8');
    pieces = [];
    held = 0;
    return line;
  }

  return {
    push(chunk) {
      const buffer = Buffer.isBuffer(chunk)
        ? chunk
        : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      let start = 0;
      for (let end = buffer.indexOf(newline); end !== -1; end = buffer.indexOf(newline, start)) {
        const line = take(buffer.subarray(start, end));
        start = end + 1;
        if (line !== '') onLine(line);
      }
      if (start < buffer.length) {
        pieces.push(buffer.subarray(start));
        held += buffer.length - start;
      }
    },
    /** Bytes of an unfinished line. */
    rest: () => held,
  };
}
