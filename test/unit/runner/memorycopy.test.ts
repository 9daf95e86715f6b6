import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { atRest } from '../../../src/runner/diskcopy.ts';
import { atOneStop } from '../../../src/runner/memorycopy.ts';
import type { Qmp } from '../../../src/runner/qmp.ts';

/** What QEMU and the guest's agent were asked, in order; of QEMU only what stops the guest and lets it go on. */
let asked: string[];
let clockMs: number;

beforeEach(() => {
  asked = [];
  clockMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => clockMs);
  onTestFinished(() => clock.mockRestore());
});

/** A QEMU whose memory is sent at once, and that stops its guest for that. */
function aQemu(): Qmp {
  const listeners = new Set<(event: { event: string }) => void>();
  return {
    execute: async (command: string) => {
      if (command === 'stop' || command === 'cont') asked.push(command);
      if (command === 'migrate') for (const tell of listeners) tell({ event: 'STOP' });
      return command === 'query-migrate' ? { status: 'completed' } : { status: 'running' };
    },
    onEvent: (listener: (event: { event: string }) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  } as never;
}

/** An agent that freezes nothing. */
const agent = {
  execute: async (command: string) => {
    if (command === 'guest-fsfreeze-freeze') return 0;
    if (command === 'guest-set-time') asked.push('guest-set-time');
    return 'thawed';
  },
  isAnswering: async () => true,
  alone: (work: () => Promise<unknown>) => work(),
} as never;

const begin = (stoppedMs: number) => async () => {
  clockMs += stoppedMs;
};

function saved(begins: () => Promise<unknown>) {
  const second = { qmp: aQemu(), socket: 'migration.sock' };
  return atOneStop({ qmp: aQemu(), agent }, second, {
    signal: new AbortController().signal,
    begin: begins,
  });
}

describe('a guest that its copy has stopped', () => {
  test('for a second is told the time once it goes on', async () => {
    const { outcome } = await saved(begin(1_000));
    expect(outcome).toMatchObject({ consistency: 'Memory', stoppedMs: 1_000 });
    await vi.waitFor(() => expect(asked.slice(-2)).toEqual(['cont', 'guest-set-time']));
  });

  test('for less is not', async () => {
    await saved(begin(999));
    await new Promise(setImmediate);
    expect(asked.at(-1)).toBe('cont');
  });

  test('and that could not be saved is told all the same', async () => {
    const failing = async () => {
      await begin(5_000)();
      throw new Error('no room');
    };
    await expect(saved(failing)).rejects.toThrow('no room');
    await vi.waitFor(() => expect(asked.slice(-2)).toEqual(['cont', 'guest-set-time']));
  });

  test('for its disk alone, where the agent has frozen nothing, is told as well', async () => {
    await atRest({ qmp: aQemu(), agent } as never, begin(1_000));
    await vi.waitFor(() => expect(asked).toEqual(['stop', 'cont', 'guest-set-time']));
  });
});
