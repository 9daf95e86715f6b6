/** Running one function as root when the user is not: the same code in a child that sudo starts. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { type ErrorReason, Svc3Error, errorTable, isSvc3Error, messageOf } from '../../errors.ts';
import { run } from './command.ts';
import type { Command } from './process.ts';

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

type Line =
  | { kind: 'progress'; text: string }
  | { kind: 'result'; value: unknown }
  | { kind: 'error'; reason: string; message: string };

export interface RootCall {
  /** The program that runs `answerRootCall`. */
  readonly command: Command;
  readonly request: unknown;
  /** Variables that the child gets; sudo keeps none. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What somebody can do who does not become root, e.g. `use --control-plane`. */
  readonly instead?: string | undefined;
  readonly signal?: AbortSignal;
  progress(text: string): void;
}

/**
 * Resolves where this process is root, or becomes it by sudo without a question: nobody may be there to answer.
 *
 * @param instead - what somebody can do who does not
 * @throws Svc3Error Forbidden, with what helps
 */
export async function ensureRoot(instead?: string): Promise<void> {
  if (isRoot()) return;
  await run('sudo', ['-n', 'true']).catch((cause: unknown) => {
    // Not "as root" where there is sudo: with it in front of the command, the cluster would be one in the home of root.
    const way = isMissing(cause)
      ? 'there is no sudo here, run it as root'
      : "run 'sudo -v' first, then this again";
    const advice = [way, instead].filter(Boolean).join(', or ');
    throw new Svc3Error(
      'Forbidden',
      `the local cluster needs root for its namespaces and mounts: ${advice}`,
      { cause },
    );
  });
}

/** More often than any sudo forgets that a password was said, in milliseconds. */
const reminderMs = 60_000;

/** Does work that may take longer than sudo remembers the password, which is needed after it. */
export async function whileRootStays<T>(work: () => Promise<T>): Promise<T> {
  if (isRoot()) return work();
  const remind = (): void => void run('sudo', ['-n', 'true']).catch(() => undefined);
  const reminder = setInterval(remind, reminderMs);
  try {
    return await work();
  } finally {
    clearInterval(reminder);
  }
}

/** Whether `run` did not find the program. */
function isMissing(error: unknown): boolean {
  return error instanceof Error && (error.cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT';
}

/** Its result, or its error. The child's input stays open: it ends with us, and closing it is the abort. */
export async function callAsRoot<T>(call: RootCall): Promise<T> {
  await ensureRoot(call.instead);
  const variables = Object.entries(call.env).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  );
  const child = spawn('sudo', ['-n', '--', 'env', ...variables, ...call.command], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => undefined);
  child.stdin.write(`${JSON.stringify(call.request)}\n`);
  const abort = (): void => void child.stdin.end();
  call.signal?.addEventListener('abort', abort, { once: true });
  try {
    return await new Promise<T>((resolve, reject) => {
      createInterface(child.stdout).on('line', (text) => {
        const line = JSON.parse(text) as Line;
        if (line.kind === 'progress') call.progress(line.text);
        else if (line.kind === 'result') resolve(line.value as T);
        else
          reject(
            new Svc3Error(
              line.reason in errorTable ? (line.reason as ErrorReason) : 'InternalError',
              line.message,
            ),
          );
      });
      child.once('error', reject);
      child.once('exit', (code) =>
        reject(new Svc3Error('InternalError', `the part that runs as root ended with ${code}`)),
      );
    });
  } finally {
    call.signal?.removeEventListener('abort', abort);
    child.stdin.end();
  }
}

export interface RootAnswer {
  progress(text: string): void;
  readonly signal: AbortSignal;
}

/** The other half: reads the request, does the work, writes lines. */
export async function answerRootCall(
  work: (request: unknown, answer: RootAnswer) => Promise<unknown>,
): Promise<void> {
  const abort = new AbortController();
  const say = (line: Line): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
  const lines = createInterface(process.stdin);
  const request = await new Promise<string>((resolve) => lines.once('line', resolve));
  let finished = false;
  lines.once('close', () => finished || abort.abort());
  try {
    const progress = (text: string): void => say({ kind: 'progress', text });
    say({ kind: 'result', value: await work(JSON.parse(request), { progress, signal: abort.signal }) });
  } catch (error) {
    say({
      kind: 'error',
      reason: isSvc3Error(error) ? error.reason : 'InternalError',
      message: messageOf(error),
    });
  }
  finished = true;
  lines.close();
}
