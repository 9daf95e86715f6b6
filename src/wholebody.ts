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
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of source) {
    const bytes = chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk));
    size += bytes.length;
    if (size > limitBytes) throw tooLarge();
    chunks.push(bytes);
  }
  return Buffer.concat(chunks, size);
}
