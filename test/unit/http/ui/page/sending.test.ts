import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError } from '../../../../../src/http/ui/page/api.ts';
import { sendAll, type UploadState } from '../../../../../src/http/ui/page/sending.ts';

const noServer = new ApiError(0, 'the server does not answer');
/** What becomes of a part, and of who asks how far the upload is. */
const sendFrom = vi.fn<(offset: number) => Promise<void>>();
const howFar = vi.fn<() => Promise<UploadState>>();
let stopping: AbortController;
let said: (string | number)[];

/** Begins an upload; how it ended is told to the mock. */
function begun() {
  const over = vi.fn();
  const progress = {
    sent: (bytes: number) => void said.push(bytes),
    waiting: (why: string) => void said.push(why),
  };
  sendAll({ sendFrom, howFar }, stopping.signal, progress).then(
    () => over('sent'),
    ({ message }: Error) => over(message),
  );
  return over;
}

beforeEach(() => {
  vi.useFakeTimers();
  sendFrom.mockReset().mockRejectedValue(noServer);
  howFar.mockReset().mockRejectedValue(noServer);
  said = [];
  stopping = new AbortController();
});
afterEach(() => void vi.useRealTimers());

test('an upload waits for the server however long it is away, says so, and goes on', async () => {
  const over = begun();
  await vi.advanceTimersByTimeAsync(600_000);
  expect(over).not.toHaveBeenCalled();
  expect(said.at(-1)).toBe('the server does not answer');
  sendFrom.mockResolvedValue();
  howFar.mockResolvedValue({ upload: 'one', offset: 7, complete: false });
  await vi.advanceTimersByTimeAsync(21_000);
  expect(over).toHaveBeenCalledWith('sent');
  expect(sendFrom).toHaveBeenLastCalledWith(7);
  expect(said.at(-1)).toBe(7);
});

test('an upload that is not there any more when the server is back ends', async () => {
  const over = begun();
  await vi.advanceTimersByTimeAsync(600_000);
  howFar.mockRejectedValue(new ApiError(404, 'no such upload'));
  await vi.advanceTimersByTimeAsync(21_000);
  expect(over).toHaveBeenCalledWith('no such upload');
});

test('who gives up an upload that waits does not wait for it', async () => {
  const over = begun();
  await vi.advanceTimersByTimeAsync(600_000);
  stopping.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect(over).toHaveBeenCalledWith('the upload was given up');
});

test('who gives up an upload while the server is asked how far it is sends no more of it', async () => {
  const answer = Promise.withResolvers<UploadState>();
  howFar.mockReturnValue(answer.promise);
  const over = begun();
  await vi.advanceTimersByTimeAsync(1_000);
  stopping.abort();
  answer.resolve({ upload: 'one', offset: 7, complete: false });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(over).toHaveBeenCalledWith('the upload was given up');
  expect(sendFrom).toHaveBeenCalledTimes(1);
});

test('a server that answers, and fails each time, is not asked without end', async () => {
  sendFrom.mockRejectedValue(new ApiError(500, 'it failed'));
  howFar.mockResolvedValue({ upload: 'one', offset: 0, complete: false });
  const over = begun();
  await vi.advanceTimersByTimeAsync(600_000);
  expect(over).toHaveBeenCalledWith('it failed');
  expect(sendFrom).toHaveBeenCalledTimes(6);
});
