import type { Logger } from 'pino';
import type { RunnerSpec } from '../api/runner.ts';
import { messageOf } from '../errors.ts';
import type { GuestAgent } from './agent.ts';

/** What the owner of an image has put there to be run when a guest that waited is that of a VM (docs/pools.md). */
export const wokenHook = '/usr/lib/svc3/woken';

/**
 * Tells a guest that waited whose it is: the time, its host name, and to its hook all that cloud-init would have told a guest that
 * boots. A guest without an agent, or without a hook, goes on all the same: whoever made the image decides what it is told.
 */
export async function introduce(
  agent: Pick<GuestAgent, 'execute'>,
  { vm, hostname, metadata, sshAuthorizedKeys }: RunnerSpec,
  log: Pick<Logger, 'info'>,
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
  const run = (path: string, arg: readonly string[], input?: string) =>
    agent.execute('guest-exec', {
      path,
      arg,
      ...(input === undefined ? {} : { 'input-data': Buffer.from(input).toString('base64') }),
    });
  const steps: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['time', () => agent.execute('guest-set-time', { time: Date.now() * 1_000_000 })],
    ['host name', () => run('hostname', [name])],
    ['hook', () => run(wokenHook, [], JSON.stringify(told))],
  ];
  for (const [what, step] of steps) {
    await step().catch((error: unknown) => {
      log.info({ reason: messageOf(error) }, `the guest was not told its ${what}`);
    });
  }
}
