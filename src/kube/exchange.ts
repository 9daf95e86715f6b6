import type { Dispatcher } from 'undici';
import type { Headers } from './reply.ts';

/** A reply that has come to its end. */
export interface WholeReply {
  readonly statusCode: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The end of one call from outside: what an AbortSignal is, for thousands of calls in a second. */
export class Cut {
  reason: Error | undefined = undefined;
  onCut: ((reason: Error) => void) | undefined = undefined;

  cut(reason: Error): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.onCut?.(reason);
  }
}

function textOf(chunks: readonly Buffer[], shorten: (text: Buffer) => Buffer): string {
  const [first] = chunks;
  return shorten(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks)).toString();
}

const asItIs = (text: Buffer): Buffer => text;

/**
 * One request and its whole reply. Most calls are of this kind; undici's own `request` makes a stream, an async resource and
 * several promises for each. Rejects with the cut's reason as soon as there is one, else with undici's error.
 */
export function exchange(
  dispatcher: Dispatcher,
  options: Dispatcher.DispatchOptions,
  cut: Cut,
  shorten = asItIs,
): Promise<WholeReply> {
  return new Promise((resolve, reject) => {
    if (cut.reason !== undefined) {
      reject(cut.reason);
      return;
    }
    const chunks: Buffer[] = [];
    let statusCode = 0;
    let headers: Headers = {};
    let running: Dispatcher.DispatchController | undefined;
    cut.onCut = (reason) => {
      reject(reason);
      running?.abort(reason);
    };
    dispatcher.dispatch(options, {
      onRequestStart(controller) {
        running = controller;
        if (cut.reason !== undefined) controller.abort(cut.reason);
      },
      onResponseStart(_, code, replyHeaders) {
        statusCode = code;
        headers = replyHeaders;
      },
      onResponseData(_, chunk) {
        chunks.push(chunk);
      },
      onResponseEnd() {
        resolve({ statusCode, headers, text: textOf(chunks, shorten) });
      },
      onResponseError(_, error) {
        reject(error);
      },
    });
  });
}
