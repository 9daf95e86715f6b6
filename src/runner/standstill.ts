import type { GuestAgent } from './agent.ts';
import { startProgram } from './guestprogram.ts';
import type { Machine } from './machine.ts';

type Agent = Pick<GuestAgent, 'execute'>;

/** Most that an agent takes whose guest has only just gone on, in milliseconds. Whoever else asks it waits meanwhile. */
const answersWithinMs = 10_000;

/** A stop as long as this leaves a clock behind that nothing in the guest may set right for hours, in milliseconds. */
const noticedMs = 1_000;

const thawWithinMs = 15_000;
const thawTries = 5;

/** Agents whose guests stood still and have not had their turn. */
const waiting = new WeakSet<object>();

/**
 * Pauses a guest.
 *
 * @throws Error where QEMU does not say in time that it has, as while it flushes a slow disk: the guest goes on then.
 */
export async function pause(machine: Pick<Machine, 'qmp' | 'agent'>): Promise<void> {
  try {
    await machine.qmp.execute('stop');
  } catch (error) {
    letGoOn(machine);
    throw error;
  }
}

/**
 * Takes back a pause that nobody was told of. QEMU does what it is told in that order, whenever it gets to it: else it would pause the guest in
 * the end, for good.
 */
export function letGoOn({ qmp, agent }: Pick<Machine, 'qmp' | 'agent'>): void {
  qmp.execute('cont', undefined, { timeoutMs: Number.POSITIVE_INFINITY }).then(
    () => catchUp(agent),
    () => undefined,
  );
}

/**
 * What a guest that stood still needs once it goes on, as after a suspension: file systems that are not frozen any more, then the time. An agent refuses
 * the time while they are. One that does not answer is told nothing. No copy freezes the guest meanwhile: what is frozen, a copy before has left so.
 * What waits for its turn does for whoever else asks, as for a guest that meets a full disk again and again.
 */
export async function catchUp(agent: Pick<GuestAgent, 'execute' | 'isAnswering' | 'alone'>): Promise<void> {
  if (waiting.has(agent)) return;
  waiting.add(agent);
  await agent.alone(async () => {
    waiting.delete(agent);
    if (!(await agent.isAnswering(answersWithinMs))) return;
    await thawWhereFrozen(agent);
    await setClock(agent).catch(() => undefined);
  });
}

/**
 * What a guest needs that was stopped for its copy and goes on. Nobody waits for it.
 *
 * @param stoppedMs - for how long, in milliseconds; NaN where it was not stopped
 */
export function catchUpAfter(agent: Parameters<typeof catchUp>[0], stoppedMs: number): void {
  if (stoppedMs >= noticedMs) void catchUp(agent);
}

/** Ends what a copy has left whose agent did not say in time that it has thawed the guest: it was paused, or on a disk without room. */
export async function thawWhereFrozen(agent: Agent): Promise<void> {
  const state = await agent.execute('guest-fsfreeze-status').catch(() => undefined);
  if (state === 'frozen') await thaw(agent);
}

/**
 * A guest left frozen hangs for good: tried until the agent says yes, or is gone.
 *
 * @returns whether it said yes
 */
export async function thaw(agent: Agent): Promise<boolean> {
  for (let tries = 0; tries < thawTries; tries += 1) {
    const isDone = await agent.execute('guest-fsfreeze-thaw', undefined, { timeoutMs: thawWithinMs }).then(
      () => true,
      () => false,
    );
    if (isDone) return true;
  }
  return false;
}

/** The clock of a guest that stood still. */
export async function setClock(agent: Agent): Promise<void> {
  try {
    await agent.execute('guest-set-time', { time: Date.now() * 1_000_000 });
  } catch {
    // The agent also sets the hardware clock, and refuses where the program for that is not installed, as on Debian 13.
    await startProgram(agent, 'date', ['-u', '-s', `@${Math.round(Date.now() / 1000)}`]);
  }
}
