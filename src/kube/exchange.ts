import type { Dispatcher } from 'undici';
import type { Headers } from './reply.ts';

/** A reply that has come to its end. */
export interface WholeReply {
  readonly statusCode: number;
  readonly headers: Headers;
  readonly text: string;
}

function textOf(chunks: readonly Buffer[]): string {
  const [first] = chunks;
  return chunks.length === 1 && first !== undefined ? first.toString() : Buffer.concat(chunks).toString();
}

/**
 * One request and its whole reply. Most calls are of this kind; undici's own `request` makes a stream, an async resource and
 * several promises for each. Rejects with the signal's reason as soon as it is aborted, else with undici's error.
 */
export function exchange(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  signal: AbortSignal,
): Promise<WholeReply> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let statusCode = 0;
    let headers: Headers = {};
    let running: Dispatcher.DispatchController | undefined;
    const onAbort = (): void => {
      reject(signal.reason as Error);
      running?.abort(signal.reason as Error);
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    dispatcher.dispatch(options, {
      onRequestStart(controller) {
        running = controller;
        if (signal.aborted) controller.abort(signal.reason as Error);
      },
      onResponseStart(_, code, replyHeaders) {
        statusCode = code;
        headers = replyHeaders;
      },
      onResponseData(_, chunk) {
        chunks.push(chunk);
      },
      onResponseEnd() {
        signal.removeEventListener('abort', onAbort);
        resolve({ statusCode, headers, text: textOf(chunks) });
      },
      onResponseError(_, error) {
        signal.removeEventListener('abort', onAbort);
        reject(error);
      },
    });
  });
}
