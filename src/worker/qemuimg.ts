import { spawn } from 'node:child_process';
import { Svc3Error } from '../errors.ts';
import { noRoom } from './failure.ts';

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
 * @throws Invalid when qemu-img does not end as it should; the message quotes its last line. `RequestEntityTooLarge` when
 * the volume is full.
 */
export async function qemuImg(
  args: readonly string[],
  { signal, accept = [0], limits = defaultToolLimits, onProgress }: QemuImgOptions,
): Promise<{ code: number; output: string }> {
  const bounds = [
    `--as=${limits.memoryBytes}`,
    `--cpu=${limits.cpuSeconds}`,
    '--core=0',
    '--nofile=64',
    '--nproc=256',
  ];
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
  const code = await new Promise<number>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (exit, killed) => resolve(exit ?? (killed === null ? 1 : 137)));
  }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    if (timeout.aborted) return 137;
    throw new Svc3Error('InternalError', 'qemu-img could not be started', { cause: error });
  });
  if (accept.includes(code)) return { code, output: output.text };
  throw failureOf(code, errors);
}

/** The last percentage that `-p` has written; undefined in a text that is no progress. */
export function percentIn(text: string): number | undefined {
  const percent = /\((\d+(?:\.\d+)?)\/100%\)\s*$/.exec(text)?.[1];
  return percent === undefined ? undefined : Number(percent);
}

/** ENOMEM and EAGAIN, as the C library words them: the limit of memory is met by a call that fails, too. */
const outOfMemory = /Cannot allocate memory|Resource temporarily unavailable/;

/** What an exit code that is no answer means, with what was written to stderr. 137 and 152: ended by a limit (a signal, SIGXCPU). */
export function failureOf(code: number, errors: string): Svc3Error {
  if (code === 137 || code === 152 || outOfMemory.test(errors))
    return new Svc3Error(
      'Invalid',
      'the disk file needs more time or memory to be looked at than is allowed',
    );
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
