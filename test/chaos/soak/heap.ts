import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { signal } from '../machine/signals.ts';

const run = promisify(execFile);
const probe = fileURLToPath(new URL('heapprobe.ts', import.meta.url));

/**
 * What a Node process of a pod has in use after a collection of garbage, in bytes; undefined where it does not answer, or has
 * ended. What V8 keeps for itself between two collections says nothing of what a program holds on to.
 */
export async function heapInUse(pid: number): Promise<number | undefined> {
  // Opens the inspector on loopback, in the pod's own network namespace.
  signal(pid, 'SIGUSR1');
  try {
    const inside = ['-t', String(pid), '--net', process.execPath, probe];
    const { stdout } = await run('nsenter', inside, { timeout: 30_000 });
    return Number(stdout);
  } catch {
    return undefined;
  }
}
