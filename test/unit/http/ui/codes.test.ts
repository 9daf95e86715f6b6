import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createSealer } from '../../../../src/http/auth/seals.ts';
import type { Call, Route } from '../../../../src/http/call/route.ts';
import { createCodeRoute } from '../../../../src/http/ui/routes.ts';
import { createSessions } from '../../../../src/http/ui/sessions.ts';

let route: Route;

beforeEach(() => {
  vi.useFakeTimers();
  route = createCodeRoute(createSessions(createSealer(randomBytes(32))));
});
afterEach(() => {
  vi.useRealTimers();
});

function ask(key: string): void {
  const call = { caller: { key }, header: () => 'Bearer token' };
  void route.handler(call as unknown as Call<unknown, unknown, unknown>);
}
const askOften = (key: string) => {
  for (let n = 0; n < 10; n += 1) ask(key);
};

test('nobody gets any number of codes: each that is used leaves an Event behind', async () => {
  askOften('ann');
  expect(() => ask('ann')).toThrow(expect.objectContaining({ reason: 'TooManyRequests' }));
  askOften('ben');
  await vi.advanceTimersByTimeAsync(59_000);
  expect(() => ask('ann')).toThrow('codes');
  await vi.advanceTimersByTimeAsync(1_000);
  askOften('ann');
});
