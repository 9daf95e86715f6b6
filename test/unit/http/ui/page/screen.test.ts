import { expect, test, vi } from 'vitest';
import { ApiError } from '../../../../../src/http/ui/page/api.ts';
import { afterFailure, prepared } from '../../../../../src/http/ui/page/screen.ts';

const failureOf = (ticket: () => Promise<string>, load: () => Promise<string>): Promise<unknown> =>
  prepared(ticket, load).then(
    () => undefined,
    (error: unknown) => error,
  );
const ticket = async () => 'ticket';

test('a screen whose program was not loaded needs the page to be loaded again, and says so', async () => {
  const load = () => Promise.reject(new TypeError('Failed to fetch dynamically imported module'));
  expect(afterFailure(await failureOf(ticket, load))).toEqual({
    state: 'The program that shows the screen could not be loaded. Load the page again.',
    next: 'reload',
  });
});

test('no program is asked for while there is no ticket: browsers may keep that it failed', async () => {
  const load = vi.fn<() => Promise<string>>();
  const failure = await failureOf(() => Promise.reject(new ApiError(0, 'no network')), load);
  expect(load).not.toHaveBeenCalled();
  expect(afterFailure(failure)).toEqual({ state: 'no network. Trying again …', next: 'again' });
});

test('a screen that may not be had is not asked for again', () => {
  expect(afterFailure(new ApiError(403, 'no right'))).toEqual({ state: 'no right.', next: 'none' });
});

test('a screen is made of a ticket and its program', async () => {
  expect(await prepared(ticket, async () => 'program')).toEqual({ ticket: 'ticket', program: 'program' });
});
