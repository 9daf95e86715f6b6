import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { poll } from '../../../src/cli/poll.ts';
import { Svc3Error } from '../../../src/errors.ts';

const away = new Svc3Error('BadGateway', 'away');

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

/** What is told within `ms`, and how it ended. */
async function told(answers: (string | Error)[], ms: number) {
  const stopping = new AbortController();
  const heard: string[] = [];
  const read = async () => {
    const answer = answers.shift() ?? 'last';
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const reading = (async () => {
    for await (const text of poll(read, stopping.signal)) heard.push(text);
  })().catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(ms);
  stopping.abort();
  return { heard, error: await reading };
}

test('what is read is told once a second until one has enough', async () => {
  expect(await told(['a', 'b'], 2_500)).toEqual({ heard: ['a', 'b', 'last'], error: undefined });
});

test('a server that cannot be reached at all is told at once', async () => {
  expect(await told([away], 0)).toEqual({ heard: [], error: away });
});

test('a server that is away for a while is asked again, for a minute', async () => {
  expect(await told(['a', away, away, 'b'], 4_500)).toMatchObject({ heard: ['a', 'b', 'last'] });
  const error = await told(['a', ...Array.from({ length: 100 }, () => away)], 70_000);
  expect(error).toEqual({ heard: ['a'], error: away });
});
