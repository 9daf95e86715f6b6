import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Svc3Error } from '../../../src/errors.ts';
import { flatHeaders, isRetriable, repeated } from '../../../src/registry/retry.ts';
import { withoutDelays, withTooLittleTime } from '../delays.ts';

interface Reply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: { dump: () => Promise<void> };
}

const dump = vi.fn(() => Promise.resolve());
const reply = (status: number, headers: Record<string, string> = {}): Reply => ({
  status,
  headers,
  body: { dump },
});
const lost = new Error('connection lost');
const mayRepeat = (status: number | undefined): boolean => status === undefined || isRetriable(status);
const refused = async ({ status, body }: Reply): Promise<Error> => {
  await body.dump();
  return new Error(`answered ${status}`);
};

/** Answers in this order, the last one from then on. */
function asking(...answers: (Reply | Error)[]) {
  dump.mockClear();
  return vi.fn(() => {
    const next = (answers.length > 1 ? answers.shift() : answers[0]) as Reply | Error;
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  });
}

test.each([
  [200, false],
  [400, false],
  [401, false],
  [404, false],
  [408, true],
  [429, true],
  [500, true],
  [501, false],
  [502, true],
  [503, true],
  [504, true],
  [505, false],
])('after %i the next answer may be another: %s', (status, expected) => {
  expect(isRetriable(status)).toBe(expected);
});

describe('a question', () => {
  test('that is answered is asked once', async () => {
    const [waits, ask, answer] = [withoutDelays(), asking(reply(200)), reply(200)];
    expect(await repeated(ask, { mayRepeat, refused })).toMatchObject({ status: answer.status });
    expect([ask.mock.calls.length, waits.length, dump.mock.calls.length]).toEqual([1, 0, 0]);
  });

  test('is asked again after an answer that may be another, which nobody reads', async () => {
    withoutDelays();
    const ask = asking(reply(503), reply(500), reply(404));
    expect(await repeated(ask, { mayRepeat, refused })).toMatchObject({ status: 404 });
    expect([ask.mock.calls.length, dump.mock.calls.length]).toEqual([3, 2]);
  });

  test('is asked again where none came', async () => {
    withoutDelays();
    const ask = asking(lost, reply(200));
    expect(await repeated(ask, { mayRepeat, refused })).toMatchObject({ status: 200 });
    expect(dump).not.toHaveBeenCalled();
  });

  test('is asked five times at most: the last answer counts, and is left to be read', async () => {
    withoutDelays();
    const ask = asking(reply(503));
    expect(await repeated(ask, { mayRepeat, refused })).toMatchObject({ status: 503 });
    expect([ask.mock.calls.length, dump.mock.calls.length]).toEqual([5, 4]);
    const none = asking(lost);
    await expect(repeated(none, { mayRepeat, refused })).rejects.toBe(lost);
    expect(none).toHaveBeenCalledTimes(5);
  });

  test('that may not be asked twice is not, where no answer came', async () => {
    const ask = asking(lost);
    await expect(repeated(ask, { mayRepeat: (status) => status !== undefined, refused })).rejects.toBe(lost);
    expect(ask).toHaveBeenCalledTimes(1);
  });

  test('is not asked again after an error of ours', async () => {
    const ours = new Svc3Error('Forbidden', 'no');
    const ask = asking(ours);
    await expect(repeated(ask, { mayRepeat, refused })).rejects.toBe(ours);
    expect(ask).toHaveBeenCalledTimes(1);
  });

  test('is not asked again by somebody who has gone', async () => {
    const ask = asking(lost);
    await expect(repeated(ask, { mayRepeat, refused, signal: AbortSignal.abort() })).rejects.toBe(lost);
    expect(ask).toHaveBeenCalledTimes(1);
    const gone = asking(reply(503));
    await expect(repeated(gone, { mayRepeat, refused, signal: AbortSignal.abort() })).rejects.toThrow(
      'abort',
    );
    expect(gone).toHaveBeenCalledTimes(1);
  });
});

describe('a wait between two questions that is longer than there is time', () => {
  const wait = { 'retry-after': '30' };

  test('ends with the last answer', async () => {
    const ask = asking(reply(429, wait));
    const asked = repeated(ask, { mayRepeat, refused, signal: withTooLittleTime() });
    await expect(asked).rejects.toThrow('answered 429');
    expect(ask).toHaveBeenCalledTimes(1);
  });

  test('ends with why none came', async () => {
    const asked = repeated(asking(lost), { mayRepeat, refused, signal: withTooLittleTime() });
    await expect(asked).rejects.toBe(lost);
  });

  test('ends with neither where nobody wants to know any more', async () => {
    const gone = new AbortController();
    const ask = asking(reply(429, wait));
    const asked = repeated(ask, { mayRepeat, refused, signal: gone.signal });
    gone.abort();
    await expect(asked).rejects.toThrow('abort');
  });
});

describe('the time between two questions', () => {
  async function waitsAfter(retryAfter?: string): Promise<number[]> {
    const waits = withoutDelays();
    const headers: Record<string, string> = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
    await repeated(asking(reply(503, headers)), { mayRepeat, refused });
    return waits;
  }

  test.each([
    ['0', 0],
    ['2', 2_000],
    ['30', 30_000],
    ['3600', 30_000],
  ])('is as long as Retry-After: %s says, and no longer than half a minute', async (asked, waitMs) => {
    expect(await waitsAfter(asked)).toEqual([waitMs, waitMs, waitMs, waitMs]);
  });

  test.each([undefined, '-1', 'Wed, 21 Oct 2026 07:28:00 GMT'])(
    'with Retry-After: %s is up to twice as long each time',
    async (asked) => {
      const random = vi.spyOn(Math, 'random').mockReturnValue(0.5);
      onTestFinished(() => random.mockRestore());
      expect(await waitsAfter(asked)).toEqual([100, 200, 400, 800]);
    },
  );
});

test('a field that came more than once is one with commas', () => {
  expect(flatHeaders({ one: 'a', more: ['a', 'b'], none: undefined })).toEqual({
    one: 'a',
    more: 'a, b',
    none: undefined,
  });
});
