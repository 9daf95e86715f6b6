import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Pod } from '../../src/api/core.ts';
import { namespaces, pods, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { Informer, KubeObject, Resource } from '../../src/kube/types.ts';
import { freePorts } from '../../src/localcluster/ports.ts';
import { ownControlPlane, temporaryFolder } from '../support/controlplane.ts';
import { installDefinitions } from '../support/definitions.ts';
import { collectVmPods, simulateKubelet } from '../support/kubelet.ts';
import { percentile } from './figures.ts';

export interface ChurnFigures {
  readonly vms: number;
  readonly perSecond: number;
  readonly nodes: number;
  /** Seconds from create to Running, bare pods of the same run. */
  readonly bareP50: number;
  readonly bareP95: number;
  readonly vmP50: number;
  readonly vmP95: number;
  readonly ratioP50: number;
  readonly ratioP95: number;
  readonly writesPerVm: number;
  readonly cpuMsPerVm: number;
  readonly rssMB: number;
}

const run = promisify(execFile);
const namespace = 'bench';
const root = join(import.meta.dirname, '../..');

/** The operator as it ships: one file. */
async function bundledOperator(): Promise<string> {
  const dir = join(temporaryFolder(), 'bundle');
  await run(join(root, 'node_modules/.bin/rolldown'), ['-c', 'rolldown.config.ts', '--log-level', 'silent'], {
    cwd: root,
    env: { ...process.env, SVC3_BUNDLE_DIR: dir },
  });
  return join(dir, 'operator.js');
}

/** VMs at a steady rate on simulated nodes, beside bare pods at the same rate in the same run. */
export async function measureChurn(
  options: { vms?: number; perSecond?: number; nodes?: number } = {},
): Promise<ChurnFigures> {
  const { vms: count = 500, perSecond = 10, nodes = 100 } = options;
  const controlPlane = await ownControlPlane();
  const client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  const cleanups: (() => Promise<unknown>)[] = [() => controlPlane.remove(), () => client.close()];
  try {
    await installDefinitions(client);
    for (const name of [namespace, 'svc3-system', 'svc3-credentials', 'svc3-node']) {
      await client.create(namespaces, { metadata: { name } });
    }
    const kubelet = simulateKubelet(client);
    const collector = collectVmPods(client);
    cleanups.push(
      () => kubelet.stop(),
      () => collector.stop(),
    );
    for (let i = 0; i < nodes; i++) {
      await kubelet.addNode({ name: `node-${i}`, allocatable: { cpu: '32', memory: '128Gi' } });
    }
    const operator = await startOperator(controlPlane.kubeconfigPath);
    cleanups.push(async () => operator.process.kill('SIGKILL'));
    const bare = await stream(client, pods, { count, perSecond }, barePod, isPodRunning);
    const before = operator.usage();
    const writesBefore = await operator.writes();
    const made = await stream(client, vms, { count, perSecond }, aVm, isVmRunning);
    // Events are written behind.
    await delay(2_000);
    const after = operator.usage();
    const writes = (await operator.writes()) - writesBefore;
    const p = (values: number[], of: number) => Math.round(percentile(values, of)) / 1000;
    return {
      vms: count,
      perSecond,
      nodes,
      bareP50: p(bare, 0.5),
      bareP95: p(bare, 0.95),
      vmP50: p(made, 0.5),
      vmP95: p(made, 0.95),
      ratioP50: Math.round((percentile(made, 0.5) / percentile(bare, 0.5)) * 100) / 100,
      ratioP95: Math.round((percentile(made, 0.95) / percentile(bare, 0.95)) * 100) / 100,
      writesPerVm: Math.round((writes / count) * 100) / 100,
      cpuMsPerVm: Math.round(((after.cpuMs - before.cpuMs) / count) * 10) / 10,
      rssMB: Math.round(after.rssMB),
    };
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup().catch(() => undefined);
  }
}

function barePod(name: string): Pod {
  const requests = { cpu: '100m', memory: '64Mi' };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: { containers: [{ name: 'a', image: 'a', resources: { requests } }] },
  };
}

function aVm(name: string): Vm {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace },
    // With digest and architecture no registry is asked: that is not measured here.
    spec: {
      image: `127.0.0.1:1/a@sha256:${'0'.repeat(64)}`,
      architecture: 'amd64',
      cpu: 1,
      memory: '64Mi',
      powerState: 'Running',
    },
  };
}

function isPodRunning({ status }: Pod): boolean {
  return status?.phase === 'Running';
}

function isVmRunning({ status }: Vm): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;
}

/** Creates objects at a rate and measures, by one watch, when each is there; then deletes them. */
async function stream<T extends KubeObject>(
  client: RootClient,
  resource: Resource<T>,
  rate: { count: number; perSecond: number },
  make: (name: string) => T,
  isThere: (object: T) => boolean,
): Promise<number[]> {
  const ending = new AbortController();
  const begun = new Map<string, number>();
  const took = new Map<string, number>();
  const informer: Informer<T> = createInformer({ client, resource, namespace });
  informer.onChange(({ object }) => {
    const name = object.metadata?.name ?? '';
    const start = begun.get(name);
    if (start !== undefined && !took.has(name) && isThere(object)) took.set(name, performance.now() - start);
  });
  const watching = informer.run(ending.signal);
  await informer.synced();
  const start = performance.now();
  const creating: Promise<unknown>[] = [];
  for (let i = 0; i < rate.count; i++) {
    await delay(Math.max(0, start + (i * 1000) / rate.perSecond - performance.now()));
    const name = `${resource.plural}-${i}`;
    begun.set(name, performance.now());
    creating.push(client.create(resource, make(name)));
  }
  await Promise.all(creating);
  for (let i = 0; i < 1200 && took.size < rate.count; i++) await delay(100);
  await Promise.all(
    [...begun.keys()].map((name) => client.delete(resource, { name, namespace }, { gracePeriodSeconds: 0 })),
  );
  for (let i = 0; i < 600 && informer.list().length > 0; i++) await delay(100);
  ending.abort();
  await watching;
  return [...took.values()];
}

interface BenchOperator {
  readonly process: ChildProcess;
  usage(): { cpuMs: number; rssMB: number };
  writes(): Promise<number>;
}

async function startOperator(kubeconfig: string): Promise<BenchOperator> {
  const [port = 0] = await freePorts(1);
  const child = spawn(process.execPath, [await bundledOperator()], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      KUBECONFIG: kubeconfig,
      SVC3_RUNNER_IMAGE: 'a',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_HEALTH_PORT: `${port}`,
      SVC3_LOG_LEVEL: 'warn',
      SVC3_PORT_RANGE_SSH: '8822-8871',
    },
  });
  const metrics = () => fetch(`http://127.0.0.1:${port}/metrics`).then((reply) => reply.text());
  for (let i = 0; i < 300; i++) {
    const text = await metrics().catch(() => '');
    if (/method="PUT"|method="POST"/.test(text)) break;
    await delay(100);
  }
  return {
    process: child,
    usage: () => usageOf(child.pid ?? 0),
    /** Leases are written with PUT. */
    async writes() {
      const lines = (await metrics())
        .split('\n')
        .filter((line) => line.startsWith('svc3_kube_requests_total{'));
      return lines
        .filter((line) => /method="(POST|PATCH|DELETE)"/.test(line))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    },
  };
}

/** Clock ticks of 10 ms, as Linux has them. */
function usageOf(pid: number): { cpuMs: number; rssMB: number } {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    cpuMs: (Number(fields[11]) + Number(fields[12])) * 10,
    rssMB: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024,
  };
}
