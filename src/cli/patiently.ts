import { isPassing } from '../errors.ts';
import { sleep } from './sleep.ts';

/** How long a server may be away that one waits with, and how often it is asked meanwhile, in milliseconds. */
const patienceMs = 60_000;
const askAgainMs = 1_000;

/**
 * What `read` says, for who waits for something anyway: a network or a server that is away for a while is asked again.
 *
 * @throws what `read` threw last: at once where that does not pass, else after a minute or when the signal is aborted
 */
export async function patiently<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const end = performance.now() + patienceMs;
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (!isPassing(error) || signal.aborted || performance.now() > end) throw error;
    }
    await sleep(askAgainMs, signal);
  }
}
