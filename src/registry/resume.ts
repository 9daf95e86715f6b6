import { addAbortSignal, Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { backoffDelay } from '../backoff.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';

/** A stream that breaks off without a byte is taken up again so often before it fails. */
const mostResumes = 6;
/** Without jitter: opening it again is a request, which has its own retries, with jitter. */
const times = { baseMs: 100, maxMs: 3_200, jitter: 0 } as const;

export interface ResumeOptions {
  /** Bytes in all. */
  readonly size: number;
  /** First byte wanted. Default 0. */
  readonly start?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A stream of the bytes from `start` to `size`, and no more, that is taken up again where it breaks off. One that is destroyed lets go of its source at
 * once, which may give nothing any more.
 */
export function resumable(open: (offset: number) => Promise<Readable>, options: ResumeOptions): Readable {
  const abandoned = new AbortController();
  const chunks = resuming(open, options, abandoned.signal);
  const iterator = {
    next: () => chunks.next(),
    // The generator itself ends only where it gives a chunk: before that it waits for its source.
    return: () => {
      abandoned.abort();
      return chunks.return(undefined);
    },
  };
  return Readable.from({ [Symbol.asyncIterator]: () => iterator }, { objectMode: false });
}

async function* resuming(
  open: (offset: number) => Promise<Readable>,
  { size, start = 0, signal }: ResumeOptions,
  abandoned: AbortSignal,
): AsyncGenerator<Buffer> {
  const ended = signal === undefined ? abandoned : AbortSignal.any([abandoned, signal]);
  let at = start;
  for (let resumes = 0; at < size; resumes += 1)
    try {
      for await (const chunk of addAbortSignal(abandoned, await open(at))) {
        const bytes = chunk as Buffer;
        if (bytes.length > size - at)
          throw new Svc3Error('Invalid', `the source sent more than ${size} bytes`);
        at += bytes.length;
        resumes = 0;
        yield bytes;
      }
      if (at < size) throw new Svc3Error('BadGateway', `the source ended after ${at} of ${size} bytes`);
    } catch (error) {
      const isFinal =
        ended.aborted ||
        resumes >= mostResumes ||
        isSvc3Error(
          error,
          'Unauthorized',
          'Forbidden',
          'NotFound',
          'Conflict',
          'RangeNotSatisfiable',
          'Invalid',
        );
      if (isFinal) throw error;
      await delay(backoffDelay(resumes + 1, times), undefined, { signal: ended });
    }
}
