import type { FastifyRequest } from 'fastify';
import { Svc3Error } from '../../errors.ts';
import type { Upload, UploadPart, UploadTypes } from '../call/route.ts';
import { passUnread } from './diskbody.ts';

/** Largest value of a form field beside the file: a certificate chain. */
export const maxFieldBytes = 256 * 1024;

/** What the parser says of a broken body; refusals of ours and of its limits stay what they are. */
export function brokenMultipart(error: unknown): unknown {
  if (error instanceof Svc3Error || (error as { code?: string }).code?.startsWith('FST_') === true)
    return error;
  const message = 'body: is not complete multipart/form-data';
  return new Svc3Error('BadRequest', message, {
    details: { causes: [{ field: 'body', message }] },
    cause: error,
  });
}

async function* partsOf(request: FastifyRequest): AsyncIterable<UploadPart> {
  try {
    for await (const part of request.parts())
      if (part.type === 'file') {
        part.file.on('error', () => undefined);
        yield { kind: 'file', name: part.fieldname, fileName: part.filename ?? '', content: part.file };
        // An unread file would hold up the parts behind it.
        part.file.resume();
      } else yield { kind: 'field', name: part.fieldname, value: String(part.value) };
  } catch (error) {
    throw brokenMultipart(error);
  }
}

function problemOf({ form, raw }: UploadTypes, contentType: string): string | undefined {
  if (!/^multipart\//i.test(contentType)) return raw ? undefined : 'must be multipart/form-data';
  if (form === undefined) return 'must not be multipart: what is sent is stored as it is';
  return /^multipart\/form-data\s*(;|$)/i.test(contentType) ? undefined : 'must be multipart/form-data';
}

/**
 * Refuses an upload of a type that a route does not take, and lets its body pass.
 *
 * @throws Svc3Error UnsupportedMediaType
 */
export function requireTaken(takes: UploadTypes, { contentType, stream }: Upload): void {
  const problem = problemOf(takes, contentType);
  if (problem === undefined) return;
  passUnread(stream);
  throw new Svc3Error('UnsupportedMediaType', `Content-Type: ${problem}`, {
    details: { causes: [{ field: 'Content-Type', message: problem }] },
  });
}

/** The body of an upload as it comes from the socket. */
export function uploadOf(request: FastifyRequest): Upload {
  const length = Number(request.headers['content-length']);
  return {
    contentType: request.headers['content-type'] ?? 'application/octet-stream',
    stream: request.raw,
    isCut: () => request.raw.aborted,
    ...(Number.isFinite(length) ? { contentLength: length } : {}),
    ...(request.isMultipart() ? { parts: () => partsOf(request) } : {}),
  };
}
