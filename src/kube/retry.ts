import { backoffDelay } from '../backoff.ts';
import { isSvc3Error, leavesOpen } from '../errors.ts';
import { isUntrusted } from './errors.ts';
import type { RawRequest } from './types.ts';

export const applyPatch = 'application/apply-patch+yaml';

const times = { baseMs: 200, maxMs: 5_000, jitter: 1 } as const;
const attempts = 6;

/** What one attempt of a call came to. */
export interface Failure {
  readonly error: unknown;
  /** The request cannot have reached the server. */
  readonly neverSent: boolean;
}

function isIdempotent(request: RawRequest): boolean {
  return (
    request.idempotent ??
    (request.method === 'GET' || (request.method === 'PATCH' && request.contentType === applyPatch))
  );
}

function mayRepeat(request: RawRequest, { error, neverSent }: Failure): boolean {
  if (!isSvc3Error(error) || isUntrusted(error.cause)) return false;
  if (neverSent || error.reason === 'TooManyRequests') return true;
  // With Retry-After the server says that it has refused before doing anything.
  if (error.reason === 'ServiceUnavailable' && error.details.retryAfterSeconds !== undefined) return true;
  return isIdempotent(request) && leavesOpen(error);
}

/**
 * Milliseconds until the next attempt, or undefined where there is to be none: exponential with full jitter, or the
 * server's Retry-After plus a little so that callers do not return all at once.
 * @param attempt - how many attempts have failed, from 1
 * @param leftMs - time left of the whole call
 */
export function retryDelay(
  request: RawRequest,
  failure: Failure,
  attempt: number,
  leftMs: number,
  random: () => number = Math.random,
): number | undefined {
  if (attempt >= attempts || !mayRepeat(request, failure)) return undefined;
  const retryAfter = isSvc3Error(failure.error) ? failure.error.details.retryAfterSeconds : undefined;
  const delay =
    retryAfter === undefined ? backoffDelay(attempt, times, random) : retryAfter * 1000 + random() * 250;
  return delay < leftMs ? delay : undefined;
}
