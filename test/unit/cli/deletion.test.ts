import { describe, expect, test, vi } from 'vitest';
import { deleteAll } from '../../../src/cli/deletion.ts';

function given() {
  const stop = new AbortController();
  const done = vi.fn(async () => undefined);
  const ifInterrupted = vi.fn();
  return {
    stop,
    done,
    ifInterrupted,
    context: { out: { done }, signal: stop.signal, ifInterrupted, noteFailure: vi.fn() } as never,
  };
}

describe('several names', () => {
  test('are all tried, and the first failure comes out at last', async () => {
    const { context, done } = given();
    const remove = vi.fn(async (name: string) => {
      if (name !== 'c') throw new Error(`${name} stays`);
    });
    await expect(deleteAll(context, 'vm', ['a', 'b', 'c'], remove)).rejects.toThrow('a stays');
    expect(remove.mock.calls.map(([name]) => name)).toEqual(['a', 'b', 'c']);
    expect(done).toHaveBeenCalledExactlyOnceWith('vm', 'c', 'Successfully deleted vm c');
  });

  test('are left alone from Ctrl-C on, whether the deletion under way ends well or not', async () => {
    for (const fails of [true, false]) {
      const { context, stop, ifInterrupted } = given();
      const remove = vi.fn(async () => {
        stop.abort();
        if (fails) throw new Error('stopped waiting');
      });
      await expect(deleteAll(context, 'vm', ['a', 'b', 'c'], remove)).rejects.toThrow('aborted');
      expect(remove).toHaveBeenCalledOnce();
      expect(ifInterrupted).toHaveBeenCalledExactlyOnceWith(
        'deletions that have begun go on; not deleted: b, c',
      );
    }
  });
});
