import { expect, test } from 'vitest';
import { isRefusal } from '../../../src/controller/refusal.ts';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';

test.each<[ErrorReason, string, boolean]>([
  ['Forbidden', 'quota', true],
  ['Invalid', 'a field', true],
  ['NotFound', 'no such PriorityClass', true],
  ['InternalError', 'failed calling webhook "policy.example.com"', true],
  ['InternalError', 'etcdserver: no leader', false],
  ['ServiceUnavailable', 'away', false],
  ['Conflict', 'written since', false],
  ['TooManyRequests', 'later', false],
])('that an object was not written by %s (%s) is somebody’s decision: %s', (reason, message, expected) => {
  expect(isRefusal(new Svc3Error(reason, message))).toBe(expected);
});
