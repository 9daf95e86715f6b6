import { isSvc3Error, leavesOpen, messageOf, Svc3Error } from '../errors.ts';
import type { Context } from './context.ts';

/**
 * Does the same to one after the other. Every name is tried, whatever became of those before it; who presses Ctrl-C begins nothing more, and is
 * told what had failed by then.
 *
 * @param left - what is told of the names that were not tried
 * @throws Svc3Error of the first failure, which says all of them
 */
export async function eachOf(
  { signal, ifInterrupted, noteFailure }: Pick<Context, 'signal' | 'ifInterrupted' | 'noteFailure'>,
  names: readonly string[],
  left: (names: readonly string[]) => string,
  act: (name: string) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  let isCutShort = false;
  for (const [index, name] of names.entries()) {
    if (signal.aborted) {
      ifInterrupted(left(names.slice(index)));
      signal.throwIfAborted();
    }
    try {
      await act(name);
    } catch (error) {
      failures.push(error);
      isCutShort = signal.aborted && !isRefusal(error);
      if (!isCutShort) noteFailure(messageOf(error));
    }
  }
  if (!isCutShort) ifInterrupted(undefined);
  if (failures.length > 0) throw together(failures);
}

/** Whether it was said that this is not done: a wait that Ctrl-C ends fails without that. */
function isRefusal(error: unknown): boolean {
  return isSvc3Error(error) && !leavesOpen(error);
}

function together(failures: readonly unknown[]): unknown {
  const [first] = failures;
  const messages = [...new Set(failures.map(messageOf))];
  if (messages.length === 1) return first;
  const reason = isSvc3Error(first) ? first.reason : 'InternalError';
  return new Svc3Error(reason, messages.join('; '), { cause: first });
}
