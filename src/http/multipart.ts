import type { FastifyRequest } from 'fastify';
import type { Upload, UploadPart } from './route.ts';

/** Largest value of a form field beside the file: a certificate chain. */
export const maxFieldBytes = 256 * 1024;

async function* partsOf(request: FastifyRequest): AsyncIterable<UploadPart> {
  for await (const part of request.parts()) {
    if (part.type === 'file') {
      yield { kind: 'file', name: part.fieldname, fileName: part.filename ?? '', content: part.file };
      // An unread file would hold up the parts behind it.
      part.file.resume();
    } else {
      yield { kind: 'field', name: part.fieldname, value: String(part.value) };
    }
  }
}

/** The body of an upload as it comes from the socket. */
export function uploadOf(request: FastifyRequest): Upload {
  const length = Number(request.headers['content-length']);
  return {
    contentType: request.headers['content-type'] ?? 'application/octet-stream',
    stream: request.raw,
    ...(Number.isFinite(length) ? { contentLength: length } : {}),
    ...(request.isMultipart() ? { parts: () => partsOf(request) } : {}),
  };
}
