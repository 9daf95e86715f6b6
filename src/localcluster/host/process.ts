import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error } from '../../errors.ts';

export type Command = readonly [string, ...string[]];

export interface ChildOptions {
  /** What it is called in messages, e.g. `kube-apiserver`. */
  readonly name: string;
  readonly command: Command;
  readonly cwd?: string;
  /** Replaces the inherited environment. */
  readonly env?: Record<string, string>;
  /** Gets standard output and standard error; appended to. */
  readonly logFile: string;
}

/** A child process that dies with this one. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended, with the reason in words; never rejects. */
  readonly exited: Promise<string>;
  isRunning(): boolean;
  /** The last lines of the log file. */
  lastLines(): Promise<string>;
  /** SIGTERM, then SIGKILL after `graceMs` (default 5,000); resolves when the process is gone. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * The same command, run so that the kernel kills it when the process that starts it ends in whatever way (SIGKILL
 * included). The comparison of the parents closes the race against a parent that dies before the kernel is told.
 */
export function boundToParent(command: Command): [string, ...string[]] {
  const check = 'test "$PPID" = "$1" || exit 1; shift; exec "$@"';
  return ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c', check, 'sh', String(process.pid), ...command];
}

/** Starts a child; a command that cannot be run at all shows as its end. */
export function startChild(options: ChildOptions): Child {
  mkdirSync(dirname(options.logFile), { recursive: true });
  const log = openSync(options.logFile, 'a', 0o600);
  const [command, ...args] = boundToParent(options.command);
  let child: ChildProcess;
  try {
    child = spawn(command, args, {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.env === undefined ? {} : { env: options.env }),
      stdio: ['ignore', log, log],
    });
  } finally {
    closeSync(log);
  }
  let running = true;
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
  }).finally(() => (running = false));
  return {
    name: options.name,
    pid: child.pid ?? 0,
    exited,
    isRunning: () => running,
    lastLines: () => lastLines(options.logFile),
    async stop(graceMs = 5_000) {
      if (!running) return;
      child.kill('SIGTERM');
      const killer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await exited;
      clearTimeout(killer);
    },
  };
}

export interface ReadyOptions {
  /** Milliseconds until waiting is given up. */
  readonly timeoutMs: number;
  readonly intervalMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Asks until the probe says yes. Fails at once, with the last lines of its log, when the child ends first; a probe that
 * throws counts as no.
 */
export async function untilReady(
  child: Child,
  probe: () => Promise<boolean>,
  options: ReadyOptions,
): Promise<void> {
  const deadline = performance.now() + options.timeoutMs;
  while (performance.now() < deadline) {
    options.signal?.throwIfAborted();
    if (!child.isRunning()) throw await exitError(child);
    if (await Promise.race([probe().catch(() => false), child.exited.then(() => false)])) return;
    await delay(options.intervalMs ?? 50);
  }
  throw new Svc3Error(
    'Timeout',
    `${child.name} was not ready after ${options.timeoutMs / 1000} s; its last lines:\n${await child.lastLines()}`,
  );
}

/** Says that a child ended on its own, and with what last words. */
export async function exitError(child: Child): Promise<Svc3Error> {
  const how = await child.exited;
  return new Svc3Error(
    'InternalError',
    `${child.name} ended (${how}); its last lines:\n${await child.lastLines()}`,
  );
}

async function lastLines(path: string, count = 15, bytes = 8_192): Promise<string> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return '';
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(Math.min(size, bytes));
    await file.read(buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString('utf8').trimEnd().split('\n').slice(-count).join('\n');
  } finally {
    await file.close();
  }
}
