import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../errors.ts';
import type { GuestAgent } from './agent.ts';

type Agent = Pick<GuestAgent, 'execute'>;

/** How the end of a program in the guest is polled for. */
interface Polling {
  /** The time that the program has to end. */
  readonly withinMs: number;
  /** Between two looks: each of them takes the guest's time. */
  readonly everyMs: number;
  /** The guest has ended. */
  readonly signal?: AbortSignal;
}

interface ExecStatus {
  readonly exited: boolean;
  readonly exitcode?: number;
  readonly signal?: number;
}

/**
 * Starts a program of the guest. What it prints is not kept: the agent would take it for running while anything that it has left behind has its output open.
 *
 * @param input - what it reads from its standard input
 * @returns its process ID
 * @throws Error where there is no such program, or the agent starts none
 */
export async function startProgram(
  agent: Agent,
  path: string,
  arg: readonly string[],
  input?: string,
): Promise<number> {
  const data = input === undefined ? {} : { 'input-data': Buffer.from(input).toString('base64') };
  const { pid } = await agent.execute<{ pid: number }>('guest-exec', { path, arg, ...data });
  return pid;
}

/**
 * Waits for the end of a program that was started in the guest.
 *
 * @throws Error where it has failed or not ended in time, in words that go on from its name
 */
export async function waitForEnd(agent: Agent, pid: number, polling: Polling): Promise<void> {
  const { exitcode, signal } = await endOf(agent, pid, polling);
  if (exitcode === 0) return;
  throw new Error(signal === undefined ? `exit code ${exitcode}` : `ended by signal ${signal}`);
}

/**
 * How a program that was started in the guest has ended. A look that fails says nothing of it: a guest whose file systems are frozen, or that is
 * paused, tells nothing for a while.
 *
 * @throws Error where it has not ended in time
 */
export async function endOf(
  agent: Agent,
  pid: number,
  { withinMs, everyMs, signal: gone }: Polling,
): Promise<Pick<ExecStatus, 'exitcode' | 'signal'>> {
  const until = performance.now() + withinMs;
  let failure = '';
  while (performance.now() < until) {
    if (gone?.aborted === true) throw new Error('the guest has ended');
    const status = await agent
      .execute<ExecStatus>('guest-exec-status', { pid })
      .catch((error: unknown) => void (failure = `: ${messageOf(error)}`));
    if (status?.exited === true) return status;
    await delay(everyMs);
  }
  throw new Error(`not done after ${withinMs / 1000} s${failure}`);
}
