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
  /** The image has it. */
  readonly complete: boolean;
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

/**
 * Whether it is worth trying again: the network, a server that has no time, or bytes of the connection before that came in
 * after all, so that the upload is further than was said. A name that somebody else has taken meanwhile is not.
 */
function isPassing(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return [0, 429].includes(error.status) || error.status >= 500 || error.reason === 'Conflict';
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
  try {
    signal.throwIfAborted();
    await sendAll(path, request, onProgress);
  } catch (error) {
    if (!signal.aborted) throw error;
    await call('DELETE', path).catch(() => undefined);
    throw givenUp();
  }
}

async function sendAll(
  path: string,
  request: UploadRequest,
  onProgress: (sent: number) => void,
): Promise<void> {
  let offset = 0;
  let tries = 0;
  const waitAfter = async (failure: unknown): Promise<void> => {
    request.signal.throwIfAborted();
    const waitMs = waitsMs[tries];
    if (!isPassing(failure) || waitMs === undefined) throw failure;
    tries += 1;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    request.signal.throwIfAborted();
  };
  for (;;) {
    try {
      return await sendPart(path, request, offset, onProgress);
    } catch (error) {
      await waitAfter(error);
    }
    const state = await howFar(path, waitAfter);
    // The answer to the last part was lost.
    if (state.complete) return;
    if (state.offset > offset) tries = 0;
    ({ offset } = state);
  }
}

/** Asked until the server says it. */
async function howFar(path: string, waitAfter: (failure: unknown) => Promise<void>): Promise<UploadState> {
  for (;;) {
    try {
      return (await call<UploadState>('GET', path)).body;
    } catch (error) {
      await waitAfter(error);
    }
  }
}
