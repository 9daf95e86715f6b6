import { shortDiskName } from '../../../wire/diskname.ts';
import { ApiError, call, inNamespace, refusalIn } from './api.ts';

/** Tries in a row without a byte more, and how long to wait before each, in milliseconds. */
const waitsMs = [1_000, 2_000, 5_000, 10_000, 20_000];

export interface UploadRequest {
  readonly namespace: string;
  readonly kind: 'image' | 'iso';
  readonly name: string;
  readonly file: File;
  readonly signal: AbortSignal;
}

interface UploadState {
  readonly upload: string;
  readonly offset: number;
}

/** A name that the server takes, from a file's; empty where it has none. */
export function nameOfFile(fileName: string): string {
  return shortDiskName(fileName.replace(/\.(qcow2|raw|img|iso)$/i, ''));
}

/** Sends a part; its answer is there when the server has taken it all. */
function sendPart(
  path: string,
  { file, signal }: UploadRequest,
  offset: number,
  onProgress: (sent: number) => void,
): Promise<void> {
  const request = new XMLHttpRequest();
  request.open('PATCH', path);
  request.setRequestHeader('upload-offset', String(offset));
  request.setRequestHeader('content-type', 'application/octet-stream');
  request.upload.addEventListener('progress', ({ loaded }) => onProgress(offset + loaded));
  signal.addEventListener('abort', () => request.abort(), { once: true });
  return new Promise((resolve, reject) => {
    request.addEventListener('load', () => {
      if (request.status < 400) resolve();
      else reject(refusalIn(request.status, request.responseText));
    });
    request.addEventListener('error', () => reject(new ApiError(0, 'the connection was lost')));
    request.addEventListener('abort', () => reject(givenUp()));
    request.send(file.slice(offset));
  });
}

const givenUp = (): ApiError => new ApiError(0, 'the upload was given up');

/** @returns the name of the upload */
async function begin({ namespace, kind, name, file }: UploadRequest): Promise<string> {
  const path = `${inNamespace(namespace, 'upload', kind)}?name=${encodeURIComponent(name)}`;
  const headers = { 'upload-complete': '?0', 'upload-length': String(file.size) };
  return (await call<UploadState>('POST', path, undefined, headers)).body.upload;
}

/** Whether it is worth trying again: the network, or a server that has no time. */
function isPassing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}

/**
 * Sends a file into the store, and goes on where the connection broke.
 *
 * @param onProgress - told the bytes that have left
 * @throws ApiError
 */
export async function upload(request: UploadRequest, onProgress: (sent: number) => void): Promise<void> {
  const { namespace, kind, name, signal } = request;
  const path = inNamespace(namespace, 'upload', kind, name, await begin(request));
  if (signal.aborted) {
    await call('DELETE', path).catch(() => undefined);
    throw givenUp();
  }
  let offset = 0;
  for (let tries = 0; ; tries += 1) {
    try {
      await sendPart(path, request, offset, onProgress);
      return;
    } catch (error) {
      if (signal.aborted) {
        await call('DELETE', path).catch(() => undefined);
        throw error;
      }
      const waitMs = waitsMs[tries];
      if (!isPassing(error) || waitMs === undefined) throw error;
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      const { body } = await call<UploadState>('GET', path).catch(() => ({ body: { offset } }));
      if (body.offset > offset) tries = -1;
      offset = body.offset;
    }
  }
}
