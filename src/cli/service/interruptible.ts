import { orAborted } from '../sleep.ts';

/** The requests of one command. */
export interface Requests {
  /** What `send` resolves to. @throws what it does, or the signal's reason */
  by<T>(method: string, send: () => Promise<T>): Promise<T>;
}

/**
 * Reads are not waited for once the signal is aborted, until something was written: what has begun to change goes on to its end, and what
 * became of it is told. Closing the client ends what is still under way.
 */
export function interruptible(signal: AbortSignal | undefined): Requests {
  let hasWritten = false;
  return {
    by(method, send) {
      const isRead = method === 'GET' || method === 'HEAD';
      hasWritten ||= !isRead;
      return hasWritten || signal === undefined ? send() : orAborted(send(), signal);
    },
  };
}
