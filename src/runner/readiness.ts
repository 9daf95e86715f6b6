import { setTimeout as delay } from 'node:timers/promises';
import type { RunnerReadiness } from '../api/runner.ts';
import type { GuestCheck } from './guestcheck.ts';
import type { Status, StatusBoard } from './status.ts';

/** What has been found out about the guest since it was booted. */
export type GuestReadiness = Pick<Status, 'guestReachable' | 'guestReady' | 'readiness'>;

/** Milliseconds between two checks: in the first minute after the boot, and later. */
const soonMs = 500;
const laterMs = 5_000;
const soonForMs = 60_000;

/** A clock that never jumps, in milliseconds. */
export interface Clock {
  now(): number;
  /** Ends early with the signal. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

const processClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) => delay(ms, undefined, { signal }).catch(() => undefined),
};

/** So many checks in a row must fail before a guest that has answered is not ready any more: as kubelets count. */
const failureThreshold = 3;

/** No guest runs. */
export const guestDown: GuestReadiness = { guestReachable: false, guestReady: false, readiness: undefined };
const notAsked: GuestReadiness = { guestReachable: false, guestReady: true, readiness: 'Unchecked' };
const waiting: GuestReadiness = { guestReachable: false, guestReady: false, readiness: 'Waiting' };
const answering: GuestReadiness = { guestReachable: true, guestReady: true, readiness: 'Answering' };

export interface Follow {
  readonly readiness: RunnerReadiness;
  readonly check: GuestCheck | undefined;
  readonly status: StatusBoard;
  /** Ends with the guest's boot: it was reset, or QEMU has ended. */
  readonly signal: AbortSignal;
  readonly clock?: Clock;
}

/**
 * Follows one boot of the guest until the signal. Where the VM names what to ask (a port, a page), the guest is ready while that
 * answers. Where it names nothing, SSH and guest agent are asked, and a guest that has neither is ready when its time is up:
 * nobody can tell it from one that boots slowly.
 */
export async function followGuest(follow: Follow): Promise<void> {
  const { readiness, check, status, signal, clock = processClock } = follow;
  if (check === undefined) return status.update(notAsked);
  status.update(waiting);
  const begin = clock.now();
  const isNamed = readiness.tcp !== undefined || readiness.http !== undefined;
  const mustAnswer = isNamed || readiness.guestAgent !== undefined;
  let failures = 0;
  while (!signal.aborted) {
    const answers = status.current.powerState === 'Running' ? await check(signal) : undefined;
    if (signal.aborted) return;
    const sinceMs = clock.now() - begin;
    if (answers === true) {
      failures = 0;
      status.update(answering);
      // An agent or an SSH server that has answered shows that the guest is up; only what the VM names is asked on.
      if (!isNamed) return;
    } else if (answers === false) {
      failures += 1;
      const next = failed(status.current, {
        failures,
        mustAnswer,
        isLate: sinceMs >= readiness.timeoutSeconds * 1000,
      });
      if (next !== undefined) status.update(next);
    }
    const isSoon = sinceMs < soonForMs && !status.current.guestReachable;
    await clock.sleep(isSoon ? soonMs : laterMs, signal);
  }
}

/** What a failed check changes; pure. */
function failed(
  { guestReachable, guestReady }: GuestReadiness,
  {
    failures,
    mustAnswer,
    isLate,
  }: { readonly failures: number; readonly mustAnswer: boolean; readonly isLate: boolean },
): GuestReadiness | undefined {
  if (guestReachable)
    return failures < failureThreshold
      ? undefined
      : { guestReachable: false, guestReady: false, readiness: 'NotAnswering' };
  if (!isLate || guestReady === true) return undefined;
  return { guestReachable: false, guestReady: !mustAnswer, readiness: 'NotAnswering' };
}
