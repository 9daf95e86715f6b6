import { createHash } from 'node:crypto';
import { Transform, type TransformCallback } from 'node:stream';
import { Svc3Error } from '../errors.ts';

/** Passes bytes on and fails at their end when their SHA-256 is not `digest` (`sha256:…`), or when they are more than `limitBytes`. */
export function verifyDigest(digest: string, what: string, limitBytes = Number.POSITIVE_INFINITY): Transform {
  const hash = createHash('sha256');
  let size = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, callback: TransformCallback) {
      size += chunk.length;
      if (size > limitBytes) {
        callback(new Svc3Error('Invalid', `${what} is larger than ${limitBytes} bytes`));
        return;
      }
      hash.update(chunk);
      callback(null, chunk);
    },
    flush(callback) {
      const found = `sha256:${hash.digest('hex')}`;
      callback(
        found === digest ? null : new Svc3Error('BadGateway', `${what} does not match its digest ${digest}`),
      );
    },
  });
}

/** Passes bytes on and counts and digests them; read `digest()` and `size()` after the end. */
export function digesting(): Transform & { digest(): string; size(): number } {
  const hash = createHash('sha256');
  let size = 0;
  let finished: string | undefined;
  const transform = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      size += chunk.length;
      hash.update(chunk);
      callback(null, chunk);
    },
  });
  return Object.assign(transform, {
    digest: () => (finished ??= `sha256:${hash.digest('hex')}`),
    size: () => size,
  });
}
