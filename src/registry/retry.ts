import { setTimeout as delay } from 'node:timers/promises';
import { backoffDelay } from '../backoff.ts';
import { Svc3Error } from '../errors.ts';

/** What a try was answered, as far as the next one depends on it. */
interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
}

export interface Repeating<T> {
  /** Whether it may be asked again after this answer; without a status: after none. */
  readonly mayRepeat: (status: number | undefined) => boolean;
  /** Reads an answer after which it is asked again, and says what is thrown where there is no time for that. */
  readonly refused: (reply: T) => Promise<Error>;
  readonly signal?: AbortSignal | undefined;
}

const attempts = 5;
const times = { baseMs: 200, maxMs: 8_000, jitter: 1 } as const;
const retriable = new Set([408, 429, 500, 502, 503, 504]);

/** Whether an answer says that the next one may be another. */
export function isRetriable(status: number): boolean {
  return retriable.has(status);
}

/** Whether somebody does not want to know any more; one whose time is over (`AbortSignal.timeout`) does. */
export function isGivenUp(signal: AbortSignal | undefined): boolean {
  if (signal?.aborted !== true) return false;
  const { reason } = signal as { reason: unknown };
  return !(reason instanceof DOMException && reason.name === 'TimeoutError');
}

/** Seconds that an answer asks to wait; undefined where it does not, or in a form that is not read (a date). */
export function secondsAskedFor(headers: Answered['headers']): number | undefined {
  const { 'retry-after': retryAfter } = headers;
  const seconds = Number(retryAfter);
  return retryAfter !== undefined && seconds >= 0 ? seconds : undefined;
}

function backoffMs(attempt: number, reply: Answered | undefined): number {
  const asked = reply === undefined ? undefined : secondsAskedFor(reply.headers);
  return asked === undefined ? backoffDelay(attempt + 1, times) : Math.min(asked, 30) * 1000;
}

/**
 * Asks five times at most, with full jitter or as long apart as Retry-After says; the last answer counts. A `Svc3Error` is final. Where the signal's
 * time is over during a wait the answer before it counts (`refused`), or the error that came instead of one.
 */
export async function repeated<T extends Answered>(
  ask: () => Promise<T>,
  { mayRepeat, refused, signal }: Repeating<T>,
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    const isLast = attempt + 1 >= attempts;
    let failure: unknown;
    const reply = await ask().catch((error: unknown) => {
      if (isLast || !mayRepeat(undefined) || error instanceof Svc3Error || signal?.aborted === true)
        throw error;
      failure = error;
      return undefined;
    });
    if (reply !== undefined && (isLast || !mayRepeat(reply.status))) return reply;
    if (reply !== undefined) failure = await refused(reply);
    try {
      await delay(backoffMs(attempt, reply), undefined, signal === undefined ? {} : { signal });
    } catch (error) {
      throw isGivenUp(signal) ? error : failure;
    }
  }
}

/** A field that came more than once is one with commas. */
export function flatHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
}
