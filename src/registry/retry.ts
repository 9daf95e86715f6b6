import { setTimeout as delay } from 'node:timers/promises';
import { backoffDelay } from '../backoff.ts';
import { Svc3Error } from '../errors.ts';

/** What a try was answered, as far as the next one depends on it. */
interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: { dump(): Promise<void> };
}

export interface Repeating {
  /** Whether it may be asked again after this answer; without a status: after none. */
  readonly mayRepeat: (status: number | undefined) => boolean;
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

function backoffMs(attempt: number, retryAfter: string | undefined): number {
  const asked = Number(retryAfter);
  if (retryAfter !== undefined && asked >= 0) return Math.min(asked, 30) * 1000;
  return backoffDelay(attempt + 1, times);
}

/** Asks five times at most, with full jitter or as long apart as Retry-After says; the last answer counts. A `Svc3Error` is final. */
export async function repeated<T extends Answered>(
  ask: () => Promise<T>,
  { mayRepeat, signal }: Repeating,
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    const isLast = attempt + 1 >= attempts;
    const reply = await ask().catch((error: unknown) => {
      if (isLast || !mayRepeat(undefined) || error instanceof Svc3Error || signal?.aborted === true)
        throw error;
      return undefined;
    });
    if (reply !== undefined && (isLast || !mayRepeat(reply.status))) return reply;
    await reply?.body.dump();
    const waitMs = backoffMs(attempt, reply?.headers['retry-after']);
    await delay(waitMs, undefined, signal === undefined ? {} : { signal });
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
