import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { Svc3Error } from '../../../errors.ts';
import { resumable } from '../../../registry/resume.ts';
import type { DiskBytes } from '../types.ts';
import type { ApiClient } from './client.ts';
import { notOfApi } from './refusal.ts';
import type { ApiReply } from './reply.ts';

/** Of every reply with a disk. */
const diskType = 'application/octet-stream';

/**
 * Reads a disk; where the connection breaks it goes on with the next byte, as long as the disk is the same version. At the end its
 * bytes are compared with `Repr-Digest` (RFC 9530) of the first reply.
 *
 * @throws Svc3Error BadGateway where something else than a disk comes
 */
export async function downloadResumably(api: ApiClient, path: string): Promise<DiskBytes> {
  const first = await ask(api, path, {});
  if (first.status !== 200) throw other(api, first);
  const digest = sha256Of(first.headers['repr-digest']);
  const size = Number(first.headers['content-length'] ?? Number.NaN);
  const bytes = Number.isNaN(size) ? first.body : readResumably(api, path, { first, size });
  return {
    body: digest === undefined ? bytes : checked(bytes, digest),
    ...(Number.isNaN(size) ? {} : { size }),
    ...(digest === undefined ? {} : { digest }),
  };
}

function readResumably(
  api: ApiClient,
  path: string,
  { first, size }: { first: ApiReply; size: number },
): Readable {
  const { etag } = first.headers;
  if (typeof etag !== 'string') return first.body;
  let opened: Readable | undefined = first.body;
  const open = async (offset: number): Promise<Readable> => {
    const body = opened ?? (await goOn(api, path, { offset, etag }));
    opened = undefined;
    return body;
  };
  return resumable(open, { size });
}

/** The hexadecimal SHA-256 of a digest field, which is a dictionary of byte sequences (RFC 8941). */
function sha256Of(field: string | string[] | undefined): string | undefined {
  const text = Array.isArray(field) ? field.join(',') : (field ?? '');
  const encoded = /(?:^|[,\s])sha-256=:([A-Za-z0-9+/]{43}=):/.exec(text)?.[1];
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString('hex');
}

/** The same bytes; fails at their end when they are others than those that were meant. */
function checked(bytes: Readable, digest: string): Readable {
  async function* compared(): AsyncGenerator<Buffer> {
    const hash = createHash('sha256');
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      hash.update(chunk);
      yield chunk;
    }
    const found = hash.digest('hex');
    if (found !== digest)
      throw new Svc3Error('BadGateway', `the disk came damaged: its SHA-256 is ${found}, not ${digest}`);
  }
  return Readable.from(compared(), { objectMode: false });
}

async function goOn(
  api: ApiClient,
  path: string,
  { offset, etag }: { offset: number; etag: string },
): Promise<Readable> {
  const reply = await ask(api, path, { range: `bytes=${offset}-`, 'if-range': etag });
  if (reply.status === 206) return reply.body;
  discard(reply);
  throw new Svc3Error('Conflict', 'there is a new version of the disk since the download began; begin anew');
}

/** @throws Svc3Error BadGateway for what is no disk: something in between may answer with a page of its own */
async function ask(api: ApiClient, path: string, headers: Record<string, string>): Promise<ApiReply> {
  const reply = await api.stream({ method: 'GET', path, headers, timeoutMs: 300_000 });
  if (reply.headers['content-type'] !== diskType) throw other(api, reply);
  return reply;
}

function other({ baseUrl }: ApiClient, reply: ApiReply): Svc3Error {
  discard(reply);
  return notOfApi(baseUrl);
}

/** Lets go of a reply of which nothing is read: it may be as long as a disk. */
function discard({ body }: ApiReply): void {
  // To end it before it has come is an error of the stream.
  body.on('error', () => undefined).destroy();
}
