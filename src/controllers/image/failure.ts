import type { WorkFailed } from '../../api/worker.ts';
import { isRefusal } from '../../controller/refusal.ts';
import { isMemoryRefusal } from '../../api/memory.ts';
import { isPassing, isSvc3Error, messageOf } from '../../errors.ts';
import { failureFrom } from '../../worker/failure.ts';
import type { Verdict } from './decide.ts';

/** A step of the work did not succeed; it is told in a condition and tried again. */
export class StepFailed extends Error {
  override readonly name = 'StepFailed';
  readonly verdict: Verdict;

  constructor(verdict: Verdict, cause: unknown) {
    super(verdict.message, { cause });
    this.verdict = verdict;
  }
}

export function verdictOf({ reason, message }: Pick<WorkFailed, 'reason' | 'message'>): Verdict {
  return { reason, message };
}

/** A step that talks to registries. */
export async function atRegistry<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof StepFailed) throw error;
    throw new StepFailed(verdictOf(failureFrom(error)), error);
  }
}

/** A step that talks to a VM's runner. */
export async function atRunner<T>(vm: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    const reason = refusesMemory(error) ? 'MemoryRefused' : 'RunnerUnreachable';
    throw new StepFailed({ reason, message: `VM ${vm}: ${messageOf(error)}`.slice(0, 1024) }, error);
  }
}

/** It knows with which devices the guest was started, where status may say already what holds after the next start. One of an older version says Conflict. */
function refusesMemory(error: unknown): boolean {
  return isSvc3Error(error, 'Invalid', 'Conflict') && isMemoryRefusal(error.message);
}

/** The last step of a deletion: what keeps the object may pass, and is said meanwhile. */
export async function atTicket<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!isPassing(error)) throw error;
    const message = `the ticket of its worker cannot be taken away: ${messageOf(error)}`.slice(0, 1024);
    throw new StepFailed({ reason: 'WorkerRefused', message }, error);
  }
}

/** A write of a worker's objects: quota, Pod Security and webhooks may refuse it, and their words are quoted. */
export async function atCluster<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new StepFailed({ reason: 'WorkerRefused', message: messageOf(error).slice(0, 1024) }, error);
  }
}
