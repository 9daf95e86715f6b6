import { backoffDelay } from '../../../backoff.ts';
import { isPassing, isSvc3Error } from '../../../errors.ts';
import { sleep } from '../../sleep.ts';
import type { DiskItem, UploadRequest } from '../types.ts';
import type { ApiClient } from './client.ts';
import { notOfApi } from './refusal.ts';
import type { ApiReply } from './reply.ts';

/** Tries in a row that bring nothing further. */
const mostFailures = 8;
/** Whoever uploads to an api that is restarted comes back when it is there again, and not all at once. */
const times = { baseMs: 250, maxMs: 20_000, jitter: 0.5 } as const;

/** Between tries while others are uploaded, in milliseconds: the server lets each wait for half a minute before it refuses it. */
const turnMs = 1_000;

/** How long whoever interrupts an upload waits at most until the store has let go of it, in milliseconds. */
const giveUpMs = 5_000;
/** How long the server may take to notice that the connection is gone, in milliseconds: it keeps what has come by then. */
const lateWriteMs = 500;

/** Where a file goes. */
export interface UploadPlace {
  /** Of the uploads of a kind in a namespace, already encoded. */
  readonly path: string;
  /** The object as it is; asked for when an answer was lost. */
  readonly get: () => Promise<DiskItem>;
}

/**
 * Sends a file; after a broken connection asks how far it got and goes on there (docs/adr/0009).
 *
 * @throws the last refusal when nothing has come further for a while, what is sent cannot be read again, or it is interrupted.
 */
export async function uploadResumably(
  api: ApiClient,
  place: UploadPlace,
  request: UploadRequest,
): Promise<DiskItem> {
  const location = await begin(api, place, request);
  try {
    return await sendAll(api, location, { place, request });
  } catch (error) {
    if (request.signal.aborted) await giveUp(api, location);
    throw error;
  }
}

async function sendAll(
  api: ApiClient,
  location: string,
  { place, request }: { readonly place: UploadPlace; readonly request: UploadRequest },
): Promise<DiskItem> {
  const { body, size, reopen, signal } = request;
  let offset = 0;
  let content = body;
  for (let failures = 0; ;)
    try {
      const sent = await api.json({
        method: 'PATCH',
        path: location,
        headers: { 'upload-offset': String(offset), 'upload-complete': '?1' },
        stream: { content, ...(size === undefined ? {} : { size: size - offset }) },
        timeoutMs: 0,
      });
      return sent.value as DiskItem;
    } catch (error) {
      content.destroy();
      const mayGoOn = !signal.aborted && maySendAgain(error) && failures < mostFailures;
      if (!mayGoOn || reopen === undefined) throw error;
      const state = await ask(api, location, signal);
      if (state.isComplete) return place.get();
      // Others are uploaded first, however long that takes.
      const isTurnToCome = isSvc3Error(error, 'TooManyRequests');
      if (isTurnToCome) await sleep(turnMs, signal);
      failures = state.offset > offset || isTurnToCome ? 0 : failures + 1;
      if (failures > 0) await sleep(waitMs(failures), signal);
      if (signal.aborted) throw error;
      offset = state.offset;
      content = await reopen(offset);
    }
}

/** So that its parts do not lie in the store until the server gives it up; where it cannot be told, it does that by itself. */
async function giveUp(api: ApiClient, path: string): Promise<void> {
  const signal = AbortSignal.timeout(giveUpMs);
  const forget = () => api.json({ method: 'DELETE', path, signal });
  try {
    await forget();
    await sleep(lateWriteMs, signal);
    await forget();
  } catch {
    // It is gone, or all of it had come, or the server is away.
  }
}

const waitMs = (failures: number): number => backoffDelay(failures + 1, times);

async function begin(api: ApiClient, { path }: UploadPlace, request: UploadRequest): Promise<string> {
  const { name, description, architecture, size, filename } = request;
  const reply = await api.stream({
    method: 'POST',
    path,
    query: { name, description, architecture, fileName: filename },
    headers: { 'upload-complete': '?0', ...(size === undefined ? {} : { 'upload-length': String(size) }) },
  });
  skip(reply);
  const { status, headers } = reply;
  if (status !== 201 || headers.location === undefined) throw notOfApi(api.baseUrl);
  return headers.location;
}

/** How far the upload is; the server may be away for a while. */
async function ask(
  api: ApiClient,
  location: string,
  signal: AbortSignal,
): Promise<{ readonly offset: number; readonly isComplete: boolean }> {
  for (let failures = 0; ; failures += 1)
    try {
      const reply = await api.stream({ method: 'HEAD', path: location });
      skip(reply);
      const { 'upload-offset': offset, 'upload-complete': complete } = reply.headers;
      if (!/^\d+$/.test(String(offset))) throw notOfApi(api.baseUrl);
      return { offset: Number(offset), isComplete: complete === '?1' };
    } catch (error) {
      if (!maySendAgain(error) || failures >= mostFailures) throw error;
      await sleep(waitMs(failures), signal);
      if (signal.aborted) throw error;
    }
}

/** Conflict: bytes of the connection before came in after all. */
function maySendAgain(error: unknown): boolean {
  return isPassing(error) || isSvc3Error(error, 'Conflict');
}

/** Reads a short reply to its end: its connection serves the next request. */
function skip({ body }: ApiReply): void {
  // Its headers have said all; that the rest of it is cut changes nothing.
  body.on('error', () => undefined).resume();
}
