import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import type { Accounts } from '../../../../src/http/call/accounts.ts';
import { keepLease } from '../../../../src/http/streams/streamlease.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Accounts of which one can be deleted. */
function accountsWith(state: { deleted?: boolean } = {}) {
  const listeners = new Set<() => void>();
  const accounts: Accounts = {
    isDeleted: () => state.deleted === true,
    has: () => true,
    confirm: () => Promise.resolve(),
    onDeleted(_, listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return { accounts, listeners };
}

const user = { username: 'ada' };
const fine = () => Promise.resolve();

test('a lease is looked at from time to time, and over when the right is gone', async () => {
  const over = vi.fn();
  let isAllowed = true;
  const confirm = vi.fn(() =>
    isAllowed ? Promise.resolve() : Promise.reject(new Svc3Error('Forbidden', 'no')),
  );
  keepLease({ user, confirm }, accountsWith().accounts, over);
  await vi.advanceTimersByTimeAsync(20_000);
  expect([confirm.mock.calls.length, over.mock.calls.length]).toEqual([2, 0]);
  isAllowed = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect([confirm.mock.calls.length, over.mock.calls]).toEqual([
    3,
    [[expect.objectContaining({ message: 'no' })]],
  ]);
});

test('a check that nobody answers ends nothing', async () => {
  const over = vi.fn();
  const confirm = () => Promise.reject(new Svc3Error('ServiceUnavailable', 'later'));
  const end = keepLease({ user, confirm }, accountsWith().accounts, over);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(over).not.toHaveBeenCalled();
  end();
});

test('a lease is over at its end, to the second, also one that is further away than a timer can wait', async () => {
  const over = vi.fn();
  keepLease({ user, endsAt: Date.now() + 4_000, confirm: fine }, accountsWith().accounts, over);
  await vi.advanceTimersByTimeAsync(3_999);
  expect(over).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(over.mock.calls).toEqual([[expect.objectContaining({ reason: 'Unauthorized' })]]);

  const later = vi.fn();
  const end = keepLease(
    { user, endsAt: Date.now() + 365 * 24 * 3_600_000, confirm: fine },
    accountsWith().accounts,
    later,
  );
  await vi.advanceTimersByTimeAsync(60_000);
  expect(later).not.toHaveBeenCalled();
  end();
});

test('a deleted account ends it at once, and once', async () => {
  const over = vi.fn();
  const { accounts, listeners } = accountsWith();
  keepLease({ user, confirm: fine }, accounts, over);
  for (const listener of listeners) {
    listener();
    listener();
  }
  await vi.advanceTimersByTimeAsync(60_000);
  expect(over).toHaveBeenCalledTimes(1);
  expect(listeners.size).toBe(0);
});

test('an account that was deleted meanwhile ends it before it begins', () => {
  const over = vi.fn();
  const { accounts, listeners } = accountsWith({ deleted: true });
  keepLease({ user, confirm: fine }, accounts, over);
  expect([over.mock.calls.length, listeners.size]).toEqual([1, 0]);
});
