import type { Submitted } from '../../src/api/object.ts';
import type { Pod } from '../../src/api/core.ts';
import { extendedResources, labels } from '../../src/api/meta.ts';
import { pods, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { KubeObject, Resource } from '../../src/api/object.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import { auditReader } from './audit.ts';
import { type Benchmark, median, type Outcome, percentile, rounded, size } from './figures.ts';
import { furtherWrites, type Written } from './furtherwrites.ts';
import { gpuNode } from './gpunode.ts';
import { familyCpuMs, startOperatorProcess, type Usage } from './operatorprocess.ts';
import { until } from './until.ts';
import { inParallel } from '../support/parallel.ts';
import {
  barePod,
  benchVm,
  deleteAll,
  isPodBound,
  isVmReady,
  namespace,
  observe,
  simulatedCluster,
  type SimulatedCluster,
} from './simulated.ts';

/**
 * How many VMs find their node in a second, beside kube-scheduler alone that binds as many bare pods with the same
 * constraint while a loop makes as many further writes as svc3 does, of the same kinds. Measured is the time from the first create to the
 * last binding. The audit log says how many writes svc3 made in that time; in the bare round each creator makes as many
 * after each of its pods, before it makes the next, so that they fall into the time that is measured there.
 */
export const benchmark: Benchmark = {
  about: 'placements in a second on GPU nodes, beside kube-scheduler alone',
  settings: {
    SVC3_BENCH_GPU_NODES: '1000 nodes with one GPU bundle each',
    SVC3_BENCH_GPU_VMS: '1000 VMs with a GPU, at most as many as nodes',
    SVC3_BENCH_PLAIN_VMS: '5000 VMs without',
    SVC3_BENCH_ROUNDS:
      'at most 7 rounds of each, taking turns: no more than are needed to say on which side of the limit the median is',
  },
  measure,
};

interface Kind {
  readonly name: 'GPU' | 'plain';
  readonly count: number;
  pod(name: string): Submitted<Pod>;
  vm(name: string): Submitted<Vm>;
}

interface Round {
  readonly perSecond: number;
  /** Milliseconds from create to Running, VMs only. */
  readonly runningMs: readonly number[];
  readonly writesPerVm: number;
  /** Those of them until the last one was bound: of svc3, or of the loop beside kube-scheduler. */
  readonly writesInTime: number;
  readonly written: Written;
  /** CPU milliseconds until then, by process. */
  readonly cpuInTime: Readonly<Record<string, number>>;
  readonly requests: Readonly<Record<string, number>>;
  readonly cpuMsPerVm: number;
  readonly usage: Usage | undefined;
}

/** So many come and go first, with each operator: a process that has just begun is slow. */
const warmUp = 200;

/** No writes beside those of the pods. */
const nothing: Written = { perVm: {}, status: {} };

/** Of placements beside kube-scheduler alone. */
const limit = 0.9;

/** Creations under way at once. */
const creators = 32;

async function measure(): Promise<Outcome> {
  const nodes = size('SVC3_BENCH_GPU_NODES', 1000);
  const rounds = Math.max(1, size('SVC3_BENCH_ROUNDS', 7));
  const cluster = await simulatedCluster(Array.from({ length: nodes }, (_, i) => gpuNode(`node-${i}`)));
  const rows: object[] = [];
  const figures: Outcome['figures'][number][] = [];
  try {
    for (const kind of kinds(Math.min(nodes, size('SVC3_BENCH_GPU_VMS', 1000)))) {
      await podRound(cluster, { ...kind, count: Math.min(kind.count, warmUp) }, 'warm', nothing);
      const made: Round[] = [];
      const bare: Round[] = [];
      for (let turn = 0; turn < rounds && !isDecided(ratiosOf(made, bare)); turn++) {
        const withVms = async () => made.push(await vmRound(cluster, kind, `r${turn}`));
        const without = async () =>
          bare.push(await podRound(cluster, kind, `r${turn}`, made.at(-1)?.written ?? nothing));
        // Another first each time; the writes that go with pods are those of the last VMs.
        for (const step of turn % 2 === 0 ? [withVms, without] : [without, withVms]) await step();
        const [last, beside] = [made.at(-1), bare.at(-1)].map((round) => round?.perSecond.toFixed(0));
        console.error(`${kind.name}, round ${turn + 1}: ${last}/s beside ${beside}/s`);
      }
      rows.push(...made.map((round, i) => rowOf(kind, round, bare[i])));
      rows.push(...made.map(({ cpuInTime }) => cpuRow(`${kind.name}, CPU ms/VM in time`, cpuInTime)));
      rows.push(...bare.map(({ cpuInTime }) => cpuRow(`${kind.name} bare, CPU ms/pod`, cpuInTime)));
      const ratios = ratiosOf(made, bare);
      figures.push({
        what: `${kind.name}: placements/s beside kube-scheduler`,
        value: median(ratios),
        atLeast: limit,
      });
      figures.push({ what: `${kind.name}: the same, the worst round`, value: Math.min(...ratios) });
      figures.push({ what: `${kind.name}: the same, the best round`, value: Math.max(...ratios) });
      figures.push({ what: `${kind.name}: rounds`, value: ratios.length });
      const worst = Math.max(...made.map(({ usage }) => usage?.peakRssMB ?? NaN));
      figures.push({ what: `${kind.name}: RSS at its peak, MB`, value: worst });
    }
  } finally {
    await cluster.remove();
  }
  return { rows, figures };
}

function ratiosOf(made: readonly Round[], bare: readonly Round[]): number[] {
  return made.map(({ perSecond }, i) => perSecond / (bare[i]?.perSecond ?? NaN));
}

/**
 * Whether enough is known to say on which side of the limit the median lies. Where it is the limit itself, four rounds of four fall on one side
 * once in eight runs, and so do six of seven (a sign test).
 */
function isDecided(ratios: readonly number[]): boolean {
  const above = ratios.filter((ratio) => ratio >= limit).length;
  return ratios.length > 0 && signTest(Math.min(above, ratios.length - above), ratios.length) <= 1 / 8;
}

/** How often a fair coin shows one of its sides at most `few` times in `throws`. */
function signTest(few: number, throws: number): number {
  let ways = 1;
  let sum = 0;
  for (let i = 0; i <= few; i++) {
    sum += ways;
    ways = (ways * (throws - i)) / (i + 1);
  }
  return (2 * sum) / 2 ** throws;
}

function kinds(gpuVms: number): Kind[] {
  const gpu = { [extendedResources.gpuPassthrough]: '1' };
  const selector = { [labels.gpuPassthrough]: 'enabled' };
  return [
    {
      name: 'GPU',
      count: gpuVms,
      vm: (name) => benchVm(name, { gpuPassthrough: 'Enabled' }),
      pod: (name) => withGpu(barePod(name), gpu, selector),
    },
    {
      name: 'plain',
      count: size('SVC3_BENCH_PLAIN_VMS', 5000),
      vm: (name) => benchVm(name),
      pod: (name) => barePod(name),
    },
  ];
}

function withGpu(
  pod: Submitted<Pod>,
  limits: Record<string, string>,
  nodeSelector: Record<string, string>,
): Submitted<Pod> {
  const containers = pod.spec.containers.map((container) => ({
    ...container,
    resources: { ...container.resources, limits },
  }));
  return { ...pod, spec: { ...pod.spec, containers, nodeSelector } };
}

async function vmRound(cluster: SimulatedCluster, kind: Kind, turn: string): Promise<Round> {
  const { client, controlPlane } = cluster;
  const names = namesOf(`${kind.name.toLowerCase()}-${turn}`, kind.count);
  const operator = await startOperatorProcess(cluster.operatorKubeconfigPath, {
    SVC3_GPU_PASSTHROUGH_ENABLED: 'true',
  });
  const bound = observe(cluster.watched.pods, { bound: isPodBound });
  const ready = observe(cluster.watched.vms, { ready: isVmReady });
  try {
    // They also show that this operator leads.
    const first = namesOf(`warm-${kind.name.toLowerCase()}-${turn}`, Math.min(warmUp, kind.count));
    await createAll(client, vms, first.map(kind.vm));
    await until('the operator to be warm', () =>
      first.every((name) => ready.at('ready', name) !== undefined),
    );
    await deleteAll(client, vms, first);
    const audit = auditReader(controlPlane.auditLogPath);
    await audit.since();
    const before = operator.usage().cpuMs;
    const cpuBefore = familyCpuMs();
    const begun = await createAll(client, vms, names.map(kind.vm));
    const perSecond = await rateOf(begun, (name) => bound.at('bound', podNameOf(name)));
    const cpuInTime = cpuPer(names.length, cpuBefore, familyCpuMs());
    const inTime = await audit.since();
    const perVm = Object.fromEntries(
      Object.entries(inTime.byKind).map(([what, amount]) => [what, amount / names.length]),
    );
    await until('all VMs to run', () => names.every((name) => ready.at('ready', name) !== undefined), {
      stepMs: 100,
    });
    // Events are written behind.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const later = await audit.since();
    const usage = operator.usage();
    const { status } = await client.get(vms, names[0] ?? '', namespace);
    await deleteAll(client, vms, names);
    return {
      perSecond,
      runningMs: [...begun].map(([name, start]) => (ready.at('ready', name) ?? NaN) - start),
      writesPerVm: (inTime.total + later.total) / names.length,
      writesInTime: inTime.total / names.length,
      written: { perVm, status },
      cpuInTime,
      requests: sumOf(inTime.requests, later.requests),
      cpuMsPerVm: (usage.cpuMs - before) / names.length,
      usage,
    };
  } finally {
    bound.stop();
    ready.stop();
    await operator.stop();
  }
}

/** Without an operator. Those that it made for a VM follow the creation of each pod. */
async function podRound(
  cluster: SimulatedCluster,
  kind: Kind,
  turn: string,
  written: Written,
): Promise<Round> {
  const { client } = cluster;
  const names = namesOf(`pod-${kind.name.toLowerCase()}-${turn}`, kind.count);
  const bound = observe(cluster.watched.pods, { bound: isPodBound });
  try {
    const load = furtherWrites(client, `load-${kind.name.toLowerCase()}-${turn}`, written);
    const cpuBefore = familyCpuMs();
    const begun = await createAll(client, pods, names.map(kind.pod), () => load.make());
    const perSecond = await rateOf(begun, (name) => bound.at('bound', name));
    const cpuInTime = cpuPer(names.length, cpuBefore, familyCpuMs());
    const writesInTime = load.made() / names.length;
    await deleteAll(client, vms, load.vms, { andWait: false });
    await deleteAll(client, pods, names);
    return {
      perSecond,
      runningMs: [],
      writesPerVm: writesInTime,
      writesInTime,
      written,
      cpuInTime,
      requests: {},
      cpuMsPerVm: 0,
      usage: undefined,
    };
  } finally {
    bound.stop();
  }
}

function namesOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
}

