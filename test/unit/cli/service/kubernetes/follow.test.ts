import { afterEach, describe, expect, it, vi } from 'vitest';
import { follow, type Followed } from '../../../../../src/cli/service/kubernetes/follow.ts';
import { Svc3Error } from '../../../../../src/errors.ts';

/** A cache that the test fills, and that says whether it runs. */
function aCache() {
  const listeners: (() => void)[] = [];
  const state = { objects: ['first'], runs: false, lists: 0 };
  const followed: Followed<string> = {
    list: async () => {
      state.lists += 1;
      return ['listed'];
    },
    items: () => [...state.objects],
    informers: [
      {
        onChange: (listener) => void listeners.push(listener as () => void),
        synced: () => Promise.resolve(),
        run: async (signal) => {
          state.runs = true;
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
          state.runs = false;
        },
      },
    ],
  };
  const change = (...objects: string[]) => {
    state.objects = objects;
    for (const listener of listeners) listener();
  };
  return { followed, state, change };
}

describe('a watch that has long been silent', () => {
  const away = new Svc3Error('ServiceUnavailable', 'away');
  afterEach(() => void vi.useRealTimers());

  /** What comes, within `ms`, after a minute in which nothing has changed. */
  async function proven(answers: readonly (string | Error)[], ms: number): Promise<unknown> {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    const left = ['begun', ...answers];
    const list = async () => {
      const answer = left.length > 1 ? left.shift()! : left[0]!;
      if (answer instanceof Error) throw answer;
      return [answer];
    };
    const lists = follow({ ...aCache().followed, list }, new AbortController().signal);
    await lists.next();
    await lists.next();
    const next = lists.next().then(
      ({ value }) => value as unknown,
      (error: unknown) => error,
    );
    await vi.advanceTimersByTimeAsync(60_000 + ms);
    return next;
  }

  it('asks a server that is away for a while again, for a minute', async () => {
    expect(await proven([away, away, 'back'], 2_500)).toEqual(['back']);
    expect(await proven([away], 62_000)).toBe(away);
  });

  it('tells at once that its user may no longer list', async () => {
    const refusal = new Svc3Error('Forbidden', 'no');
    expect(await proven([refusal, 'back'], 0)).toBe(refusal);
  });
});

describe('what follows a list', () => {
  it('gives the list, then the cache, then what the cache says after each change', async () => {
    const { followed, change, state } = aCache();
    const lists = follow(followed, new AbortController().signal);
    expect((await lists.next()).value).toEqual(['listed']);
    expect((await lists.next()).value).toEqual(['first']);
    change('first', 'second');
    expect((await lists.next()).value).toEqual(['first', 'second']);
    const next = lists.next();
    change('third');
    change('fourth');
    expect((await next).value).toEqual(['fourth']);
    expect(state.lists).toBe(1);
    await lists.return(undefined);
  });

  it('misses no change that comes while nobody waits', async () => {
    const { followed, change } = aCache();
    const lists = follow(followed, new AbortController().signal);
    await lists.next();
    await lists.next();
    change('a');
    change('b');
    expect((await lists.next()).value).toEqual(['b']);
    await lists.return(undefined);
  });

  it('ends with the signal, and the watches end too', async () => {
    const { followed, state } = aCache();
    const abort = new AbortController();
    const lists = follow(followed, abort.signal);
    await lists.next();
    await lists.next();
    expect(state.runs).toBe(true);
    const end = lists.next();
    abort.abort();
    expect(await end).toEqual({ done: true, value: undefined });
    expect(state.runs).toBe(false);
  });

  it('tells the refusal of the first list and watches nothing then', async () => {
    const { followed, state } = aCache();
    const refused = { ...followed, list: () => Promise.reject(new Svc3Error('Forbidden', 'no')) };
    await expect(follow(refused, new AbortController().signal).next()).rejects.toThrow('no');
    expect(state.runs).toBe(false);
  });
});
