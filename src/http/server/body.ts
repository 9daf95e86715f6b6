import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Svc3Error } from '../../errors.ts';
import { Gathered } from '../../net/gathered.ts';
import type { HeldBytes } from '../call/bytebudget.ts';
import { parseJson } from './json.ts';
import { findState } from '../call/requeststate.ts';

/** Larger JSON bodies are refused: the largest honest request is some kilobytes. */
const maxJsonBytes = 1024 * 1024;
const bodyTimeoutMs = 30_000;

function refuse(reason: 'RequestEntityTooLarge' | 'BadRequest', message: string): Svc3Error {
  return new Svc3Error(reason, message, { details: { causes: [{ field: 'body', message }] } });
}

interface BodyLimits {
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly held: HeldBytes | undefined;
}

/**
 * Reads a JSON request's bytes: as many as the route takes, within the time, as many as Content-Length says and `held` allows.
 *
 * @throws Svc3Error RequestEntityTooLarge, BadRequest, and what `held` throws; `held` has been released then
 */
export function readBody(
  stream: Readable,
  headers: IncomingMessage['headers'],
  { maxBytes, timeoutMs, held }: BodyLimits,
): Promise<Buffer> {
  const declared = Number(headers['content-length'] ?? 0);
  if (declared > maxBytes)
    return Promise.reject(refuse('RequestEntityTooLarge', `body: must not be larger than ${maxBytes} bytes`));
  return new Promise((resolve, reject) => {
    const body = new Gathered(declared || maxBytes);
    const timer = setTimeout(() => {
      end(refuse('BadRequest', `body: was not received within ${timeoutMs / 1000} seconds`));
    }, timeoutMs);
    let isOver = false;
    const end = (error?: Error): void => {
      isOver = true;
      clearTimeout(timer);
      stream.off('data', onData);
      // Also of a body that is refused: listeners stay on the stream, and would keep what came of it.
      const bytes = body.take();
      if (error === undefined) {
        resolve(bytes);
        return;
      }
      held?.release();
      reject(error);
    };
    const onWhole = (): void => {
      // The rest of one that was refused: what it held has been given back.
      if (isOver) return;
      try {
        held?.complete();
        end();
      } catch (error) {
        end(error as Error);
      }
    };
    held?.receive(end);
    const onData = (chunk: Buffer): void => {
      if (body.length + chunk.length > maxBytes) {
        end(refuse('RequestEntityTooLarge', `body: must not be larger than ${maxBytes} bytes`));
        return;
      }
      try {
        held?.take(body.growthFor(chunk));
        body.add(chunk);
      } catch (error) {
        end(error as Error);
      }
    };
    stream.on('data', onData);
    const onCut = (): void => end(refuse('BadRequest', 'body: ended before it was complete'));
    stream.once('end', () => {
      stream.off('close', onCut);
      onWhole();
    });
    stream.once('error', onCut);
    stream.once('close', onCut);
  });
}

/**
 * Whether nothing follows the headers: HTTP/1.1 says so by a length of 0 or by none at all (RFC 9112, 6.3), HTTP/2 by ending the stream
 * with the headers.
 */
export function hasNoBody(request: IncomingMessage | Http2ServerRequest): boolean {
  const { headers } = request;
  if (headers['content-length'] !== undefined) return headers['content-length'] === '0';
  return 'stream' in request ? request.stream.endAfterHeaders : headers['transfer-encoding'] === undefined;
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

/** Bodies are read by us, whatever their type: strictly where a route takes JSON, else not at all. */
export function installBodyReader(app: FastifyInstance, timeoutMs = bodyTimeoutMs): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']) => {
    const state = findState(request);
    if (state?.route?.bodyKind !== 'json') return undefined;
    const maxBytes = state.route.maxBodyBytes ?? maxJsonBytes;
    try {
      return parseJson(await readBody(payload, request.headers, { maxBytes, timeoutMs, held: state.body }));
    } catch (error) {
      payload.resume();
      throw error;
    }
  });
}
