import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** A process of this folder that svc3 is compared with. */
export interface BareProcess {
  readonly pid: number;
  /** The line it wrote when it was ready. */
  readonly said: string;
  stop(): void;
}

/**
 * Starts `program`, a file of this folder, and gives it `input` as JSON; resolves with its first line.
 * @throws Error when it ends without one
 */
export async function startBareProcess(program: string, input: object): Promise<BareProcess> {
  const child = spawn(process.execPath, [join(import.meta.dirname, program)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
  });
  process.once('exit', () => child.kill('SIGKILL'));
  child.stdin.end(JSON.stringify(input));
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${program} ended with ${String(code)}`);
  });
  const [said] = (await Promise.race([once(createInterface(child.stdout), 'line'), ended])) as [string];
  // Later it is ended by us.
  ended.catch(() => undefined);
  return { pid: child.pid ?? 0, said, stop: () => void child.kill('SIGKILL') };
}
