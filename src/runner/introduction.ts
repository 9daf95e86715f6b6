import type { Logger } from 'pino';
import type { RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import type { GuestAgent } from './agent.ts';
import { renewRandomness, stir } from './reseed.ts';

type Agent = Pick<GuestAgent, 'execute' | 'isAnswering'>;
type Log = Pick<Logger, 'info' | 'warn'>;

/** What the owner of an image has put there to be run when a guest that waited, or was saved, is that of a VM (docs/pools.md). */
const wokenHook = '/usr/lib/svc3/woken';

/** Of the agent of a guest that goes on at this moment. */
const answersWithinMs = 3_000;

/** What a guest that goes on from a memory still has in common with others: nothing, its random numbers, all. */
export type Shared = 'nothing' | 'randomness' | 'identity';

/**
 * Makes a guest that goes on from the memory of its image one of its own: random numbers first, then whose it is, unless nobody's yet. A guest without an
 * agent goes on all the same.
 */
export async function wake(agent: Agent, spec: RunnerSpec, log: Log): Promise<Shared> {
  if (!(await answers(agent, log))) return 'identity';
  let shared: Shared = 'nothing';
  try {
    await renewRandomness(agent, spec.architecture);
  } catch (error) {
    log.warn({ reason: messageOf(error) }, 'the guest may have the random numbers of others');
    shared = 'randomness';
  }
  if (spec.standby === undefined) await tell(agent, spec, log);
  return shared;
}

/** Tells a guest that waited whose it is. One without an agent, or without a hook, goes on all the same: whoever made the image decides what it is told. */
export async function introduce(agent: Agent, spec: RunnerSpec, log: Log): Promise<void> {
  if (!(await answers(agent, log))) return;
  await attempt('random bytes', () => stir(agent), log);
  await tell(agent, spec, log);
}

async function answers(agent: Agent, log: Log): Promise<boolean> {
  const isAnswering = await agent.isAnswering(answersWithinMs);
  if (!isAnswering) log.info({}, 'the guest was told nothing: its agent does not answer');
  return isAnswering;
}

/** The time, its host name, and to its hook all that cloud-init would have told a guest that boots. */
async function tell(
  agent: Agent,
  { vm, hostname, metadata, sshAuthorizedKeys }: RunnerSpec,
  log: Log,
): Promise<void> {
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
  await attempt('host name', () => run(agent, 'hostname', [name]), log);
  await attempt('hook', () => run(agent, wokenHook, [], JSON.stringify(told)), log);
}

async function attempt(what: string, step: () => Promise<unknown>, log: Log): Promise<void> {
  await step().catch((error: unknown) => {
    log.info({ reason: messageOf(error) }, `the guest was not told its ${what}`);
  });
}

/** The clock of a guest that stood still. */
export async function setClock(agent: Pick<GuestAgent, 'execute'>): Promise<void> {
  try {
    await agent.execute('guest-set-time', { time: Date.now() * 1_000_000 });
  } catch {
    // The agent also sets the hardware clock, and refuses where the program for that is not installed, as on Debian 13.
    await run(agent, 'date', ['-u', '-s', `@${Math.round(Date.now() / 1000)}`]);
  }
}

function run(
  agent: Pick<GuestAgent, 'execute'>,
  path: string,
  arg: readonly string[],
  input?: string,
): Promise<unknown> {
  const data = input === undefined ? {} : { 'input-data': Buffer.from(input).toString('base64') };
  return agent.execute('guest-exec', { path, arg, ...data });
}
