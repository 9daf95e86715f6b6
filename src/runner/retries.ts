import type { RunnerSpec } from '../api/runner.ts';
import { isLasting, type RunnerFailure } from './failure.ts';
import { backoffMs } from './powerstate.ts';

/** Whether and when QEMU is started again after a failure. */
export interface Retries {
  /** Crashes since the last quiet time. */
  readonly crashes: number;
  /** Milliseconds to wait before the next start; undefined: the failure is final. */
  after(failure: RunnerFailure, hasRun: boolean): number | undefined;
  /** Goes on from a count of before, of which the last crash was just now. */
  resume(crashes: number): void;
  /** Somebody has asked for a start: what was before does not count. */
  renew(): void;
  /** QEMU runs: what kept it from starting is over. */
  started(): void;
}

/** So long without a crash, and the next one counts as the first. */
export const quietMs = 600_000;

/**
 * Crashes are limited by the VM's restart policy. What keeps QEMU from starting at all (a card in use, a full disk) is
 * tried for as long as it may go away, unless nothing in the life of this pod can heal it.
 */
export function createRetries(restart: RunnerSpec['restart'], now: () => number): Retries {
  let crashes = 0;
  let lastCrash = Number.NEGATIVE_INFINITY;
  let attempts = 0;
  return {
    get crashes() {
      return crashes;
    },
    after(failure, hasRun) {
      if (!hasRun) {
        attempts += 1;
        return isLasting(failure.reason) ? undefined : backoffMs(attempts);
      }
      crashes = now() - lastCrash > quietMs ? 1 : crashes + 1;
      lastCrash = now();
      return restart.policy === 'OnFailure' && crashes <= restart.limit ? backoffMs(crashes) : undefined;
    },
    resume(before) {
      crashes = before;
      lastCrash = before === 0 ? Number.NEGATIVE_INFINITY : now();
    },
    renew() {
      crashes = 0;
      attempts = 0;
    },
    started() {
      attempts = 0;
    },
  };
}
