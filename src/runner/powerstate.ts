import type { PowerAction, PowerRequest, RunnerPowerState } from '../api/runner.ts';
import { backoffDelay } from '../backoff.ts';
import { Svc3Error } from '../errors.ts';
import type { SavedState } from './statefile.ts';

const permitted: Record<PowerAction, readonly RunnerPowerState[]> = {
  start: ['Stopped', 'Failed'],
  // A guest that went down by itself is to be off from then on, which the runner keeps.
  stop: ['Running', 'Stopped', 'Suspended', 'Failed'],
  restart: ['Running', 'Stopped', 'Failed'],
  suspend: ['Running'],
  resume: ['Suspended'],
  revert: ['Running', 'Stopped', 'Suspended', 'Failed'],
};

/** Throws Conflict, naming the state, where a verb does not fit it. */
export function checkVerb(action: PowerAction, state: RunnerPowerState): void {
  if (permitted[action].includes(state)) return;
  throw new Svc3Error('Conflict', `cannot ${action} the VM: it is ${state}`);
}

/** Runs one task after the other, in the order of asking. */
export function createQueue(): <T>(task: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const next = last.then(task, task);
    last = next.catch(() => undefined);
    return next;
  };
}

/** Backoff before QEMU is started again after its n-th crash (1, 2, …): 1, 2, 4 … 60 s. */
export function backoffMs(crashes: number): number {
  return backoffDelay(crashes, { baseMs: 1_000, maxMs: 60_000, jitter: 0 });
}

/** The requests of a verb are done once per value, whoever asks again after a cut connection. */
export function isCarriedOut(request: PowerRequest, saved: SavedState): boolean {
  const members = {
    start: 'startRequest',
    restart: 'restartRequest',
    revert: 'revertRequest',
  } as const;
  const { action } = request;
  const member = action in members ? members[action as keyof typeof members] : undefined;
  return member !== undefined && request[member] !== undefined && request[member] === saved[member];
}
