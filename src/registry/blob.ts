import type { Readable } from 'node:stream';
import { Svc3Error } from '../errors.ts';
import { readWhole } from '../net/foreign.ts';
import type { RegistryClient } from './client.ts';
import { verifyDigest } from './digest.ts';
import { sha256, type Descriptor } from './manifest.ts';
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

/**
 * A small blob whole, after its size and digest have been compared with those declared. Nothing is read beyond the declared size.
 *
 * @throws Invalid where more is declared than `limitBytes`, BadGateway where something else comes than was declared.
 */
export async function readBlob(
  client: RegistryClient,
  repository: string,
  { digest, size }: Pick<Descriptor, 'digest' | 'size'>,
  { limitBytes, what, signal }: { limitBytes: number; what: string; signal?: AbortSignal },
): Promise<Buffer> {
  if (size > limitBytes) throw new Svc3Error('Invalid', `${what} is larger than ${limitBytes} bytes`);
  const body = await client.blob(repository, digest, signal === undefined ? {} : { signal });
  const tooLarge = () =>
    new Svc3Error('BadGateway', `${what} is larger than the ${size} bytes it is declared with`);
  const bytes = await readWhole(body, size, tooLarge);
  if (bytes.length === size && sha256(bytes) === digest) return bytes;
  throw new Svc3Error('BadGateway', `${what} does not match its size and digest ${digest}`);
}
