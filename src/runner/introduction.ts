import type { Logger } from 'pino';
import { setTimeout as delay } from 'node:timers/promises';
import type { RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import type { GuestAgent } from './agent.ts';
import { chardevs } from './args.ts';
import { startProgram, waitForEnd } from './guestprogram.ts';
import type { Qmp } from './qmp.ts';
import { renewRandomness, stir } from './reseed.ts';
import { setClock, thawWhereFrozen } from './standstill.ts';

type Agent = Pick<GuestAgent, 'execute' | 'isAnswering'>;
type Log = Pick<Logger, 'info' | 'warn'>;

/** What the owner of an image has put there to be run when a guest that waited, or was saved, is that of a VM (docs/pools.md). */
export const wokenHook = '/usr/lib/svc3/woken';

/** Until it has ended a guest from a memory does not count as running. A new RSA key takes an emulated guest a minute. Looks are few: each takes the guest's time. */
const hookPolling = { withinMs: 120_000, everyMs: 100 } as const;

/** QEMU knows a moment after a guest goes on whether a program of it has the agent's port open; in milliseconds. */
const knownWithinMs = 3_000;
const lookEveryMs = 20;

/** Most that an agent takes that is there, on a node that has much else to do, in milliseconds. */
const answersWithinMs = 30_000;

/** A guest, as its agent and the monitor of its QEMU reach it. */
export interface Guest {
  readonly agent: Agent;
  readonly qmp: Pick<Qmp, 'execute'>;
  /** Resolves when QEMU has ended. */
  readonly exited?: Promise<unknown>;
}

/** What a guest that goes on from a memory may still have in common with others: all, its random numbers, what its hook would have renewed. */
export type Shared =
  | { readonly what: 'identity' | 'randomness' }
  | { readonly what: 'hook'; readonly reason: string };

/** Why the hook of a guest has not done its work. */
export interface HookFailure {
  /** Most images have none; whatever else keeps the agent from starting it, it has changed nothing. */
  readonly isStarted: boolean;
  readonly reason: string;
}

/**
 * Makes a guest that goes on from the memory of its image one of its own: random numbers first, then whose it is, unless nobody's yet. Resolves when its
 * hook has ended, or has had its time. A guest without an agent, or without a hook, goes on all the same.
 *
 * @returns what it may still have in common with others
 */
export async function wake(guest: Guest, spec: RunnerSpec, log: Log): Promise<Shared[]> {
  const agent = await answering(guest, log);
  if (agent === undefined) return [{ what: 'identity' }];
  const shared: Shared[] = [];
  try {
    await renewRandomness(agent, spec.architecture);
  } catch (error) {
    log.warn({ reason: messageOf(error) }, 'the guest may have the random numbers of others');
    shared.push({ what: 'randomness' });
  }
  if (spec.standby !== undefined) return shared;
  const failure = await tell(agent, spec, { log, signal: endOf(guest) });
  return failure === undefined ? shared : [...shared, { what: 'hook', reason: failure.reason }];
}

/**
 * Tells a guest that waited whose it is, and resolves when its hook has ended, or has had its time. One without an agent, or without a hook, goes on all
 * the same: whoever made the image decides what it is told.
 */
export async function introduce(guest: Guest, spec: RunnerSpec, log: Log): Promise<HookFailure | undefined> {
  const agent = await answering(guest, log);
  if (agent === undefined) return { isStarted: false, reason: 'its agent does not answer' };
  await attempt('random bytes', () => stir(agent), log);
  return tell(agent, spec, { log, signal: endOf(guest) });
}

function endOf({ exited }: Guest): AbortSignal {
  const ended = new AbortController();
  void exited?.then(() => ended.abort());
  return ended.signal;
}

/** The agent, which is given time for each command, of a guest that is not frozen; undefined where the guest has none that answers. */
async function answering({ agent, qmp }: Guest, log: Log): Promise<Pick<Agent, 'execute'> | undefined> {
  if (!(await hasAgent(qmp))) {
    log.info({}, 'the guest was told nothing: it has no agent');
    return undefined;
  }
  if (!(await agent.isAnswering(answersWithinMs))) {
    log.warn({}, 'the guest was told nothing: its agent does not answer');
    return undefined;
  }
  const withTimeout: Pick<Agent, 'execute'> = {
    execute: (command, args, options = {}) =>
      agent.execute(command, args, { timeoutMs: answersWithinMs, ...options }),
  };
  await thawWhereFrozen(withTimeout);
  return withTimeout;
}

interface Chardev {
  readonly label: string;
  /** Of a virtio serial port: whether a program of the guest has it open. */
  readonly 'frontend-open': boolean;
}

async function hasAgent(qmp: Pick<Qmp, 'execute'>): Promise<boolean> {
  const until = performance.now() + knownWithinMs;
  for (;;) {
    const found = await qmp.execute<Chardev[]>('query-chardev').catch(() => []);
    if (found.some(({ label, ...port }) => label === chardevs.agent && port['frontend-open'])) return true;
    if (performance.now() >= until) return false;
    await delay(lookEveryMs);
  }
}

/** The time, its host name, and to its hook all that cloud-init would have told a guest that boots. */
async function tell(
  agent: Pick<Agent, 'execute'>,
  { vm, hostname, metadata, sshAuthorizedKeys }: RunnerSpec,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<HookFailure | undefined> {
  const name = (hostname ?? vm.name).slice(0, 63);
  const told = {
    name: vm.name,
    namespace: vm.namespace,
    uid: vm.uid,
    hostname: name,
    metadata: Object.fromEntries(metadata.map((one) => [one.name, one.value])),
    sshAuthorizedKeys,
  };
  await attempt('time', () => setClock(agent), log);
  await attempt('host name', () => startProgram(agent, 'hostname', [name]), log);
  const failure = await runHook(agent, JSON.stringify(told), signal);
  if (failure?.isStarted === true) log.warn({ reason: failure.reason }, 'the hook of the guest failed');
  else if (failure !== undefined) log.info({ reason: failure.reason }, 'the guest has run no hook');
  return failure;
}

async function runHook(
  agent: Pick<Agent, 'execute'>,
  told: string,
  signal: AbortSignal,
): Promise<HookFailure | undefined> {
  let isStarted = false;
  try {
    const pid = await startProgram(agent, wokenHook, [], told);
    isStarted = true;
    await waitForEnd(agent, pid, { ...hookPolling, signal });
    return undefined;
  } catch (error) {
    return { isStarted, reason: messageOf(error) };
  }
}

async function attempt(what: string, step: () => Promise<unknown>, log: Log): Promise<void> {
  await step().catch((error: unknown) => {
    log.info({ reason: messageOf(error) }, `the guest was not told its ${what}`);
  });
}
