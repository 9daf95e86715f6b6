import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { nodes } from './args.ts';
import { queryStatus } from './bringdown.ts';
import type { GuestAgent } from './agent.ts';
import type { Machine } from './machine.ts';
import type { Qmp } from './qmp.ts';
import { qemuImg } from './qemuimg.ts';

export interface CopyContext {
  readonly target: string;
  readonly virtualSize: number;
  readonly signal: AbortSignal;
  readonly onProgress: (percent: number) => void;
}

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

/** The disk of a VM that does not run: nothing writes to it (QEMU's lock sees to that). */
export async function copyStopped(overlay: string, context: CopyContext): Promise<CopyOutcome> {
  const args = ['convert', '-f', 'qcow2', '-O', 'qcow2', '-c', ...options, overlay, context.target];
  await qemuImg(args, { timeoutMs: 24 * 3_600_000, signal: context.signal });
  return { consistency: 'Stopped', message: 'the VM was stopped' };
}

/**
 * The disk as it is at one moment, while the guest goes on: QEMU's backup job keeps what the guest overwrites. The
 * moment is made consistent by freezing the guest's file systems, or else by a pause of the guest.
 */
export async function copyLive(machine: Machine, context: CopyContext): Promise<CopyOutcome> {
  const { qmp } = machine;
  const job = 'export0';
  await qemuImg(['create', '-q', '-f', 'qcow2', ...options, context.target, `${context.virtualSize}`]);
  const target = {
    driver: 'qcow2',
    'node-name': job,
    file: { driver: 'file', filename: context.target },
    discard: 'unmap',
  };
  await qmp.execute('blockdev-add', target);
  try {
    const outcome = await atRest(machine, () =>
      qmp.execute('blockdev-backup', {
        'job-id': job,
        device: nodes.disk,
        target: job,
        sync: 'full',
        compress: true,
        'auto-dismiss': false,
      }),
    );
    await followJob(qmp, job, context);
    return outcome;
  } finally {
    await qmp.execute('blockdev-del', { 'node-name': job }).catch(() => undefined);
  }
}

async function atRest(machine: Machine, begin: () => Promise<unknown>): Promise<CopyOutcome> {
  const { qmp, agent } = machine;
  if ((await queryStatus(qmp)) !== 'running') {
    await begin();
    return { consistency: 'Paused', message: 'the VM was suspended' };
  }
  if (await freeze(agent)) {
    try {
      await begin();
    } finally {
      await agent.execute('guest-fsfreeze-thaw', undefined, { timeoutMs: 30_000 }).catch(() => undefined);
    }
    return {
      consistency: 'Frozen',
      message: "the guest's file systems were frozen at the moment of the copy",
    };
  }
  await qmp.execute('stop');
  try {
    await begin();
  } finally {
    await qmp.execute('cont');
  }
  return {
    consistency: 'Paused',
    message:
      'no guest agent froze the file systems: the VM was paused for the copy, which is as after a power cut',
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

/** A guest left frozen hangs for good: tried until the agent says yes, or is gone. */
async function thaw(agent: GuestAgent): Promise<void> {
  for (let tries = 0; tries < 5; tries += 1) {
    const isDone = await agent.execute('guest-fsfreeze-thaw', undefined, { timeoutMs: 15_000 }).then(
      () => true,
      () => false,
    );
    if (isDone) return;
  }
}

async function followJob(qmp: Qmp, id: string, context: CopyContext): Promise<void> {
  for (;;) {
    const job = (await qmp.execute<Job[]>('query-jobs')).find((candidate) => candidate.id === id);
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
