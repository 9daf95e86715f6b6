import type { Duplex } from 'node:stream';
import { Svc3Error } from '../errors.ts';
import type { Context } from './context.ts';
import { sleep } from './sleep.ts';

/** How long a guest that has just booted may take until its SSH server answers. */
const timeoutMs = 60_000;
const intervalMs = 500;

/** Resolves when the SSH server behind the stream says its first word; a guest that still boots is waited for. */
export async function untilServed(context: Context, open: () => Promise<Duplex>, who: string): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline) {
    const left = AbortSignal.timeout(Math.ceil(Math.max(1, deadline - performance.now())));
    if (await speaks(await open(), AbortSignal.any([left, context.signal]))) return;
    if (context.signal.aborted) break;
    context.out.progress(`${who}: waiting for its SSH server`);
    await sleep(intervalMs, context.signal);
  }
  throw new Svc3Error('Timeout', `${who} has no SSH server that answers`);
}

/** Whether anything comes before the stream ends; the stream is closed in any case. */
function speaks(stream: Duplex, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const end = (answer: boolean) => () => {
      resolve(answer);
      stream.destroy();
    };
    stream.on('error', end(false));
    stream.once('close', end(false));
    stream.once('end', end(false));
    stream.once('data', end(true));
    signal.addEventListener('abort', end(false), { once: true });
  });
}
