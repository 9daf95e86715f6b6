import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import type { GuestAgent } from './agent.ts';

/** What the owner of an image has put there to be run when a guest that waited, or was saved, is that of a VM (docs/pools.md). */
export const wokenHook = '/usr/lib/svc3/woken';

/** Of the agent of a guest that goes on at this moment. */
const answersWithinMs = 3_000;

/**
 * Tells a guest that waited or was saved whose it is: random bytes that no other guest has, the time, its host name, and to its hook all that
 * cloud-init would have told a guest that boots. A guest without an agent, or without a hook, goes on all the same: whoever made the
 * image decides what it is told.
 *
 * @returns whether the guest's agent answered.
 */
export async function introduce(
  agent: Pick<GuestAgent, 'execute' | 'isAnswering'>,
  { vm, hostname, metadata, sshAuthorizedKeys }: RunnerSpec,
  log: Pick<Logger, 'info'>,
): Promise<boolean> {
  if (!(await agent.isAnswering(answersWithinMs))) {
    log.info({}, 'the guest was told nothing: its agent does not answer');
    return false;
  }
  const name = (hostname ?? vm.name).slice(0, 63);
  const told = {
    name: vm.name,
    namespace: vm.namespace,
    uid: vm.uid,
    hostname: name,
    metadata: Object.fromEntries(metadata.map((one) => [one.name, one.value])),
    sshAuthorizedKeys,
  };
  const steps: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['random bytes', () => stir(agent)],
    ['time', () => setClock(agent)],
    ['host name', () => run(agent, 'hostname', [name])],
    ['hook', () => run(agent, wokenHook, [], JSON.stringify(told))],
  ];
  for (const [what, step] of steps) {
    await step().catch((error: unknown) => {
      log.info({ reason: messageOf(error) }, `the guest was not told its ${what}`);
    });
  }
  return true;
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

/** A kernel without a driver for QEMU's generation id makes the same random numbers in each copy of its memory. */
async function stir(agent: Pick<GuestAgent, 'execute'>): Promise<void> {
  const handle = await agent.execute<number>('guest-file-open', { path: '/dev/urandom', mode: 'w' });
  const bytes = randomBytes(256).toString('base64');
  await agent.execute('guest-file-write', { handle, 'buf-b64': bytes });
  await agent.execute('guest-file-close', { handle });
}
