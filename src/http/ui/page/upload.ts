import { shortDiskName } from '../../../wire/diskname.ts';
import { answerIn, ApiError, call, inNamespace } from './api.ts';
import { givenUp, sendAll, type UploadProgress, type UploadState } from './sending.ts';

export interface UploadRequest {
  readonly namespace: string;
  readonly kind: 'image' | 'iso';
  readonly name: string;
  readonly file: File;
  readonly signal: AbortSignal;
}

/** A name that the server takes, from a file's; empty where it has none. */
export function nameOfFile(fileName: string): string {
  return shortDiskName(fileName.replace(/\.(qcow2|raw|img|iso)$/i, ''));
}

/** A file of which nothing more can be sent. */
class LostFile extends Error {
  constructor() {
    super('the file cannot be read any more: it was changed, moved or deleted');
  }
}

/** Why a request got no answer: a browser does not tell a connection that broke from a file that it could not read. */
async function lossOf(file: File): Promise<Error> {
  try {
    await file.slice(0, 1).arrayBuffer();
    return new ApiError(0, 'the connection was lost');
  } catch {
    return new LostFile();
  }
}

/** Sends a part; its answer is there when the server has taken it all. */
function sendPart(
  path: string,
  { file, signal }: UploadRequest,
  offset: number,
  onProgress: (sent: number) => void,
): Promise<void> {
  // Who gave it up before is not heard any more.
  if (signal.aborted) return Promise.reject(givenUp());
  const request = new XMLHttpRequest();
  request.open('PATCH', path);
  request.setRequestHeader('upload-offset', String(offset));
  request.setRequestHeader('content-type', 'application/octet-stream');
  request.upload.addEventListener('progress', ({ loaded }) => onProgress(offset + loaded));
  signal.addEventListener('abort', () => request.abort(), { once: true });
  return new Promise((resolve, reject) => {
    request.addEventListener('load', () => {
      try {
        answerIn(request.status, request.responseText);
        resolve();
      } catch (error) {
        reject(error);
      }
    });
    request.addEventListener('error', () => void lossOf(file).then(reject));
    request.addEventListener('abort', () => reject(givenUp()));
    request.send(file.slice(offset));
  });
}

/** @returns the name of the upload */
async function begin({ namespace, kind, name, file }: UploadRequest): Promise<string> {
  const path = `${inNamespace(namespace, 'upload', kind)}?name=${encodeURIComponent(name)}`;
  const headers = { 'upload-complete': '?0', 'upload-length': String(file.size) };
  return (await call<UploadState>('POST', path, undefined, headers)).body.upload;
}

/**
 * Sends a file into the store, and goes on where the connection broke: for as long as there is no server to take it, it waits.
 *
 * @throws ApiError; LostFile
 */
export async function upload(request: UploadRequest, progress: UploadProgress): Promise<void> {
  const { namespace, kind, name, signal } = request;
  const path = inNamespace(namespace, 'upload', kind, name, await begin(request));
  try {
    signal.throwIfAborted();
    await sendAll(
      {
        sendFrom: (offset) => sendPart(path, request, offset, (sent) => progress.sent(sent)),
        howFar: async () => (await call<UploadState>('GET', path)).body,
      },
      signal,
      progress,
    );
  } catch (error) {
    if (!signal.aborted && !(error instanceof LostFile)) throw error;
    await forget(path);
    throw signal.aborted ? givenUp() : error;
  }
}

/** How long the server may take to notice that a connection is gone, in milliseconds: it keeps what has come by then. */
const lateWriteMs = 500;

/** So that nothing of an upload lies in the store until the server gives it up. */
async function forget(path: string): Promise<void> {
  await call('DELETE', path).catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, lateWriteMs));
  await call('DELETE', path).catch(() => undefined);
}
