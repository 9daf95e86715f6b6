import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import type { ErrorReason } from '../../../src/errors.ts';
import { applyPatch, retryDelay } from '../../../src/kube/retry.ts';
import type { RawRequest } from '../../../src/kube/types.ts';

const get: RawRequest = { method: 'GET', path: '/a' };
const apply: RawRequest = { method: 'PATCH', path: '/a', contentType: applyPatch };
const merge: RawRequest = { method: 'PATCH', path: '/a', contentType: 'application/merge-patch+json' };
const post: RawRequest = { method: 'POST', path: '/a' };

const failed = (reason: ErrorReason, retryAfterSeconds?: number, neverSent = false) => ({
  error: new Svc3Error(reason, reason, {
    details: retryAfterSeconds === undefined ? {} : { retryAfterSeconds },
  }),
  neverSent,
});

test.each([
  ['a read is repeated after 500', get, failed('InternalError'), true],
  ['a read is repeated after a lost connection', get, failed('ServiceUnavailable'), true],
  ['a server-side apply is repeated after a lost connection', apply, failed('ServiceUnavailable'), true],
  ['a create is not repeated after a lost connection', post, failed('ServiceUnavailable'), false],
  ['a merge patch is not repeated after a lost connection', merge, failed('ServiceUnavailable'), false],
  ['a create is repeated when it was never sent', post, failed('ServiceUnavailable', undefined, true), true],
  ['a create is repeated after 429', post, failed('TooManyRequests'), true],
  ['a create is repeated after 503 with Retry-After', post, failed('ServiceUnavailable', 1), true],
  ['a create said to be idempotent is repeated', { ...post, idempotent: true }, failed('BadGateway'), true],
  ['a read is not repeated after 404', get, failed('NotFound'), false],
  ['a read is not repeated after 403', get, failed('Forbidden'), false],
  ['a conflict is the caller’s', apply, failed('Conflict'), false],
  ['an abort is not repeated', get, { error: new Error('aborted'), neverSent: false }, false],
])('%s', (_sentence, request, failure, repeated) => {
  expect(retryDelay(request, failure, 1, 60_000) !== undefined).toBe(repeated);
});

describe('the delay', () => {
  test('is within its bounds for any attempt and never outlasts the call', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        fc.integer({ min: 1, max: 60_000 }),
        (attempt, random, left) => {
          const delay = retryDelay(get, failed('InternalError'), attempt, left, () => random);
          if (delay !== undefined) {
            expect(delay).toBeGreaterThanOrEqual(0);
            expect(delay).toBeLessThanOrEqual(Math.min(5_000, 100 * 2 ** attempt));
            expect(delay).toBeLessThan(left);
          }
        },
      ),
    );
  });

  test('honours Retry-After with a little more', () => {
    expect(retryDelay(post, failed('TooManyRequests', 2), 1, 60_000, () => 0)).toBe(2_000);
    expect(retryDelay(post, failed('TooManyRequests', 2), 1, 60_000, () => 0.5)).toBe(2_125);
    expect(retryDelay(post, failed('TooManyRequests', 2), 1, 1_500)).toBeUndefined();
  });

  test('ends with the sixth attempt', () => {
    expect(retryDelay(get, failed('InternalError'), 6, 60_000)).toBeUndefined();
  });
});
