import { readFileSync } from 'node:fs';

/** Sixty looks in a row, a minute, without any processor time: it waits for something that does not come. */
const looksWithoutProgress = 60;
const lookMs = 1_000;
/** The kernel counts in USER_HZ, which is 100 on every architecture that we run on. */
const ticksPerSecond = 100;
/** Far more than zeroing and pinning the memory of the largest guest takes; what uses more runs in circles. */
const longestStartSeconds = 600;

/**
 * Aborts when a process that is starting makes no progress. A clock would be the wrong judge: on a node without processor time
 * to spare a start takes minutes, and ending it makes the next one begin from nothing. Looks are counted, not time, so a
 * node that was paused is not taken for a process that hangs. Returns the function that ends the looking.
 */
export function giveUpWhenStuck(pid: number, giveUp: AbortController, everyMs: number = lookMs): () => void {
  let used = 0;
  let looksSinceProgress = 0;
  const timer = setInterval(() => {
    const now = processorTicks(pid);
    // It has ended, which is heard of elsewhere.
    if (now === undefined) return;
    looksSinceProgress = now > used ? 0 : looksSinceProgress + 1;
    used = now;
    const why = isStuck(looksSinceProgress, used);
    if (why !== undefined) giveUp.abort(new Error(`QEMU did not open its monitors: ${why}`));
  }, everyMs);
  return () => clearInterval(timer);
}

function isStuck(looksSinceProgress: number, ticks: number): string | undefined {
  if (looksSinceProgress >= looksWithoutProgress) return 'it makes no progress';
  const seconds = ticks / ticksPerSecond;
  return seconds > longestStartSeconds ? `it has used ${Math.floor(seconds)} s of processor time` : undefined;
}

/** Processor time of a process with all of its threads; undefined where it has ended. */
function processorTicks(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the last parenthesis may hold anything; utime and stime are fields 14 and 15 (proc(5)).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return undefined;
  }
}
