import type { Readable } from 'node:stream';
import type { Descriptor, RegistryClient } from './client.ts';
import { verifyDigest } from './digest.ts';
import { resumable } from './resume.ts';

/** Bytes of a blob, taken up again where the connection breaks off. Their digest is not checked. */
export function blobOf(
  client: RegistryClient,
  repository: string,
  { digest, size }: Pick<Descriptor, 'digest' | 'size'>,
  { signal, start = 0, end = size }: { signal?: AbortSignal | undefined; start?: number; end?: number },
): Readable {
  const open = (offset: number) =>
    client.blob(repository, digest, {
      offset,
      ...(end === size ? {} : { end: end - 1 }),
      ...(signal === undefined ? {} : { signal }),
    });
  return resumable(open, { size: end, signal, start });
}

/** A whole blob's bytes; fails at their end when they are not those of its digest. */
export async function* verified(
  source: Readable,
  { digest, size, what }: { digest: string; size: number; what: string },
): AsyncGenerator<Buffer> {
  const checked = verifyDigest(digest, what, size);
  source.on('error', (error: Error) => checked.destroy(error));
  yield* source.pipe(checked) as AsyncIterable<Buffer>;
}
