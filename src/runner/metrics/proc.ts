import { readFileSync } from 'node:fs';

/** A file of /proc; undefined where there is none. The kernel has it at hand, so that a thread that waits for it would cost more. */
export function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined;
  }
}
