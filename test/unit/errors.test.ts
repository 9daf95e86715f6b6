import { describe, expect, test } from 'vitest';
import {
  errorTable,
  type ErrorReason,
  isPassing,
  leavesOpen,
  shortened,
  Svc3Error,
} from '../../src/errors.ts';

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

describe('what somebody else has written', () => {
  test('stays as it is where it is short enough', () => {
    expect(shortened('grün', 4)).toBe('grün');
  });

  test('is cut where it is not, and shows that it was', () => {
    expect(shortened('abcdef', 4)).toBe('abc…');
  });

  test('gives no command to a terminal', () => {
    expect(shortened('\u001b]0;x\u0007a\r\n\u009b2Jb', 40)).toBe(' ]0;x a 2Jb');
  });

  test('has no half of a character where it is cut', () => {
    expect(shortened('ab😀cd', 4).isWellFormed()).toBe(true);
  });
});
