import { setTimeout as delay } from 'node:timers/promises';
import { backoffDelay } from '../../backoff.ts';
import { messageOf } from '../../errors.ts';
import type { AccessLog } from '../call/services.ts';

const retryTimes = { baseMs: 500, maxMs: 30_000, jitter: 0.5 } as const;

export interface Remade {
  /** What is made, as the log names it. */
  readonly what: string;
  /** Makes it where it is missing. */
  readonly ensure: () => Promise<unknown>;
  readonly log: AccessLog;
  readonly signal: AbortSignal;
}

/**
 * Makes what somebody has removed again, trying until it is there.
 *
 * @returns to be called whenever it is seen to be missing; also while it is being made, since it may have been removed after that had looked
 */
export function createRemaker({ what, ensure, log, signal }: Remade): () => void {
  let isMaking = false;
  let isAskedAgain = false;

  async function make(): Promise<void> {
    for (let failures = 1; !signal.aborted; failures += 1)
      try {
        await ensure();
        return;
      } catch (error) {
        log.warn({ err: messageOf(error) }, `could not make ${what} again`);
        await delay(backoffDelay(failures, retryTimes), undefined, { signal, ref: false }).catch(
          () => undefined,
        );
      }
  }

  async function run(): Promise<void> {
    isMaking = true;
    do {
      isAskedAgain = false;
      await make();
    } while (isAskedAgain && !signal.aborted);
    isMaking = false;
  }

  return () => {
    if (isMaking) isAskedAgain = true;
    else void run();
  };
}
