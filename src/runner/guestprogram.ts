import { setTimeout as delay } from 'node:timers/promises';
import type { GuestAgent } from './agent.ts';

type Agent = Pick<GuestAgent, 'execute'>;

interface Patience {
  /** The time that the program has to end. */
  readonly withinMs: number;
  /** Between two looks: each of them takes the guest's time. */
  readonly everyMs: number;
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
export async function waitForEnd(agent: Agent, pid: number, { withinMs, everyMs }: Patience): Promise<void> {
  const until = performance.now() + withinMs;
  while (performance.now() < until) {
    const { exited, exitcode, signal } = await agent.execute<ExecStatus>('guest-exec-status', { pid });
    if (exited && exitcode === 0) return;
    if (exited) throw new Error(signal === undefined ? `exit code ${exitcode}` : `ended by signal ${signal}`);
    await delay(everyMs);
  }
  throw new Error(`not done after ${withinMs / 1000} s`);
}
