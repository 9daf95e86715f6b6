import { retryWhileUnreachable } from './unreachable.ts';
import { sleep } from './sleep.ts';

const pollMs = 1000;

/** What `read` says, once a second until the signal. That it cannot be read at all is said at once. */
export async function* poll<T>(read: () => Promise<T>, signal: AbortSignal): AsyncGenerator<T> {
  if (signal.aborted) return;
  yield await read();
  for (;;) {
    await sleep(pollMs, signal);
    if (signal.aborted) return;
    const said = await retryWhileUnreachable(read, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    if (said === undefined) return;
    yield said;
  }
}