async function createAll<T extends KubeObject>(
  client: RootClient,
  resource: Resource<T>,
  objects: readonly T[],
  created: () => Promise<void> = () => Promise.resolve(),
): Promise<Map<string, number>> {
  const begun = new Map<string, number>();
  await inParallel(objects, creators, async (object) => {
    begun.set(object.metadata?.name ?? '', performance.now());
    await client.create(resource, object);
    await created();
  });
  return begun;
}

/** From the first creation to the last binding. */
async function rateOf(
  begun: ReadonlyMap<string, number>,
  boundAt: (name: string) => number | undefined,
): Promise<number> {
  const names = [...begun.keys()];
  await until('all pods to be bound', () => names.every((name) => boundAt(name) !== undefined), {
    stepMs: 100,
  });
  const last = Math.max(...names.map((name) => boundAt(name) ?? NaN));
  return (names.length / (last - Math.min(...begun.values()))) * 1000;
}

function cpuPer(
  count: number,
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(after).map(([name, ms]) => [name, (ms - (before[name] ?? 0)) / count]),
  );
}

function sumOf(
  some: Readonly<Record<string, number>>,
  others: Readonly<Record<string, number>>,
): Record<string, number> {
  const sum = { ...some };
  for (const [name, amount] of Object.entries(others)) sum[name] = (sum[name] ?? 0) + amount;
  return sum;
}

function rowOf({ name, count }: Kind, made: Round, bare: Round | undefined): object {
  const ms = (of: number) => Math.round(percentile(made.runningMs, of));
  return {
    kind: name,
    count,
    'svc3/s': rounded(made.perSecond, 1),
    'kube-scheduler/s': rounded(bare?.perSecond ?? NaN, 1),
    'P50 ms': ms(0.5),
    'P95 ms': ms(0.95),
    'P99 ms': ms(0.99),
    'writes/VM': rounded(made.writesPerVm),
    'in time': rounded(made.writesInTime),
    'beside kube-scheduler': rounded(bare?.writesInTime ?? NaN),
    'CPU ms/VM': rounded(made.cpuMsPerVm, 1),
    'RSS MB': rounded(made.usage?.rssMB ?? NaN, 1),
    requests: Object.entries(made.requests)
      .map(([verb, amount]) => `${verb} ${amount}`)
      .join(', '),
  };
}

function cpuRow(kind: string, times: Readonly<Record<string, number>>): object {
  const text = Object.entries(times)
    .filter(([, ms]) => ms > 0.05)
    .map(([name, ms]) => `${name} ${rounded(ms, 1)}`);
  return { kind, requests: text.join(', ') };
}
