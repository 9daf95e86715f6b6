import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { Svc3Error } from '../errors.ts';

/** Larger JSON bodies are refused: the largest honest request is some kilobytes. */
export const maxJsonBytes = 1024 * 1024;
const bodyTimeoutMs = 30_000;

function refuse(reason: 'RequestEntityTooLarge' | 'BadRequest', message: string): Svc3Error {
  return new Svc3Error(reason, message, { details: { causes: [{ field: 'body', message }] } });
}

/** Reads a JSON request's bytes: at most 1 MiB, within 30 s, and as many as Content-Length says. */
export function readBody(stream: Readable, headers: IncomingMessage['headers']): Promise<Buffer> {
  const declared = Number(headers['content-length'] ?? 0);
  if (declared > maxJsonBytes) {
    return Promise.reject(
      refuse('RequestEntityTooLarge', `body: must not be larger than ${maxJsonBytes} bytes`),
    );
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const timer = setTimeout(() => {
      end(refuse('BadRequest', 'body: was not received within 30 seconds'));
    }, bodyTimeoutMs);
    const end = (error?: Error): void => {
      clearTimeout(timer);
      stream.off('data', onData);
      if (error === undefined)
        resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks));
      else reject(error);
    };
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > maxJsonBytes)
        end(refuse('RequestEntityTooLarge', `body: must not be larger than ${maxJsonBytes} bytes`));
      else chunks.push(chunk);
    };
    stream.on('data', onData);
    const onCut = (): void => end(refuse('BadRequest', 'body: ended before it was complete'));
    stream.once('end', () => {
      stream.off('close', onCut);
      end();
    });
    stream.once('error', onCut);
    stream.once('close', onCut);
  });
}

/** JSON is the only type of a JSON route; no Content-Type means JSON too (kubectl create --raw sends none). */
export function requireJson(contentType: string | undefined): void {
  if (contentType === undefined || contentType === '') return;
  const mediaType = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (mediaType === 'application/json' || mediaType === 'text/json') return;
  if (/^application\/[\w.+-]+\+json$/.test(mediaType)) return;
  const message = 'Content-Type: must be application/json';
  throw new Svc3Error('UnsupportedMediaType', message, {
    details: { causes: [{ field: 'Content-Type', message }] },
  });
}
