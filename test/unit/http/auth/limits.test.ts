import { expect, onTestFinished, test, vi } from 'vitest';
import { ExpiringMap } from '../../../../src/http/call/expiringmap.ts';
import { ConcurrencyLimit } from '../../../../src/http/auth/limits.ts';
import { parseDuration } from '../../../../src/wire/duration.ts';
import { createTicketSigner } from '../../../../src/http/auth/tickets.ts';

test('an identity may run as many requests as the limit, whatever others do', () => {
  const limit = new ConcurrencyLimit(2, 'requests');
  const first = limit.take('a');
  limit.take('a');
  expect(() => limit.take('a')).toThrow(/more than 2 requests/);
  limit.take('b');
  first();
  first();
  limit.take('a');
  expect(() => limit.take('a')).toThrow(
    expect.objectContaining({ reason: 'TooManyRequests', details: { retryAfterSeconds: 1 } }),
  );
  expect(limit.total).toBe(3);
});

test('a full map drops its oldest entry; a failed promise is forgotten', async () => {
  const map = new ExpiringMap<Promise<number>>(2);
  await expect(map.getOrMake('a', 1000, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await map.getOrMake('a', 1000, () => Promise.resolve(1))).toBe(1);
  expect(await map.getOrMake('a', 1000, () => Promise.resolve(2))).toBe(1);
  await map.getOrMake('b', 1000, () => Promise.resolve(2));
  await map.getOrMake('c', 1000, () => Promise.resolve(3));
  expect([map.size, map.get('a')]).toEqual([2, undefined]);
});

test('a map that is full drops no entry for one that it has already', () => {
  const map = new ExpiringMap<number>(2);
  for (const [key, value] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
  ] as const)
    map.set(key, value, 1000);
  expect([map.get('a'), map.get('b'), map.size]).toEqual([3, 2, 2]);
  // The newest of its entries is the one that was set last.
  map.set('c', 4, 1000);
  expect([map.get('a'), map.get('b')]).toEqual([3, undefined]);
  map.delete('a');
  expect([map.get('a'), map.size]).toEqual([undefined, 1]);
});

test('an entry is there until its time and not after', () => {
  let now = 500;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
  onTestFinished(() => clock.mockRestore());
  const map = new ExpiringMap<number>(2);
  map.set('a', 1, 1000);
  now += 999;
  expect(map.get('a')).toBe(1);
  now += 1;
  expect([map.get('a'), map.size]).toEqual([undefined, 0]);
});

test('a failed promise does not forget the one that came after it', async () => {
  const map = new ExpiringMap<Promise<number>>(2);
  const failed = map.getOrMake('a', 1000, () => Promise.reject(new Error('no')));
  map.set('a', Promise.resolve(2), 1000);
  await expect(failed).rejects.toThrow('no');
  expect(await map.get('a')).toBe(2);
});

test('an identity that runs nothing is not remembered', () => {
  const limit = new ConcurrencyLimit(1, 'requests');
  for (let i = 0; i < 3; i++) {
    const done = limit.take('a');
    expect(limit.total).toBe(1);
    done();
    done();
    expect(limit.total).toBe(0);
  }
});

test('an entry ends', () => {
  const map = new ExpiringMap<number>(2);
  map.set('a', 1, 0);
  expect(map.get('a')).toBeUndefined();
});

test.each([
  ['720h', 2_592_000],
  ['1h30m', 5_400],
  ['30d', 2_592_000],
  ['3600', 3_600],
  ['1.5h', 5_400],
])('%s is %i seconds', (text, seconds) => {
  expect(parseDuration(text, 'duration')).toBe(seconds);
});

test.each(['', 'soon', '-1h', '1x', '1h 2m', 'h'])('"%s" is no duration', (text) => {
  expect(() => parseDuration(text, 'duration')).toThrow(/^duration: /);
});

test('what replicas of another version have signed holds', () => {
  const ticket = 'eyJ2bSI6ImEifQ.c8POpuy4MSX9TUq0AonUmdU4QLD3EywF7nMAh6kH47Y';
  const signer = createTicketSigner(new Uint8Array(32).fill(7));
  expect(signer.verify(ticket)).toEqual({ vm: 'a' });
  expect(signer.verify(`${ticket}.`)).toBeUndefined();
});

test('a ticket holds for its claims and its key only', () => {
  const signer = createTicketSigner(new Uint8Array(32));
  const ticket = signer.sign({ vm: 'a' });
  expect(signer.verify(ticket)).toEqual({ vm: 'a' });
  const [payload, mac] = ticket.split('.');
  const other = Buffer.from(JSON.stringify({ vm: 'b' })).toString('base64url');
  expect(signer.verify(`${other}.${mac}`)).toBeUndefined();
  expect(signer.verify(`${payload}.`)).toBeUndefined();
  expect(signer.verify('nonsense')).toBeUndefined();
  expect(createTicketSigner(new Uint8Array(32).fill(1)).verify(ticket)).toBeUndefined();
});
