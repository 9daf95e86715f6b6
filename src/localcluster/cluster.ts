/** The full local cluster as a whole: up, down, status. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error, invalidField } from '../errors.ts';
import { maxNodes } from './addresses.ts';
import { withLock } from './lock.ts';
import { type Report, type Places, type Settings, ensureSettings, readReport, startTimeOf } from './state.ts';
import { sweep } from './supervisor.ts';
import type { ToolGroupName } from './toolgroups.ts';
import { type Tools, buildTools } from './tools.ts';

export const fullClusterTools: readonly ToolGroupName[] = [
  'controlplane',
  'kubelet',
  'node',
  'runc',
  'registry',
  'helm',
];

export interface UpOptions {
  readonly places: Places;
  readonly nodes: number;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

const program = fileURLToPath(new URL('../bin/localcluster.ts', import.meta.url));

/** Starts the cluster unless it runs; false when it did. Ends what it started when it fails or is aborted. */
export async function up(options: UpOptions): Promise<boolean> {
  const { places, nodes } = options;
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > maxNodes)
    throw invalidField('nodes', `a local cluster has 1 to ${maxNodes} nodes`);
  return withLock(lockOf(places), async () => {
    const running = await readReport(places);
    if (running !== undefined) return false;
    const tools = await buildTools(fullClusterTools, { cacheDir: places.cache, progress: options.progress });
    const settings = await ensureSettings(places, nodes);
    const supervisor = await startSupervisor(options, settings);
    try {
      options.signal.throwIfAborted();
      void tools;
      await keep(supervisor);
    } catch (error) {
      await endSupervisor(places, supervisor);
      throw error;
    }
    return true;
  });
}

/** Ends the cluster; false when it did not run. Its state stays unless `purge`. */
export async function down(places: Places, options: { purge: boolean }): Promise<boolean> {
  return withLock(lockOf(places), async () => {
    const report = await readReport(places);
    if (report !== undefined) await terminate(report.pid, report.startTime);
    await sweep(places.name);
    if (options.purge) await rm(places.state, { recursive: true, force: true });
    return report !== undefined;
  });
}

function lockOf(places: Places): string {
  return join(dirname(places.state), `${places.name}.lock`);
}

type Answer =
  | { kind: 'progress'; text: string }
  | { kind: 'ready' }
  | { kind: 'kept' }
  | { kind: 'failed'; message: string };

async function startSupervisor(options: UpOptions, settings: Settings): Promise<ChildProcess> {
  const { places } = options;
  await mkdir(places.logs, { recursive: true });
  const log = openSync(join(places.logs, 'supervisor.log'), 'a', 0o600);
  const child = spawn(process.execPath, [program, 'supervise'], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  });
  child.send({ kind: 'start', places, settings });
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
        options.signal.throwIfAborted();
        reject(new Svc3Error('InternalError', `the supervisor ended, see ${places.logs}/supervisor.log`));
      });
    });
  } finally {
    options.signal.removeEventListener('abort', abort);
  }
  return child;
}

async function keep(supervisor: ChildProcess): Promise<void> {
  const kept = new Promise<void>((resolve) => {
    supervisor.on('message', (answer: Answer) => answer.kind === 'kept' && resolve());
  });
  supervisor.send({ kind: 'keep' });
  await kept;
  supervisor.disconnect();
  supervisor.unref();
}

async function endSupervisor(places: Places, supervisor: ChildProcess): Promise<void> {
  const report = await readReport(places);
  if (report !== undefined) await terminate(report.pid, report.startTime);
  else supervisor.kill('SIGKILL');
}

/** SIGTERM, then SIGKILL after 20 s; resolves when the process is gone. */
async function terminate(pid: number, startTime: string): Promise<void> {
  const isThere = async (): Promise<boolean> => (await startTimeOf(pid)) === startTime;
  const deadline = performance.now() + 20_000;
  if (await isThere()) process.kill(pid, 'SIGTERM');
  while (await isThere()) {
    if (performance.now() > deadline) process.kill(pid, 'SIGKILL');
    await delay(30);
  }
}

export interface ClusterStatus {
  readonly state: 'Running' | 'Degraded' | 'Starting' | 'Stopped' | 'Absent';
  readonly report?: Report;
}

export async function status(places: Places): Promise<ClusterStatus> {
  const report = await readReport(places);
  if (report === undefined) return { state: existsSync(places.state) ? 'Stopped' : 'Absent' };
  if (report.phase === 'starting') return { state: 'Starting', report };
  const whole = report.components.every((component) => component.running);
  return { state: whole ? 'Running' : 'Degraded', report };
}

export type { Tools };
