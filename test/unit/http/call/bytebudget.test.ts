import { describe, expect, test, vi } from 'vitest';
import { ByteBudget } from '../../../../src/http/call/bytebudget.ts';

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

// As docs/http.md has it.
test('unless said otherwise an identity may hold 16 MiB, and all together 60', () => {
  const bodies = new ByteBudget();
  for (const identity of ['a', 'b', 'c']) {
    const held = bodies.open(identity);
    held.take(16 * 2 ** 20);
    expect(() => held.take(1)).toThrow(expect.objectContaining({ reason: 'TooManyRequests' }));
  }
  const last = bodies.open('d');
  last.take(12 * 2 ** 20);
  expect(() => last.take(1)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
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

describe('where all is taken', () => {
  /** A body that is being sent: so many bytes of it have come. */
  function sending(bodies: ByteBudget, identity: string, bytes: number) {
    const lost = vi.fn();
    const held = bodies.open(identity);
    held.receive(lost);
    held.take(bytes);
    return { held, lost };
  }

  test('who holds most loses the largest body that is still on its way, to who would hold less', () => {
    const bodies = budget();
    const small = sending(bodies, 'a', 20);
    const large = sending(bodies, 'a', 40);
    const other = sending(bodies, 'b', 40);
    const next = sending(bodies, 'c', 30);
    expect(large.lost).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ reason: 'TooManyRequests', details: { retryAfterSeconds: 1 } }),
    );
    for (const { lost } of [small, other, next]) expect(lost).not.toHaveBeenCalled();
    expect(bodies.total).toBe(90);
    large.held.release();
    expect(bodies.total).toBe(90);
  });

  test('nobody loses anything to who would hold as much', () => {
    const bodies = budget();
    const all = ['a', 'b', 'c', 'd'].map((identity) => sending(bodies, identity, 25));
    expect(() => sending(bodies, 'e', 25)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
    for (const { lost } of all) expect(lost).not.toHaveBeenCalled();
    sending(bodies, 'e', 24);
    expect(all.map(({ lost }) => lost.mock.calls.length)).toEqual([1, 0, 0, 0]);
  });

  test('however many hold as much as they can, the next has as much as each of them', () => {
    const bodies = new ByteBudget({ perProcess: 60_000, perIdentity: 16_000 });
    for (let identity = 0; identity < 100; identity += 1)
      for (let body = 0; body < 16; body += 1) {
        const held = bodies.open(`${identity}`);
        held.receive(() => undefined);
        try {
          for (let taken = 0; taken < 1000; taken += 100) held.take(100);
        } catch {
          held.release();
        }
      }
    expect(bodies.total).toBeGreaterThan(50_000);
    sending(bodies, 'next', 500);
  });

  test('a body of which nothing has come is lost to nobody: it would make no room', () => {
    const bodies = budget();
    bodies.open('a').take(60);
    const empty = sending(bodies, 'a', 0);
    bodies.open('b').take(40);
    expect(() => sending(bodies, 'c', 1)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
    expect(empty.lost).not.toHaveBeenCalled();
  });

  test('a body that has come whole is lost to nobody', () => {
    const bodies = budget();
    const { held, lost } = sending(bodies, 'a', 60);
    held.complete();
    bodies.open('b').take(40);
    expect(() => sending(bodies, 'c', 1)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
    expect(lost).not.toHaveBeenCalled();
  });
});

test('of what stays no identity has more than is left', () => {
  const bodies = budget();
  const complete = (identity: string, bytes: number): void => {
    const held = bodies.open(identity);
    held.take(bytes);
    try {
      held.complete();
    } catch (error) {
      held.release();
      throw error;
    }
  };
  for (let i = 0; i < 5; i += 1) complete('a', 10);
  expect(() => complete('a', 10)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
  for (let i = 0; i < 3; i += 1) complete('b', 10);
  expect(() => complete('b', 10)).toThrow(expect.objectContaining({ reason: 'ServiceUnavailable' }));
  complete('c', 10);
  expect(bodies.total).toBe(90);
});

test('what is not needed any longer can be taken again', () => {
  const bodies = budget();
  const held = bodies.open('a');
  held.take(60);
  held.complete();
  held.shrink(10);
  held.shrink(20);
  expect(bodies.total).toBe(10);
  for (const identity of ['b', 'c']) bodies.open(identity).take(45);
  held.release();
  expect(bodies.total).toBe(90);
});
