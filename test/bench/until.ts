import { setTimeout as delay } from 'node:timers/promises';

/** Looks again and again until it is true; throws with `what` after `forMs`. */
export async function until(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  { stepMs = 20, forMs = 300_000 } = {},
): Promise<void> {
  const deadline = performance.now() + forMs;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`waited ${forMs / 1000} s for ${what}`);
    await delay(stepMs);
  }
}
