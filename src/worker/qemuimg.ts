import { spawn } from 'node:child_process';
import { Svc3Error } from '../errors.ts';
import { cutShort, noRoom } from './failure.ts';

export interface QemuImgOptions {
  readonly signal: AbortSignal;
  /** Exit codes that are answers. */
  readonly accept?: readonly number[];
  readonly limits?: ToolLimits;
  readonly onProgress?: (percent: number) => void;
}

/** What one run of qemu-img may use: bytes of address space, seconds of CPU, milliseconds in all. */
export interface ToolLimits {
  readonly memoryBytes: number;
  readonly cpuSeconds: number;
  readonly timeMs: number;
}

export const defaultToolLimits: ToolLimits = {
  memoryBytes: 2 ** 30,
  cpuSeconds: 3_600,
  timeMs: 2 * 3_600_000,
};
const outputLimit = 1024 * 1024;

/** What a tool writes to stdout: its progress is told and forgotten, all else is its answer, as far as there is room for it. */
export class ToolOutput {
  text = '';
  readonly #onProgress: QemuImgOptions['onProgress'];

  constructor(onProgress?: QemuImgOptions['onProgress']) {
    this.#onProgress = onProgress;
  }

  take(text: string): void {
    const percent = percentIn(text);
    if (percent !== undefined) this.#onProgress?.(percent);
    else if (this.text.length < outputLimit) this.text += text;
  }
}

/** `qemuImg`, or what stands in for it. */
export type Tool = (
  args: readonly string[],
  options: QemuImgOptions,
) => Promise<{ readonly code: number; readonly output: string }>;

/**
 * Runs qemu-img on a file that nobody vouches for: under limits of memory, CPU and time, without a shell.
 *
 * @throws Invalid when qemu-img finds fault with the file, or needs more memory or CPU for it than it may; the message quotes its last
 * line. `RequestEntityTooLarge` when the volume is full, `InternalError` when something else kept it from its end.
 */
export async function qemuImg(
  args: readonly string[],
  { signal, accept = [0], limits = defaultToolLimits, onProgress }: QemuImgOptions,
): Promise<{ code: number; output: string }> {
  // SIGXCPU comes at the first limit only where that lies below the second; else SIGKILL does, as from anybody. Processes have no
  // limit: the kernel counts all of the user on the node, other pods' included. Room for stacks bounds the threads.
  const cpu = `${limits.cpuSeconds}:${limits.cpuSeconds + 60}`;
  const bounds = [`--as=${limits.memoryBytes}`, `--cpu=${cpu}`, '--core=0', '--nofile=64'];
  const timeout = AbortSignal.timeout(limits.timeMs);
  const child = spawn('prlimit', [...bounds, 'qemu-img', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    signal: AbortSignal.any([signal, timeout]),
    killSignal: 'SIGKILL',
  });
  const output = new ToolOutput(onProgress);
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => output.take(chunk.toString('utf8')));
  child.stderr.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk.toString('utf8')}`.slice(-4096);
  });
  const ended = await new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, killed) => resolve(killed ?? code ?? 1));
  }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    if (timeout.aborted) throw cutShort(`it took longer than ${limits.timeMs / 1000} s`);
    throw new Svc3Error('InternalError', 'qemu-img could not be started', { cause: error });
  });
  if (typeof ended === 'number' && accept.includes(ended)) return { code: ended, output: output.text };
  throw failureOf(ended, errors);
}

/** The last percentage that `-p` has written; undefined in a text that is no progress. */
export function percentIn(text: string): number | undefined {
  const percent = /\((\d+(?:\.\d+)?)\/100%\)\s*$/.exec(text)?.[1];
  return percent === undefined ? undefined : Number(percent);
}

/** Exit code, or the signal that ended it. */
type Ended = number | NodeJS.Signals;

/** ENOMEM, as the C library words it: the limit of memory is met by a call that fails. */
const outOfMemory = /Cannot allocate memory/;
/** EAGAIN: what the node has too little of, threads above all. */
const outOfThreads = /Resource temporarily unavailable/;

/**
 * What an end that is no answer means, with what was written to stderr. Only what the file itself brings about is held against it: the
 * limits of CPU (SIGXCPU) and memory. Everybody on the node can bring about another signal.
 */
export function failureOf(ended: Ended, errors: string): Svc3Error {
  if (ended === 'SIGXCPU' || outOfMemory.test(errors))
    return new Svc3Error(
      'Invalid',
      'the disk file needs more time or memory to be looked at than is allowed',
    );
  if (typeof ended === 'string' || outOfThreads.test(errors)) {
    const how = typeof ended === 'string' ? ended : `exit code ${ended}`;
    const said = lastLine(errors);
    return cutShort(said === '' ? how : `${how}: ${said}`);
  }
  if (/No space left on device|Disk quota exceeded/.test(errors)) return noRoom();
  return new Svc3Error('Invalid', `the disk file is damaged: ${lastLine(errors)}`);
}

/** Its last words without the names of our files. */
function lastLine(text: string): string {
  const line = text.trim().split('\n').at(-1) ?? '';
  return line
    .replace(/^qemu-img:\s*/, '')
    .replaceAll(/'?\/\S*\/(\S+?)'?(?=[:\s]|$)/g, '$1')
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .slice(0, 300);
}
