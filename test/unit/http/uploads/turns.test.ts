import { Readable } from 'node:stream';
import { aroundEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { UploadTurns } from '../../../../src/http/uploads/turns.ts';
import { withFakeTimers } from '../../timers.ts';

const never = new AbortController().signal;
let turns: UploadTurns;

aroundEach((runTest) => {
  withFakeTimers();
  return runTest();
});
beforeEach(() => {
  turns = new UploadTurns({ total: 4 });
});

/** An upload that is read as its client sends it. */
function upload(identity: string, signal = never) {
  const content = new Readable({ read: () => undefined });
  const read: string[] = [];
  const over = vi.fn();
  let hasBegun = false;
  turns
    .run({ content, identity, signal }, async (pieces) => {
      hasBegun = true;
      for await (const piece of pieces) read.push(piece.toString());
      return 'sent';
    })
    .then(over, ({ reason, message }: { reason?: string; message: string }) => over(reason ?? message));
  return { content, read, over, hasBegun: () => hasBegun };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const begun = (all: readonly ReturnType<typeof upload>[]) => all.map((each) => each.hasBegun());

describe('uploads', () => {
  test('take turns, and leave places to other identities', async () => {
    const first = Array.from({ length: 4 }, () => upload('a'));
    await pass(0);
    expect(begun(first)).toEqual([true, true, false, false]);
    const other = upload('b');
    await pass(0);
    expect(other.hasBegun()).toBe(true);
    first[0]!.content.push('disk');
    first[0]!.content.push(null);
    await pass(0);
    expect([first[0]!.read, first[0]!.over.mock.calls]).toEqual([['disk'], [['sent']]]);
    expect(begun(first)).toEqual([true, true, true, false]);
    // Two places stay free for whoever comes next.
    other.content.push(null);
    await pass(0);
    expect(begun(first)).toEqual([true, true, true, false]);
  });

  test('are not read before their turn, and refused when it does not come', async () => {
    const [, , third] = Array.from({ length: 3 }, () => upload('a'));
    await pass(29_000);
    expect([third!.content.readableFlowing, third!.over.mock.calls]).toEqual([null, []]);
    // Its own: one until when it waits, one for its looks at idle ones.
    expect(vi.getTimerCount()).toBe(2);
    await pass(1_000);
    expect(third!.over.mock.calls).toEqual([['TooManyRequests']]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('whose clients have hung up wait no longer', async () => {
    const hangUp = new AbortController();
    const [, , , last] = [upload('a'), upload('a'), upload('a', hangUp.signal), upload('a')];
    await pass(1_000);
    hangUp.abort(new Error('gone'));
    await pass(0);
    expect(last.hasBegun()).toBe(false);
    await pass(29_000);
    expect(last.over.mock.calls).toEqual([['TooManyRequests']]);
  });

  test('of which nothing comes go on as long as nobody waits', async () => {
    const silent = upload('a');
    await pass(3_600_000);
    silent.content.push('late');
    silent.content.push(null);
    await pass(0);
    expect([silent.read, silent.over.mock.calls]).toEqual([['late'], [['sent']]]);
  });

  test('of which nothing comes for a minute leave their place to those that wait', async () => {
    const [silent, busy] = [upload('a'), upload('a')];
    await pass(45_000);
    busy.content.push('more');
    const next = upload('a');
    await pass(14_000);
    expect([silent.over.mock.calls, next.hasBegun()]).toEqual([[], false]);
    await pass(2_000);
    expect(silent.over.mock.calls).toEqual([['TooManyRequests']]);
    expect([busy.over.mock.calls, next.hasBegun()]).toEqual([[], true]);
  });
});

test('what is left of a body that was not read to its end stays for whoever answers its client', async () => {
  const content = Readable.from(['a', 'b', 'c'].map((piece) => Buffer.from(piece)));
  const refused = turns.run({ content, identity: 'a', signal: never }, async (pieces) => {
    await pieces[Symbol.asyncIterator]().next();
    throw new Error('no more of it');
  });
  await expect(refused).rejects.toThrow('no more of it');
  expect([content.destroyed, content.listenerCount('readable')]).toEqual([false, 0]);
});
