import { setTimeout as delay } from 'node:timers/promises';
import type { Machine } from './machine.ts';
import type { Qmp } from './qmp.ts';
import { shutdownSteps, type ShutdownAction } from './shutdown.ts';

/**
 * States in which there is no guest left that could hear the power button. A QEMU that says nothing is none of them: on a loaded
 * node it may only be slow, and its guest would lose what it has not written yet.
 */
const beyondAsking: ReadonlySet<string> = new Set([
  'shutdown',
  'guest-panicked',
  'internal-error',
  'prelaunch',
]);

/** So long a QEMU that has closed its connections takes to end at most: it gives memory back, in milliseconds. */
const endsWithinMs = 5_000;

/** Takes a guest down within the time: asked first, made at the end. Resolves when QEMU is gone. */
export async function bringDown(machine: Machine, qmp: Qmp, graceMs: number): Promise<void> {
  const gone = new AbortController();
  void machine.exited.then(() => gone.abort());
  const begin = performance.now();
  const status = await queryStatus(qmp);
  if (beyondAsking.has(status)) void perform(machine, qmp, 'quit');
  for (const step of shutdownSteps(graceMs, status !== 'running')) {
    await delay(Math.max(0, begin + step.atMs - performance.now()), undefined, { signal: gone.signal }).catch(
      () => undefined,
    );
    if (gone.signal.aborted) break;
    void perform(machine, qmp, step.action);
  }
  await machine.exited;
}

/** Ends QEMU without asking the guest. */
export async function endNow(machine: Machine): Promise<void> {
  await perform(machine, machine.qmp, 'quit');
  const late = setTimeout(() => machine.kill(), 5000);
  await machine.exited;
  clearTimeout(late);
}

/**
 * QEMU's own word for what it does.
 *
 * @throws Error where it does not answer: that says nothing about its guest.
 */
export async function runState(qmp: Qmp, options?: { readonly timeoutMs: number }): Promise<string> {
  const { status } = await qmp.execute<{ status: string }>('query-status', undefined, options);
  return status;
}

/** The same at once, for whom `unknown` does as well: QEMU does not answer. */
export async function queryStatus(qmp: Qmp): Promise<string> {
  return runState(qmp, { timeoutMs: 1000 }).catch(() => 'unknown');
}

/**
 * Whether QEMU has ended, or is about to: its connections end before its process does, and it answers nobody by then. One that neither answers
 * nor ends has not.
 *
 * @param timeoutMs - only tests change it
 */
export async function hasEnded(
  { qmp, exited }: Pick<Machine, 'qmp' | 'exited'>,
  timeoutMs = endsWithinMs,
): Promise<boolean> {
  const answers = runState(qmp, { timeoutMs }).then(
    () => false,
    () => delay(timeoutMs, false, { ref: false }),
  );
  return Promise.race([answers, exited.then(() => true)]);
}

async function perform(machine: Machine, qmp: Qmp, action: ShutdownAction): Promise<void> {
  const steps: Record<ShutdownAction, () => Promise<unknown>> = {
    continue: () => qmp.execute('cont'),
    powerdown: () => qmp.execute('system_powerdown'),
    agentShutdown: () => machine.agent.send('guest-shutdown', { mode: 'powerdown' }),
    quit: () => qmp.execute('quit'),
    kill: () => Promise.resolve(machine.kill()),
  };
  await steps[action]().catch(() => undefined);
}
