import { messageOf } from '../errors.ts';

interface BreakingStream {
  on(event: 'error', listener: (error: NodeJS.ErrnoException) => void): unknown;
}

/** What is needed of a process whose output may break. */
export interface OutputHost {
  readonly stdout: BreakingStream;
  readonly stderr: BreakingStream & { write(text: string): unknown };
  exitCode?: number | string | null | undefined;
  exit(code: number): void;
}

/** What becomes of a process whose standard output has broken; see `guardOutput`. */
export interface OutputGuard {
  /** Nothing is left half done where it ends: from now on it does at once, also where it has broken before. */
  endWhenUnread(): void;
  /** The process has done its work, with this exit code. */
  end(code: number): void;
}

/**
 * What is written to a standard output that has broken is dropped, and the process goes on to its end: what it has begun is not left
 * half done. A reader that has seen enough (`svc3 vm list | head -1`) is no failure; anything else, such as a full disk, is one line
 * on standard error, and exit code 1 where the work has none of its own. Nobody can be told of a broken standard error.
 */
export function guardOutput(host: OutputHost): OutputGuard {
  let failure: NodeJS.ErrnoException | undefined;
  let state: 'goes on' | 'ends when unread' | 'has ended' = 'goes on';
  const told = (own: number): number => {
    if (failure === undefined || failure.code === 'EPIPE') return own;
    host.stderr.write(`svc3: cannot write to standard output: ${messageOf(failure)}\n`);
    return own === 0 ? 1 : own;
  };
  const end = (code: number) => {
    state = 'has ended';
    host.exitCode = told(code);
  };
  const endNow = () => {
    end(0);
    host.exit(Number(host.exitCode));
  };
  host.stdout.on('error', (error) => {
    const isFirst = failure === undefined;
    failure ??= error;
    if (state === 'ends when unread') endNow();
    else if (state === 'has ended' && isFirst) end(Number(host.exitCode));
  });
  host.stderr.on('error', () => undefined);
  return {
    endWhenUnread() {
      state = 'ends when unread';
      if (failure !== undefined) endNow();
    },
    end,
  };
}
