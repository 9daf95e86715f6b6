import { isPassing } from '../errors.ts';
import { orAborted, sleep } from './sleep.ts';

/** For how long a server that cannot be reached is asked again, and how often, in milliseconds. */
const mostMs = 60_000;
const askAgainMs = 1_000;

/** Looks in a row that show something else than was asked for: a replica of the api may be a moment behind. */
export const mostOthers = 5;

/**
 * What `read` answers, for callers that wait anyway: while the server cannot be reached, or refuses for a moment, it is asked again for a minute.
 *
 * @throws what `read` threw last: at once where that does not pass, else after a minute; the signal's reason once that is aborted while it is read
 */
export async function retryWhileUnreachable<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const end = performance.now() + mostMs;
  for (;;) {
    try {
      return await orAborted(read(), signal);
    } catch (error) {
      if (!isPassing(error) || signal.aborted || performance.now() > end) throw error;
    }
    await sleep(askAgainMs, signal);
  }
}
