import { sleep } from './sleep.ts';

const pollMs = 1000;

/** What `read` says, once a second until the signal. */
export async function* poll<T>(read: () => Promise<T>, signal: AbortSignal): AsyncGenerator<T> {
  while (!signal.aborted) {
    yield await read();
    await sleep(pollMs, signal);
  }
}
