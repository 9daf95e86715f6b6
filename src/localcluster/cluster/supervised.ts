/** The supervisor of a cluster as the one sees it who starts and ends it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error } from '../../errors.ts';
import { type Places, type StartOptions, readReport, startTimeOf } from '../shared/state.ts';

export interface SupervisorStart extends StartOptions {
  /** The file of `src/bin` that supervises. */
  readonly program: string;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** A cluster that runs and ends with this process, until `keep`. */
export interface Supervised {
  keep(): Promise<void>;
  end(): Promise<void>;
}

type Answer =
  | { kind: 'progress'; text: string }
  | { kind: 'ready' }
  | { kind: 'kept' }
  | { kind: 'failed'; message: string };

/** Resolves when all components run; when it fails or is aborted nothing is left. */
export async function startSupervised(options: SupervisorStart): Promise<Supervised> {
  const { places, settings, hostLink, program } = options;
  await mkdir(places.logs, { recursive: true });
  const log = openSync(join(places.logs, 'supervisor.log'), 'a', 0o600);
  const child = spawn(process.execPath, [program, 'supervise'], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  });
  child.send({ kind: 'start', places, settings, hostLink });
  const abort = (): void => void child.kill('SIGTERM');
  options.signal.addEventListener('abort', abort, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      child.on('message', (answer: Answer) => {
        if (answer.kind === 'progress') options.progress(answer.text);
        if (answer.kind === 'ready') resolve();
        if (answer.kind === 'failed') reject(new Svc3Error('InternalError', answer.message));
      });
      child.once('exit', () => {
        const ended = new Svc3Error(
          'InternalError',
          `the supervisor ended, see ${places.logs}/supervisor.log`,
        );
        reject(options.signal.aborted ? options.signal.reason : ended);
      });
    });
  } finally {
    options.signal.removeEventListener('abort', abort);
  }
  return { keep: () => keep(child), end: () => end(places, child) };
}

async function keep(supervisor: ChildProcess): Promise<void> {
  const kept = new Promise<void>((resolve, reject) => {
    supervisor.on('message', (answer: Answer) => answer.kind === 'kept' && resolve());
    supervisor.once('exit', () => reject(new Svc3Error('InternalError', 'the cluster ended')));
  });
  supervisor.send({ kind: 'keep' });
  await kept;
  supervisor.disconnect();
  supervisor.unref();
}

async function end(places: Places, supervisor: ChildProcess): Promise<void> {
  const report = await readReport(places);
  if (report !== undefined) await terminate(report.pid, report.startTime, 'in order');
  else supervisor.kill('SIGKILL');
}

/**
 * Ends a supervisor: in order, with its guests shut down first, or without waiting for them. SIGKILL when it takes too
 * long; resolves when the process is gone.
 */
export async function terminate(pid: number, startTime: string, how: 'in order' | 'now'): Promise<void> {
  const isThere = async (): Promise<boolean> => (await startTimeOf(pid)) === startTime;
  const deadline = performance.now() + (how === 'now' ? 20_000 : 60_000);
  if (await isThere()) process.kill(pid, how === 'now' ? 'SIGINT' : 'SIGTERM');
  while (await isThere()) {
    if (performance.now() > deadline) process.kill(pid, 'SIGKILL');
    await delay(30);
  }
}
