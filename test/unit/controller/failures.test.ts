import { expect, test } from 'vitest';
import { Failures } from '../../../src/controller/failures.ts';

test('a pass goes on without what failed, and fails with the first of it', async () => {
  const failures = new Failures();
  expect(() => failures.throwFirst()).not.toThrow();
  expect(await failures.attempt(Promise.resolve(1), 0)).toBe(1);
  expect(failures.count).toBe(0);
  expect(await failures.attempt(Promise.reject(new Error('first')), 0)).toBe(0);
  expect(await failures.attempt(Promise.reject(new Error('second')), 0)).toBe(0);
  expect(failures.count).toBe(2);
  expect(() => failures.throwFirst()).toThrow('first');
});
