import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { beforeEach, describe, expect, test } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { resumable } from '../../../src/registry/resume.ts';
import { withoutDelays } from '../delays.ts';

const all = '0123456789';

async function* broken(said: string, error: Error = new Error('cut off')): AsyncGenerator<Buffer> {
  if (said !== '') yield Buffer.from(said);
  throw error;
}

describe('a stream that is taken up again', () => {
  let offsets: number[];
  beforeEach(() => {
    offsets = [];
  });

  /** Opens what each turn says, the last one again and again. */
  const opening =
    (...turns: ((offset: number) => Readable)[]) =>
    async (offset: number): Promise<Readable> => {
      const turn = turns[Math.min(offsets.length, turns.length - 1)]!;
      offsets.push(offset);
      return turn(offset);
    };
  const rest = (offset: number): Readable => Readable.from([Buffer.from(all.slice(offset))]);
  const cut = (bytes: number, error?: Error) => (offset: number) =>
    Readable.from(broken(all.slice(offset, offset + bytes), error));

  /** What comes of it: its bytes, or the error. */
  const outcome = (stream: Readable): Promise<string> => text(stream).catch((error: Error) => error.message);

  test('gives all bytes, each once', async () => {
    withoutDelays();
    expect(await outcome(resumable(opening(rest), { size: 10 }))).toBe(all);
    expect(offsets).toEqual([0]);
  });

  test('begins where it is told', async () => {
    withoutDelays();
    expect(await outcome(resumable(opening(rest), { size: 10, start: 4 }))).toBe('456789');
    expect(offsets).toEqual([4]);
  });

  test('asks for nothing where all is there', async () => {
    withoutDelays();
    expect(await outcome(resumable(opening(rest), { size: 10, start: 10 }))).toBe('');
    expect(offsets).toEqual([]);
  });

  test('goes on from the byte that it has', async () => {
    withoutDelays();
    expect(await outcome(resumable(opening(cut(3), cut(4), rest), { size: 10 }))).toBe(all);
    expect(offsets).toEqual([0, 3, 7]);
  });

  test('goes on where it ended without an error before its end', async () => {
    withoutDelays();
    const short = (offset: number) => Readable.from([Buffer.from(all.slice(offset, offset + 3))]);
    expect(await outcome(resumable(opening(short), { size: 10 }))).toBe(all);
    expect(offsets).toEqual([0, 3, 6, 9]);
  });

  test('is given up after six times without a byte, which takes 6.3 s', async () => {
    const waited = withoutDelays();
    expect(await outcome(resumable(opening(cut(0)), { size: 10 }))).toBe('cut off');
    expect(offsets).toHaveLength(7);
    expect(waited).toEqual([100, 200, 400, 800, 1_600, 3_200]);
  });

  test('has its tries anew with every byte that comes', async () => {
    withoutDelays();
    const turns = all.split('').flatMap(() => [cut(0), cut(0), cut(0), cut(0), cut(1)]);
    expect(await outcome(resumable(opening(...turns), { size: 10 }))).toBe(all);
    expect(offsets).toHaveLength(50);
  });

  test('that sends more than it has is not believed', async () => {
    withoutDelays();
    const more = () => Readable.from([Buffer.from('01234567890')]);
    expect(await outcome(resumable(opening(more), { size: 10 }))).toBe('the source sent more than 10 bytes');
    expect(offsets).toEqual([0]);
  });

  test.each<ErrorReason>([
    'Unauthorized',
    'Forbidden',
    'NotFound',
    'Conflict',
    'RangeNotSatisfiable',
    'Invalid',
  ])('that is refused (%s) is refused', async (reason) => {
    const refusing = cut(0, new Svc3Error(reason, 'no'));
    expect(await outcome(resumable(opening(refusing), { size: 10 }))).toBe('no');
    expect(offsets).toEqual([0]);
  });

  test.each<ErrorReason>(['BadGateway', 'TooManyRequests', 'Timeout'])(
    'that could not be had this time (%s) is asked for again',
    async (reason) => {
      const away = cut(0, new Svc3Error(reason, 'not now'));
      expect(await outcome(resumable(opening(away, rest), { size: 10 }))).toBe(all);
    },
  );

  test('that nobody wants any more is not taken up again', async () => {
    withoutDelays();
    const wanted = new AbortController();
    const opened = opening((offset) => (wanted.abort(), cut(0)(offset)));
    expect(await outcome(resumable(opened, { size: 10, signal: wanted.signal }))).toBe('cut off');
    expect(offsets).toEqual([0]);
  });
});

test('who has gone waits for no other try', async () => {
  const given = new AbortController();
  let opened = 0;
  const open = (): Promise<Readable> => {
    opened += 1;
    // While the wait for the next try is under way.
    setTimeout(() => given.abort(), 5);
    return Promise.reject(new Error('away'));
  };
  await expect(text(resumable(open, { size: 10, signal: given.signal }))).rejects.toThrow('abort');
  expect(opened).toBe(1);
});

describe('a stream that is given up', () => {
  /** Gives five bytes, and then nothing. */
  const stalled = () => {
    const source = new Readable({ read: () => undefined });
    source.push('01234');
    return source;
  };

  test('lets go of a source that gives nothing, and does not take it up again', async () => {
    withoutDelays();
    const sources: Readable[] = [];
    const open = async () => sources[sources.push(stalled()) - 1]!;
    const stream = resumable(open, { size: 10 });
    await once(stream, 'data');
    stream.destroy();
    await once(stream, 'close');
    expect(sources.map(({ destroyed }) => destroyed)).toEqual([true]);
  });

  test('lets go of a source that opens too late', async () => {
    withoutDelays();
    const opening = Promise.withResolvers<Readable>();
    const asked = Promise.withResolvers<void>();
    const open = () => (asked.resolve(), opening.promise);
    const stream = resumable(open, { size: 10 });
    stream.resume();
    await asked.promise;
    stream.destroy();
    const source = stalled();
    opening.resolve(source);
    await once(stream, 'close');
    expect(source.destroyed).toBe(true);
  });

  test('waits for no other try', async () => {
    withoutDelays();
    const tried = Promise.withResolvers<void>();
    let opened = 0;
    const stream = resumable(
      () => {
        opened += 1;
        tried.resolve();
        return Promise.reject(new Error('away'));
      },
      { size: 10 },
    );
    stream.resume();
    await tried.promise;
    stream.destroy(new Error('enough'));
    await expect(once(stream, 'close')).rejects.toThrow('enough');
    await expect.poll(() => stream.closed).toBe(true);
    expect(opened).toBe(1);
  });
});
