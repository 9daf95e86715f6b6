import { expect, test } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { FailureCount } from '../../../src/kube/failurecount.ts';

const forbidden = new Svc3Error('Forbidden', 'no watch');
const expired = new Svc3Error('Expired', 'too old resource version');

test('watches that fail are counted whatever lists come between, until one is alive', () => {
  const count = new FailureCount();
  const fails = () => {
    count.listed();
    return count.failed('watch', forbidden);
  };
  expect([fails(), fails(), fails()]).toEqual([1, 2, 3]);
  count.watched();
  expect(fails()).toBe(1);
});

test('lists that fail are counted until one succeeds, and not as failures of the watch', () => {
  const count = new FailureCount();
  expect([count.failed('list', forbidden), count.failed('list', forbidden)]).toEqual([1, 2]);
  count.listed();
  expect(count.failed('watch', forbidden)).toBe(1);
  expect(count.failed('list', forbidden)).toBe(1);
});

test('a version that is gone is listed at once, but not again where that has mended nothing', () => {
  const count = new FailureCount();
  const away = [count.failed('watch'), count.failed('watch')];
  expect([...away, count.failed('watch', expired)]).toEqual([1, 2, 0]);
  count.listed();
  expect([count.failed('watch', expired), count.failed('watch', expired)]).toEqual([1, 2]);
  count.watched();
  expect(count.failed('watch', expired)).toBe(0);
});

test('a list whose version is gone waits', () => {
  expect(new FailureCount().failed('list', expired)).toBe(1);
});
