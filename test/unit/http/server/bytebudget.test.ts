import { expect, test } from 'vitest';
import { ByteBudget } from '../../../../src/http/server/bytebudget.ts';

const budget = () => new ByteBudget({ perProcess: 100, perIdentity: 60 });

test('all requests of an identity share what it may hold', () => {
  const bodies = budget();
  bodies.open('a').take(40);
  const second = bodies.open('a');
  second.take(20);
  expect(() => second.take(1)).toThrow(
    expect.objectContaining({ reason: 'TooManyRequests', details: { retryAfterSeconds: 1 } }),
  );
  expect(bodies.total).toBe(60);
});

test('all identities share what the process may hold', () => {
  const bodies = budget();
  bodies.open('a').take(60);
  const other = bodies.open('b');
  other.take(40);
  expect(() => other.take(1)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
});

test('what is released can be taken again, once', () => {
  const bodies = budget();
  const held = bodies.open('a');
  held.take(60);
  bodies.open('b').take(10);
  held.release();
  held.release();
  expect(bodies.total).toBe(10);
  bodies.open('a').take(60);
  expect(bodies.total).toBe(70);
});
