import type { Readable } from 'node:stream';
import { Svc3Error } from '../../../errors.ts';
import { resumable } from '../../../registry/resume.ts';
import type { ApiClient, ApiReply } from './client.ts';

/** Reads a disk; where the connection breaks it goes on with the next byte, as long as the disk is the same version. */
export async function downloadResumably(
  api: ApiClient,
  path: string,
): Promise<{ body: Readable; size?: number }> {
  const first = await ask(api, path, {});
  const { etag } = first.headers;
  const size = Number(first.headers['content-length'] ?? Number.NaN);
  if (Number.isNaN(size)) return { body: first.body };
  if (typeof etag !== 'string') return { body: first.body, size };
  let opened: Readable | undefined = first.body;
  const open = async (offset: number): Promise<Readable> => {
    const body = opened ?? (await goOn(api, path, { offset, etag }));
    opened = undefined;
    return body;
  };
  return { body: resumable(open, { size }), size };
}

async function goOn(
  api: ApiClient,
  path: string,
  { offset, etag }: { offset: number; etag: string },
): Promise<Readable> {
  const { status, body } = await ask(api, path, { range: `bytes=${offset}-`, 'if-range': etag });
  if (status === 206) return body;
  body.destroy();
  throw new Svc3Error('Conflict', 'there is a new version of the disk since the download began; begin anew');
}

function ask(api: ApiClient, path: string, headers: Record<string, string>): Promise<ApiReply> {
  return api.stream({ method: 'GET', path, headers, timeoutMs: 300_000 });
}
