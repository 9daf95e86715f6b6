import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { together } from '../together.ts';
import { nodes } from './args.ts';
import { runState } from './bringdown.ts';
import type { GuestAgent } from './agent.ts';
import type { Machine } from './machine.ts';
import type { Qmp } from './qmp.ts';
import { qemuImg } from './qemuimg.ts';
import { catchUpAfter, thaw } from './standstill.ts';

export interface CopyContext {
  readonly target: string;
  readonly virtualSize: number;
  readonly signal: AbortSignal;
  readonly onProgress: (percent: number) => void;
}

/** Of a guest that runs: what its copy does with it is over, and verbs may change it again. */
export type LiveCopyContext = CopyContext & { readonly onGoesOn: () => void };

export interface CopyOutcome {
  readonly consistency: string;
  readonly message: string;
}

interface Job {
  id: string;
  status: string;
  'current-progress': number;
  'total-progress': number;
  error?: string;
}

const options = ['-o', 'compression_type=zstd'];
const progressEveryMs = 200;

/** Of the job and of the node that it writes to: one copy is made at a time. */
const copyName = 'export0';

/** The disk of a VM that does not run: nothing writes to it (QEMU's lock sees to that). */
export async function copyStopped(overlay: string, context: CopyContext): Promise<CopyOutcome> {
  const args = ['convert', '-f', 'qcow2', '-O', 'qcow2', '-c', ...options, overlay, context.target];
  await qemuImg(args, { timeoutMs: 24 * 3_600_000, signal: context.signal });
  return { consistency: 'Stopped', message: 'the VM was stopped' };
}

/** The disk of a running or suspended VM, made consistent by freezing the guest's file systems, or else by a pause of the guest. */
export function copyLive(machine: Machine, context: LiveCopyContext): Promise<CopyOutcome> {
  return copyAt(machine, context, (begin) => atRest(machine, begin).finally(context.onGoesOn));
}

/**
 * The disk as it is at one moment, while the guest goes on: QEMU's backup job keeps what the guest overwrites.
 *
 * @param moment - calls `begin` when the disk is as it is to be copied
 * @param meanwhile - what else is done while the copy is under way
 */
export async function copyAt<T>(
  { qmp }: Pick<Machine, 'qmp'>,
  context: CopyContext,
  moment: (begin: () => Promise<unknown>) => Promise<T>,
  meanwhile: (outcome: T, signal: AbortSignal) => Promise<void> = async () => undefined,
): Promise<T> {
  await qemuImg(['create', '-q', '-f', 'qcow2', ...options, context.target, `${context.virtualSize}`]);
  const target = {
    driver: 'qcow2',
    'node-name': copyName,
    file: { driver: 'file', filename: context.target },
    discard: 'unmap',
  };
  await clear(qmp);
  try {
    await qmp.execute('blockdev-add', target);
    const outcome = await moment(() =>
      qmp.execute('blockdev-backup', {
        'job-id': copyName,
        device: nodes.disk,
        target: copyName,
        sync: 'full',
        compress: true,
        'auto-dismiss': false,
      }),
    );
    await together(
      context.signal,
      (signal) => followJob(qmp, copyName, { ...context, signal }),
      (signal) => meanwhile(outcome, signal),
    );
    return outcome;
  } finally {
    await clear(qmp).catch(() => undefined);
  }
}

/**
 * Takes away what a try before has left: QEMU carries a command out also when nobody waits for its answer any more, and its monitor
 * answers in order.
 */
async function clear(qmp: Qmp): Promise<void> {
  const job = await jobNamed(qmp, copyName);
  if (job !== undefined) {
    if (job.status !== 'concluded') await qmp.execute('job-cancel', { id: copyName });
    await untilConcluded(qmp);
    await qmp.execute('job-dismiss', { id: copyName });
  }
  const known = await qmp.execute<{ 'node-name'?: string }[]>('query-named-block-nodes', { flat: true });
  if (known.some((node) => node['node-name'] === copyName))
    await qmp.execute('blockdev-del', { 'node-name': copyName });
}

/** A job stays until it is dismissed; one that is gone all the same is not waited for. */
async function untilConcluded(qmp: Qmp): Promise<void> {
  for (;;) {
    const job = await jobNamed(qmp, copyName);
    if (job === undefined) throw new Error('the copy was lost');
    if (job.status === 'concluded') return;
    await delay(progressEveryMs);
  }
}

async function jobNamed(qmp: Qmp, id: string): Promise<Job | undefined> {
  return (await qmp.execute<Job[]>('query-jobs')).find((job) => job.id === id);
}

/**
 * Begins a copy at a moment at which the disk is as consistent as can be had; the guest goes on as it did. Meanwhile nobody else may stop or
 * continue it: a guest that was suspended in between would run on.
 */
export async function atRest(machine: Machine, begin: () => Promise<unknown>): Promise<CopyOutcome> {
  const { qmp, agent } = machine;
  if ((await runState(qmp)) !== 'running') {
    await begin();
    return { consistency: 'Paused', message: 'the VM was suspended' };
  }
  const frozen = await agent.alone(() => whileFrozen(agent, begin));
  if (frozen !== undefined) return frozen;
  const since = performance.now();
  try {
    await qmp.execute('stop');
    await begin();
  } finally {
    // Also where the answer came too late: the guest is paused then.
    await qmp.execute('cont');
    catchUpAfter(agent, performance.now() - since);
  }
  return {
    consistency: 'Paused',
    message:
      'no guest agent froze the file systems: the VM was paused for the copy, which is as after a power cut',
  };
}

/** Undefined where the agent freezes nothing: the copy has not begun. */
async function whileFrozen(
  agent: GuestAgent,
  begin: () => Promise<unknown>,
): Promise<CopyOutcome | undefined> {
  if (!(await freeze(agent))) return undefined;
  let isThawed = false;
  try {
    await begin();
  } finally {
    isThawed = await thaw(agent);
  }
  const message = "the guest's file systems were frozen at the moment of the copy";
  return {
    consistency: 'Frozen',
    message: isThawed
      ? message
      : `${message}; the guest agent has not said since that they are not: restart the VM if it hangs`,
  };
}

async function freeze(agent: GuestAgent): Promise<boolean> {
  if (!(await agent.isAnswering())) return false;
  try {
    const frozen = await agent.execute<number>('guest-fsfreeze-freeze', undefined, { timeoutMs: 15_000 });
    if (frozen > 0) return true;
  } catch {
    // A freeze that timed out may still come: the thaw below ends it.
  }
  await thaw(agent);
  return false;
}

async function followJob(qmp: Qmp, id: string, context: CopyContext): Promise<void> {
  for (;;) {
    const job = await jobNamed(qmp, id);
    if (job === undefined) throw new Error('the copy was lost');
    if (job['total-progress'] > 0)
      context.onProgress(Math.floor((99 * job['current-progress']) / job['total-progress']));
    if (context.signal.aborted && job.status === 'running') await qmp.execute('job-cancel', { id });
    if (job.status === 'concluded') {
      await qmp.execute('job-dismiss', { id });
      if (job.error !== undefined) throw new Error(job.error);
      context.signal.throwIfAborted();
      await stat(context.target);
      return;
    }
    await delay(progressEveryMs);
  }
}
