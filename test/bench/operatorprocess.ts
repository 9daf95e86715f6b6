/** The operator as it ships, a bundle in a process of its own, and what the process costs. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '../../src/localcluster/controlplane/ports.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { until } from './until.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
let bundle: Promise<string> | undefined;

/** The file that the container image holds; made once per run. */
export async function bundled(program: 'operator' | 'api'): Promise<string> {
  bundle ??= makeBundle();
  return join(await bundle, `${program}.js`);
}

async function makeBundle(): Promise<string> {
  const dir = join(temporaryFolder(), 'bundle');
  await run(join(root, 'node_modules/.bin/rolldown'), ['-c', 'rolldown.config.ts', '--log-level', 'silent'], {
    cwd: root,
    env: { ...process.env, SVC3_BUNDLE_DIR: dir },
  });
  // The api serves files of a package, which the container image holds beside it.
  await symlink(join(root, 'node_modules'), join(dir, 'node_modules'));
  return dir;
}

/** As the chart starts it, unless others are to be tried. */
export function nodeFlags(program: 'operator' | 'api'): string[] {
  const tried = process.env['SVC3_BENCH_NODE_FLAGS'];
  if (tried !== undefined) return tried.split(' ').filter((flag) => flag !== '');
  const command = new RegExp(`^ *command: \\[node, (.*), /app/${program}\\.js\\]$`, 'm').exec(
    chartOf(program),
  )?.[1];
  if (command === undefined) throw new Error(`the chart does not say how the ${program} is started`);
  return command.split(', ');
}

/** What the chart tells the C library about memory. */
export function allocatorSettings(program: 'operator' | 'api'): Record<string, string> {
  const found = chartOf(program).matchAll(/- name: (MALLOC_\w+)\n +value: "(\w+)"/g);
  return Object.fromEntries([...found].map(([, name, value]) => [name, value]));
}

function chartOf(program: 'operator' | 'api'): string {
  return readFileSync(join(root, `charts/svc3/templates/${program}/deployment.yaml`), 'utf8');
}

export interface OperatorProcess {
  readonly child: ChildProcess;
  /** Milliseconds from the start of the process to `/readyz`. */
  readonly readyMs: number;
  usage(): Usage;
  /** SIGTERM, which gives the election back, so that the next one leads at once. */
  stop(): Promise<void>;
}

/** Resolves when its caches are synced. */
export async function startOperatorProcess(
  kubeconfig: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<OperatorProcess> {
  const file = await bundled('operator');
  const [port = 0] = await freePorts(1);
  const began = performance.now();
  const child = spawn(process.execPath, [...nodeFlags('operator'), file], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...allocatorSettings('operator'),
      PATH: process.env['PATH'],
      KUBECONFIG: kubeconfig,
      POD_NAME: `bench-${port}`,
      SVC3_RUNNER_IMAGE: 'a',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: `${port}`,
      SVC3_LOG_LEVEL: 'error',
      SVC3_PORT_RANGE_SSH: '8822-8871',
      ...environment,
    },
  });
  process.once('exit', () => child.kill('SIGKILL'));
  const isReady = async () => {
    if (child.exitCode !== null) throw new Error(`the operator ended with ${child.exitCode}`);
    return fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  await until('the operator to be ready', isReady, { stepMs: 5 });
  return {
    child,
    readyMs: performance.now() - began,
    usage: () => usageOf(child.pid ?? 0),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

export interface Usage {
  readonly cpuMs: number;
  readonly rssMB: number;
  readonly peakRssMB: number;
}

/** Clock ticks of 10 ms, as Linux has them. */
export function usageOf(pid: number): Usage {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    cpuMs: ticksOf(statOf(pid)),
    rssMB: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024,
    peakRssMB: Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024,
  };
}

/** CPU time in milliseconds of this process and of each of its children, by the name that the kernel knows it by. */
export function familyCpuMs(): Record<string, number> {
  const times: Record<string, number> = { bench: ticksOf(statOf(process.pid)) };
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = statOf(Number(entry));
      const name = /\((.*)\) /.exec(stat)?.[1] ?? '';
      const [, parent] = stat.replace(/^.*\) /, '').split(' ');
      if (Number(parent) === process.pid) times[name] = (times[name] ?? 0) + ticksOf(stat);
    } catch {
      // It has just ended.
    }
  }
  return times;
}

function statOf(pid: number): string {
  return readFileSync(`/proc/${pid}/stat`, 'utf8');
}

function ticksOf(stat: string): number {
  const fields = stat.replace(/^.*\) /, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** CPU time so far of all processes that this one has started and that live, in milliseconds. */
export function othersCpuMs(): number {
  const { bench: _bench, ...others } = familyCpuMs();
  return Object.values(others).reduce((sum, each) => sum + each, 0);
}
