import { Gathered } from './gathered.ts';

/**
 * Reads what somebody sends to its end, and no further than `limitBytes`: what is over is an error, and the source is destroyed, so that
 * nothing more of it is read.
 *
 * @param tooLarge the error for a source with more bytes than that.
 */
export async function readWhole(
  source: AsyncIterable<unknown>,
  limitBytes: number,
  tooLarge: () => Error,
): Promise<Buffer> {
  const read = new Gathered(limitBytes);
  for await (const chunk of source) {
    const bytes = chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk));
    if (read.length + bytes.length > limitBytes) throw tooLarge();
    read.add(bytes);
  }
  return read.take();
}

/** What no honest sender needs: to parse 4 MiB of nested arrays takes a second, in which the process does nothing else. */
const most = { depth: 64, values: 200_000 } as const;

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * JSON of somebody who may mean harm; its size is the caller's to limit.
 *
 * @throws SyntaxError where it is no JSON, nested deeper than 64 or of more than 200,000 values.
 */
export function parseForeignJson(bytes: Uint8Array): unknown {
  checkShape(bytes);
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Counts brackets and commas outside strings: about 10 ms for 4 MiB. */
function checkShape(bytes: Uint8Array): void {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === quote) at = endOfString(bytes, at);
    else if (byte === comma) values += 1;
    else if (byte === closeArray || byte === closeObject) depth -= 1;
    else if (byte === openArray || byte === openObject) {
      depth += 1;
      values += 1;
    }
    if (depth > most.depth) throw new SyntaxError(`nested deeper than ${most.depth}`);
    if (values > most.values) throw new SyntaxError(`more than ${most.values} values`);
  }
}

/** Where the string that begins at `start` ends; the last byte where it does not. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1;
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at;
}
