import { describe, expect, test, vi } from 'vitest';
import { runProcess } from '../../../src/controller/run.ts';

function fakeHost() {
  const listeners = new Map<string, (error?: unknown) => void>();
  const exit = vi.fn();
  return {
    host: {
      on: (event: string, listener: (error?: unknown) => void) => listeners.set(event, listener),
      exit,
    },
    exit,
    emit: (event: string, error?: unknown) => listeners.get(event)?.(error),
  };
}

const log = () => ({ debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() });
const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));

describe('a process', () => {
  test.each(['SIGTERM', 'SIGINT'])('ends with code 0 after %s', async (signal) => {
    const { host, exit, emit } = fakeHost();
    const lines = log();
    const run = runProcess({ name: 'p', log: lines, host, start: untilAborted });
    emit(signal);
    await run;
    expect(exit.mock.calls).toEqual([[0]]);
    expect(lines.info.mock.calls).toEqual([
      [{ component: 'p', signal }, 'stopping'],
      [{ component: 'p' }, 'stopped'],
    ]);
  });

  test.each([
    ['what it was told to end by', (signal: AbortSignal) => signal.reason as unknown, 0],
    ['something else', () => new Error('broken'), 1],
  ])('that is told to end and fails with %s ends with its code', async (_what, reasonOf, code) => {
    const { host, exit, emit } = fakeHost();
    const lines = log();
    const start = async (signal: AbortSignal): Promise<void> => {
      await untilAborted(signal);
      throw reasonOf(signal);
    };
    const run = runProcess({ name: 'p', log: lines, host, start });
    emit('SIGTERM');
    await run;
    expect(exit.mock.calls).toEqual([[code]]);
    expect(lines.error).toHaveBeenCalledTimes(code);
  });

  test('ends with code 1 when it fails, or ends by itself', async () => {
    const failing = fakeHost();
    await runProcess({
      name: 'p',
      log: log(),
      host: failing.host,
      start: () => Promise.reject(new Error('broken')),
    });
    expect(failing.exit.mock.calls).toEqual([[1]]);
    const ending = fakeHost();
    await runProcess({ name: 'p', log: log(), host: ending.host, start: () => Promise.resolve() });
    expect(ending.exit.mock.calls).toEqual([[1]]);
  });

  test('that does not stop in its grace period, or is told twice, ends with code 1', async () => {
    const slow = fakeHost();
    void runProcess({
      name: 'p',
      log: log(),
      host: slow.host,
      graceMs: 5,
      start: () => new Promise(() => undefined),
    });
    slow.emit('SIGTERM');
    await vi.waitFor(() => expect(slow.exit.mock.calls).toEqual([[1]]));
    const twice = fakeHost();
    void runProcess({
      name: 'p',
      log: log(),
      host: twice.host,
      start: () => new Promise(() => undefined),
    });
    twice.emit('SIGTERM');
    twice.emit('SIGTERM');
    expect(twice.exit.mock.calls).toEqual([[1]]);
  });

  test('that throws where nobody listens ends with code 1 and says why', async () => {
    const { host, exit, emit } = fakeHost();
    const lines = log();
    void runProcess({ name: 'p', log: lines, host, start: () => new Promise(() => undefined) });
    emit('uncaughtException', new Error('lost'));
    expect(exit.mock.calls).toEqual([[1]]);
    expect(lines.error).toHaveBeenCalledWith(
      expect.objectContaining({ err: expect.objectContaining({ message: 'lost' }) }),
      'crashed',
    );
  });
});
