/** The full local cluster as a whole: up, down, status. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error, invalidField } from '../errors.ts';
import { allNodes, maxNodes } from './addresses.ts';
import { ensurePackages } from './debian.ts';
import { hashOf } from './hash.ts';
import {
  type Software,
  buildSoftware,
  chartFolder,
  deliver,
  installChart,
  publishApi,
  startDemo,
} from './install.ts';
import { type Kubectl, createKubectl } from './kubectl.ts';
import { createSteps } from './progress.ts';
import { withLock } from './lock.ts';
import {
  type Report,
  type Places,
  type Settings,
  ensureSettings,
  readReport,
  startTimeOf,
  writeSecret,
} from './state.ts';
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
  /** Start a VM to look at. */
  readonly demo?: boolean;
  /** Allow GPU passthrough in the cluster. */
  readonly gpuPassthrough?: boolean;
  /** Only Kubernetes and the registry, without svc3 in it. */
  readonly bare?: boolean;
  /** PATH of the user. */
  readonly path?: string;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** Kubelets report within seconds; a loaded machine is no fault. */
const nodesReadyMs = 180_000;

const program = fileURLToPath(new URL('../bin/localcluster.ts', import.meta.url));

/**
 * Brings the cluster to what is asked: starts it unless it runs, installs svc3 unless this build of it is there. False
 * when nothing was to be done. Ends the cluster when it could not be started or was aborted; one that started and in
 * which only svc3 failed stays to be looked at.
 */
export async function up(options: UpOptions): Promise<boolean> {
  const { places, nodes } = options;
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > maxNodes)
    throw invalidField('nodes', `a local cluster has 1 to ${maxNodes} nodes`);
  return withLock(lockOf(places), async () => {
    await ensurePackages(
      options.path ?? process.env['PATH'] ?? '',
      options.progress,
      options.signal === undefined ? {} : { signal: options.signal },
    );
    const cacheDir = places.cache;
    const tools = await buildTools(fullClusterTools, { cacheDir, progress: options.progress });
    const started = await ensureRunning(options, tools);
    const installed = options.bare === true ? false : await ensureInstalled(options, tools);
    return started || installed;
  });
}

async function ensureRunning(options: UpOptions, tools: Tools): Promise<boolean> {
  const { places, nodes, signal } = options;
  const report = await readReport(places);
  if (report !== undefined) {
    if (report.nodes !== nodes)
      options.progress(`the cluster has ${report.nodes} nodes; that changes after a down`);
    return false;
  }
  const settings = await ensureSettings(places, nodes);
  // Heartbeats have whole seconds.
  const startedAt = Math.floor(Date.now() / 1000) * 1000;
  const supervisor = await startSupervisor(options, settings);
  try {
    signal.throwIfAborted();
    const kubectl = createKubectl(tools, places.kubeconfig, signal);
    const names = allNodes(nodes).map((node) => node.name);
    await createSteps(places.cache, options.progress).run('waiting for the nodes', () =>
      untilReady(kubectl, names, startedAt, signal),
    );
    await keep(supervisor);
  } catch (error) {
    await endSupervisor(places, supervisor);
    throw error;
  }
  return true;
}

interface NodeList {
  items: {
    metadata: { name: string };
    status: { conditions: { type: string; status: string; lastHeartbeatTime: string }[] };
  }[];
}

/** A node of an earlier run still says that it is ready: only what its kubelet reported after the start counts. */
async function untilReady(
  kubectl: Kubectl,
  names: readonly string[],
  startedAt: number,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + nodesReadyMs;
  for (;;) {
    signal.throwIfAborted();
    const { items } = JSON.parse(await kubectl('get', 'nodes', '-o', 'json')) as NodeList;
    const ready = items.filter(({ status }) =>
      status.conditions.some(
        ({ type, status, lastHeartbeatTime }) =>
          type === 'Ready' && status === 'True' && Date.parse(lastHeartbeatTime) >= startedAt,
      ),
    );
    const missing = names.filter((name) => !ready.some(({ metadata }) => metadata.name === name));
    if (missing.length === 0) return;
    if (performance.now() > deadline) throw new Svc3Error('Timeout', `not ready: ${missing.join(', ')}`);
    await delay(200);
  }
}

async function ensureInstalled(options: UpOptions, tools: Tools): Promise<boolean> {
  const { places, signal, progress } = options;
  const steps = createSteps(places.cache, progress);
  const build = { cache: places.cache, signal, progress };
  const software = await steps.run('building images and guest', () => buildSoftware(build));
  const settings = await ensureSettings(places, options.nodes);
  const kubectl = createKubectl(tools, places.kubeconfig, signal);
  const gpuPassthrough = options.gpuPassthrough ?? false;
  const installation = { places, settings, tools, kubectl, gpuPassthrough, build };
  const wanted = await installationMark(software, options);
  const markFile = join(places.state, 'run', 'installed');
  if ((await readFile(markFile, 'utf8').catch(() => '')) === wanted) return false;
  await steps.run('bringing the images to the nodes', () => deliver(installation, software));
  await steps.run('installing svc3', async () => {
    await installChart(installation, software);
    await publishApi(installation);
  });
  if (options.demo === true)
    await steps.run('starting the VM demo', () => startDemo(installation, software.guest));
  await writeSecret(markFile, wanted);
  return true;
}

/** Names everything that the installation is made of. */
async function installationMark(software: Software, options: UpOptions): Promise<string> {
  const choices = [options.demo, options.gpuPassthrough].map((choice) => choice === true);
  return hashOf([chartFolder], [JSON.stringify([software, choices])]);
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
