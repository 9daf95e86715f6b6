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
