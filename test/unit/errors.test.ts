import { describe, expect, test } from 'vitest';
import { errorTable, type ErrorReason, isPassing, leavesOpen, Svc3Error } from '../../src/errors.ts';

const reasons = Object.keys(errorTable) as ErrorReason[];
const those = (is: (error: unknown) => boolean) =>
  reasons.filter((reason) => is(new Svc3Error(reason, 'no')));

describe('a refusal', () => {
  test('leaves open whether it was done where the server fell silent or failed', () => {
    expect(those(leavesOpen).sort()).toEqual([
      'BadGateway',
      'InternalError',
      'ServiceUnavailable',
      'Timeout',
    ]);
  });

  test('passes where that is so, or the server is busy', () => {
    expect(those(isPassing).filter((reason) => !those(leavesOpen).includes(reason))).toEqual([
      'TooManyRequests',
    ]);
  });

  test.each([leavesOpen, isPassing])('of another kind is neither: a fault of our own', (is) => {
    expect(is(new TypeError('no'))).toBe(false);
  });
});
