import { setTimeout as delay } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { ApiClient, ApiRequest } from '../../../../../src/cli/service/http/client.ts';
import { uploadResumably } from '../../../../../src/cli/service/http/upload.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { withFakeTimers } from '../../../timers.ts';

const location = '/api/v1/namespaces/x/upload/image/mine/1';
const away = new Svc3Error('ServiceUnavailable', 'away');

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

const begun: Answered = { status: 201, headers: { location, 'upload-offset': '0' } };
const halfway: Answered = { status: 200, headers: { 'upload-offset': '2' } };

/** What the API is asked for by an upload, each part of which it takes like this, and how the upload ends. */
async function upload(
  take: (content: Readable) => Promise<unknown>,
  {
    signal,
    isGone = false,
    begins = begun,
    states = [],
    reopened,
  }: {
    readonly signal: AbortSignal;
    readonly isGone?: boolean;
    readonly begins?: Answered;
    /** What it says of how far the upload is, before it says that it is at its beginning. */
    readonly states?: readonly Answered[];
    readonly reopened?: (offset: number) => void;
  },
) {
  const asked: string[] = [];
  const limits: (AbortSignal | undefined)[] = [];
  const left = [...states];
  const api = {
    baseUrl: 'https://svc3.example.com',
    async stream({ method, path }: ApiRequest) {
      asked.push(`${method} ${path}`);
      const answer = method === 'HEAD' ? (left.shift() ?? begun) : begins;
      return { ...answer, body: Readable.from([]) };
    },
    async json({ method, path, stream, signal: limit }: ApiRequest) {
      asked.push(`${method} ${path}`);
      if (stream !== undefined) return { status: 202, value: await take(stream.content) };
      limits.push(limit);
      if (isGone) throw away;
      return { status: 200, value: {} };
    },
  } as unknown as ApiClient;
  const request = {
    name: 'mine',
    filename: 'disk',
    size: 4,
    body: Readable.from(['disk']),
    reopen: async (offset: number) => {
      reopened?.(offset);
      return Readable.from(['disk']);
    },
    signal,
  };
  const place = { path: '/begin', get: vi.fn() };
  const error = await uploadResumably(api, place, request).catch((thrown: unknown) => thrown);
  return { asked, limits, error };
}

const cut = async (stopping: AbortController) => {
  stopping.abort();
  throw away;
};

test('an upload that is interrupted is given up in the store, within a limit', async () => {
  const stopping = new AbortController();
  const { asked, limits, error } = await upload(() => cut(stopping), { signal: stopping.signal });
  // What the server had read when the connection broke may be written down after the first.
  const twice = [`DELETE ${location}`, `DELETE ${location}`];
  expect(asked).toEqual(['POST /begin', `PATCH ${location}`, ...twice]);
  expect(error).toBe(away);
  expect(limits).toEqual([expect.any(AbortSignal), expect.any(AbortSignal)]);
});

test('a store that is away as an upload is interrupted does not hold it', async () => {
  const stopping = new AbortController();
  const given = { signal: stopping.signal, isGone: true };
  expect((await upload(() => cut(stopping), given)).error).toBe(away);
});

test('an upload that waits for its next try is not tried again once it is interrupted', async () => {
  const stopping = new AbortController();
  void delay(50).then(() => stopping.abort());
  const failing = () => Promise.reject(away);
  const { asked } = await upload(failing, { signal: stopping.signal, isGone: true });
  expect(asked).toEqual(['POST /begin', `PATCH ${location}`, `HEAD ${location}`, `DELETE ${location}`]);
});

test.each([
  [0, 250],
  [1, 500],
])('uploads that break off together go on apart: with chance %d after %d ms', async (chance, ms) => {
  vi.useFakeTimers();
  const random = vi.spyOn(Math, 'random').mockReturnValue(chance);
  onTestFinished(() => {
    random.mockRestore();
    vi.useRealTimers();
  });
  const take = vi.fn(async () => await Promise.resolve({ name: 'mine' })).mockRejectedValueOnce(away);
  const whole = upload(take, { signal: new AbortController().signal });
  await vi.advanceTimersByTimeAsync(ms - 1);
  expect(take).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(take).toHaveBeenCalledTimes(2);
  await whole;
});

test('an upload whose turn has not come waits for it, however often it is refused', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  let refusals = 0;
  const taken = { name: 'mine' };
  const whole = upload(
    async (content) => {
      if ((refusals += 1) <= 20)
        throw new Svc3Error('TooManyRequests', 'as many uploads as may are under way');
      return (await buffer(content), taken);
    },
    { signal: new AbortController().signal },
  );
  await vi.advanceTimersByTimeAsync(60_000);
  const { asked, error } = await whole;
  expect([error, asked.filter((call) => call.startsWith('PATCH')).length]).toEqual([taken, 21]);
});

test('an upload that nobody interrupts is not given up', async () => {
  const { signal } = new AbortController();
  const taken = { name: 'mine' };
  const whole = await upload(async (content) => (await buffer(content), taken), { signal });
  expect(whole).toMatchObject({ asked: ['POST /begin', `PATCH ${location}`], error: taken });
  const refused = new Svc3Error('Forbidden', 'no');
  const { asked, error } = await upload(() => Promise.reject(refused), { signal });
  expect([asked.at(-1), error]).toEqual([`PATCH ${location}`, refused]);
});

test.each<[string, Answered]>([
  ['another status', { ...begun, status: 200 }],
  ['no place to go on at', { ...begun, headers: {} }],
])('an upload does not begin with a reply of %s', async (_, begins) => {
  const take = vi.fn();
  const { asked, error } = await upload(take, { signal: new AbortController().signal, begins });
  expect(asked).toEqual(['POST /begin']);
  expect(error).toMatchObject({
    reason: 'BadGateway',
    message: 'https://svc3.example.com does not answer as an svc3 API does',
  });
});

test('an upload asks again how far it is where a page of something in between is the answer', async () => {
  withFakeTimers();
  const sent: string[] = [];
  const offsets: number[] = [];
  const take = async (content: Readable) => {
    sent.push((await buffer(content)).toString());
    if (sent.length === 1) throw away;
    return { name: 'mine' };
  };
  const page = { status: 200, headers: { 'content-type': 'text/html' } };
  const reopened = (offset: number) => offsets.push(offset);
  const { signal } = new AbortController();
  const whole = upload(take, { signal, states: [page, halfway], reopened });
  await vi.runAllTimersAsync();
  expect((await whole).error).toEqual({ name: 'mine' });
  expect([sent, offsets]).toEqual([['disk', 'disk'], [2]]);
});
