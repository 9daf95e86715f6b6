import { ApiError, messageOf } from './api.ts';

/** How long to wait before each try in a row without a byte more, in milliseconds; while there is no server, the last again and again. */
const waitsMs = [1_000, 2_000, 5_000, 10_000, 20_000];

/** What is told of an upload under way. */
export interface UploadProgress {
  /** So many bytes have left. */
  sent(bytes: number): void;
  /** Nothing is sent until the server takes it again. */
  waiting(why: string): void;
}

/** What the server says of an upload. */
export interface UploadState {
  readonly upload: string;
  readonly offset: number;
  /** The image has it. */
  readonly complete: boolean;
}

/** How an upload is sent. */
export interface Sender {
  /** Sends what is left. Rejects with what became of it. */
  sendFrom(offset: number): Promise<void>;
  howFar(): Promise<UploadState>;
}

export const givenUp = (): ApiError => new ApiError(0, 'the upload was given up');

/**
 * Whether it is worth trying again: the network, a server that has no time, or bytes of the connection before that came in
 * after all, so that the upload is further than was said. A name that somebody else has taken meanwhile is not.
 */
function isPassing(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return [0, 429].includes(error.status) || error.status >= 500 || error.reason === 'Conflict';
}

/** Whether it says nothing of the upload: nobody who has the file answers. */
function isOutage(error: unknown): boolean {
  return error instanceof ApiError && [0, 429, 502, 503, 504].includes(error.status);
}

/** @throws where the signal is aborted, at once */
function waited(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = (): void => reject(givenUp());
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', stop, { once: true });
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  });
}

/**
 * Sends a file until the server has it all.
 *
 * @throws ApiError where trying again is of no use, or the signal was aborted
 */
export async function sendAll(sender: Sender, signal: AbortSignal, progress: UploadProgress): Promise<void> {
  let offset = 0;
  let tries = 0;
  const waitAfter = async (failure: unknown): Promise<void> => {
    if (signal.aborted) throw givenUp();
    const waitMs = waitsMs[tries] ?? (isOutage(failure) ? waitsMs.at(-1) : undefined);
    if (!isPassing(failure) || waitMs === undefined) throw failure;
    tries += 1;
    progress.waiting(messageOf(failure));
    await waited(waitMs, signal);
  };
  for (;;) {
    try {
      return await sender.sendFrom(offset);
    } catch (error) {
      await waitAfter(error);
    }
    const state = await howFar(sender, waitAfter);
    // The answer to the last part was lost.
    if (state.complete) return;
    if (signal.aborted) throw givenUp();
    if (state.offset > offset) tries = 0;
    ({ offset } = state);
    progress.sent(offset);
  }
}

/** Asked until the server says it. */
async function howFar(sender: Sender, waitAfter: (failure: unknown) => Promise<void>): Promise<UploadState> {
  for (;;)
    try {
      return await sender.howFar();
    } catch (error) {
      await waitAfter(error);
    }
}
