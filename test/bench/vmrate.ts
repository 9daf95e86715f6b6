import { setTimeout as delay } from 'node:timers/promises';
import { pods, vms } from '../../src/api/resources.ts';
import { resourcePath } from '../../src/kube/path.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import { auditReader, type WriteCounts } from './audit.ts';
import type { BareOperator, Template } from './bareoperator.ts';
import { startBareProcess } from './bareprocess.ts';
import { type Benchmark, type Outcome, percentile, rounded, size } from './figures.ts';
import { othersCpuMs, startOperatorProcess } from './operatorprocess.ts';
import { until } from './until.ts';
import {
  barePod,
  benchVm,
  createAtRate,
  deleteAll,
  isPodBound,
  isPodRunning,
  isVmReady,
  namespace,
  type Observer,
  observe,
  simulatedCluster,
  type SimulatedCluster,
} from './simulated.ts';
import { startWaitingRunners } from './waitingrunners.ts';

/** VMs at a steady rate on simulated nodes beside bare pods at the same rate: blocks of the two take turns. */
export const benchmark: Benchmark = {
  about: 'VMs at 10/s on simulated nodes beside bare pods at the same rate',
  settings: {
    SVC3_BENCH_VMS: '500 VMs and as many pods',
    SVC3_BENCH_NODES: '100 nodes',
    SVC3_BENCH_PER_SECOND: '10 created in a second',
  },
  measure,
};

const blockSize = 50;

interface Watches {
  readonly pods: Observer<keyof typeof podMarks>;
  readonly vms: Observer<keyof typeof vmMarks>;
}

const podMarks = { made: () => true, bound: isPodBound, running: isPodRunning };
const vmMarks = { made: () => true, ready: isVmReady };

/** Milliseconds from create to what a watch shows, by what is shown. */
interface Tally {
  readonly bare: Record<keyof typeof podMarks, number[]>;
  readonly podOfVm: Record<keyof typeof podMarks, number[]>;
  readonly vm: Record<keyof typeof vmMarks, number[]>;
}

function emptyTally(): Tally {
  const podTimes = () => ({ made: [], bound: [], running: [] });
  return { bare: podTimes(), podOfVm: podTimes(), vm: { made: [], ready: [] } };
}

/** Adds what a watch saw of one object. */
function note<M extends string>(
  into: Record<M, number[]>,
  observer: Observer<M>,
  name: string,
  start: number,
): void {
  for (const mark of Object.keys(into) as M[]) into[mark].push((observer.at(mark, name) ?? NaN) - start);
}

/** What an operator did and cost while its VMs came. */
interface Cost {
  readonly writes: WriteCounts;
  readonly cpuMs: number;
  /** Of all processes but this one: etcd, Kubernetes' own and the operator. */
  readonly allCpuMs: number;
  /** At its end, and at most. */
  readonly rssMB: number;
  readonly peakRssMB: number;
}

interface Setting {
  readonly cluster: SimulatedCluster;
  readonly nodes: readonly string[];
  readonly watches: Watches;
  readonly perSecond: number;
}

/** One of the runs of svc3 or of the bare operator, which take turns. */
interface Run {
  readonly name: string;
  /** VMs, and as many pods. */
  readonly count: number;
}

async function measure(): Promise<Outcome> {
  const count = size('SVC3_BENCH_VMS', 500);
  const perSecond = size('SVC3_BENCH_PER_SECOND', 10);
  const nodes = Array.from({ length: size('SVC3_BENCH_NODES', 100) }, (_, i) => ({
    name: `node-${i}`,
    allocatable: { cpu: '32', memory: '128Gi' },
  }));
  const runners = await startWaitingRunners();
  try {
    const cluster = await simulatedCluster(nodes);
    cluster.kubelet.behave(() => ({ kind: 'run', podIP: '127.0.0.1' }));
    const watches = {
      pods: observe(cluster.watched.pods, podMarks),
      vms: observe(cluster.watched.vms, vmMarks),
    };
    try {
      return await inBothOrders({ cluster, nodes: nodes.map(({ name }) => name), watches, perSecond }, count);
    } finally {
      watches.pods.stop();
      watches.vms.stop();
      await cluster.remove();
    }
  } finally {
    await runners.stop();
  }
}

/** svc3, the bare operator, the bare operator, svc3: what drifts falls on both alike. */
async function inBothOrders(setting: Setting, count: number): Promise<Outcome> {
  const half = Math.ceil(count / 2);
  const tally = emptyTally();
  const leastTally = emptyTally();
  const first = await withSvc3(setting, { name: 'a', count: half }, tally);
  const { template } = first;
  let leastCpuMs = 0;
  for (const name of ['a', 'b'])
    leastCpuMs += await withBareOperator(setting, { name, count: half }, leastTally, template);
  const { cost } = await withSvc3(setting, { name: 'b', count: half }, tally);
  const least = { tally: leastTally, allCpuMs: leastCpuMs };
  return outcome(tally, least, sumOf(first.cost, cost), 2 * half);
}

function sumOf(one: Cost, other: Cost): Cost {
  const kinds = new Set([...Object.keys(one.writes.byKind), ...Object.keys(other.writes.byKind)]);
  const byKind = Object.fromEntries(
    [...kinds].map((kind) => [kind, (one.writes.byKind[kind] ?? 0) + (other.writes.byKind[kind] ?? 0)]),
  );
  return {
    writes: { ...one.writes, total: one.writes.total + other.writes.total, byKind },
    cpuMs: one.cpuMs + other.cpuMs,
    allCpuMs: one.allCpuMs + other.allCpuMs,
    rssMB: Math.max(one.rssMB, other.rssMB),
    peakRssMB: Math.max(one.peakRssMB, other.peakRssMB),
  };
}

async function withSvc3(
  setting: Setting,
  { name, count }: Run,
  tally: Tally,
): Promise<{ cost: Cost; template: Template }> {
  const { cluster } = setting;
  const operator = await startOperatorProcess(cluster.operatorKubeconfigPath);
  try {
    await inTurns(setting, `warm-${name}`, warmUp(count), emptyTally());
    const template = await exampleOf(setting, `the-example-${name}`);
    const audit = auditReader(cluster.controlPlane.auditLogPath);
    await audit.since();
    let cpuMs = 0;
    let allCpuMs = 0;
    await inTurns(setting, `svc3-${name}`, count, tally, async (vms) => {
      const before = operator.usage().cpuMs;
      allCpuMs += await cpuOfOthers(vms);
      cpuMs += operator.usage().cpuMs - before;
    });
    const writes = await audit.since();
    const { rssMB, peakRssMB } = operator.usage();
    return { cost: { writes, cpuMs, allCpuMs, rssMB, peakRssMB }, template };
  } finally {
    await operator.stop();
  }
}

/** A VM at its goal and its pod, as svc3 has written them. */
async function exampleOf({ cluster: { client }, watches }: Setting, name: string): Promise<Template> {
  await client.create(vms, benchVm(name));
  await until('the example to run', () => watches.vms.at('ready', name) !== undefined);
  const [vm, pod] = await Promise.all([
    client.get(vms, name, namespace),
    client.get(pods, podNameOf(name), namespace),
  ]);
  await deleteAll(client, vms, [name]);
  return { vm, pod };
}

/** The same pods and statuses, written by a process that does nothing else. Resolves with the CPU time of all processes, in milliseconds. */
async function withBareOperator(
  setting: Setting,
  { name, count }: Run,
  tally: Tally,
  template: Template,
): Promise<number> {
  const { server, caPem, adminToken } = setting.cluster.controlPlane;
  const options: BareOperator = {
    origin: server,
    caPem,
    token: adminToken,
    podsPath: resourcePath(pods, { namespace }),
    vmsPath: resourcePath(vms, { namespace }),
    nodes: setting.nodes,
    template,
  };
  const operator = await startBareProcess('bareoperator.ts', options);
  try {
    await inTurns(setting, `bare-warm-${name}`, warmUp(count), emptyTally());
    let allCpuMs = 0;
    await inTurns(setting, `bare-${name}`, count, tally, async (vms) => {
      allCpuMs += await cpuOfOthers(vms);
    });
    return allCpuMs;
  } finally {
    operator.stop();
  }
}

/** CPU time that all other processes of this benchmark take meanwhile, in milliseconds. */
async function cpuOfOthers(work: () => Promise<unknown>): Promise<number> {
  const before = othersCpuMs();
  await work();
  return othersCpuMs() - before;
}

function warmUp(count: number): number {
  return Math.min(20, count);
}

/** Blocks of pods and of VMs, the order swapped each time. */
async function inTurns(
  setting: Setting,
  name: string,
  count: number,
  tally: Tally,
  around: (vms: () => Promise<unknown>) => Promise<unknown> = (vms) => vms(),
): Promise<void> {
  for (let done = 0, turn = 0; done < count; done += blockSize, turn++) {
    const amount = Math.min(blockSize, count - done);
    const bare = () => podBlock(setting, names(`pod-${name}-${turn}`, amount), tally);
    const made = () => around(() => vmBlock(setting, names(`vm-${name}-${turn}`, amount), tally));
    for (const step of turn % 2 === 0 ? [bare, made] : [made, bare]) await step();
  }
}

function names(prefix: string, amount: number): string[] {
  return Array.from({ length: amount }, (_, i) => `${prefix}-${i}`);
}

async function podBlock(
  { cluster, watches, perSecond }: Setting,
  wanted: readonly string[],
  tally: Tally,
): Promise<void> {
  const { client } = cluster;
  const begun = await createAtRate(
    client,
    pods,
    wanted.map((name) => barePod(name)),
    perSecond,
  );
  await until('all pods to run', () =>
    wanted.every((name) => watches.pods.at('running', name) !== undefined),
  );
  for (const [name, start] of begun) note(tally.bare, watches.pods, name, start);
  await deleteAll(client, pods, wanted);
}

async function vmBlock(
  { cluster, watches, perSecond }: Setting,
  wanted: readonly string[],
  tally: Tally,
): Promise<void> {
  const { client } = cluster;
  const begun = await createAtRate(
    client,
    vms,
    wanted.map((name) => benchVm(name)),
    perSecond,
  );
  await until('all VMs to run', () => wanted.every((name) => watches.vms.at('ready', name) !== undefined));
  for (const [name, start] of begun) {
    note(tally.vm, watches.vms, name, start);
    note(tally.podOfVm, watches.pods, podNameOf(name), start);
  }
  // Events are written behind.
  await delay(1_500);
  await deleteAll(client, vms, wanted);
}

function outcome(
  tally: Tally,
  { tally: least, allCpuMs: leastCpuMs }: { tally: Tally; allCpuMs: number },
  { writes, cpuMs, allCpuMs, rssMB, peakRssMB }: Cost,
  count: number,
): Outcome {
  const { bare, podOfVm, vm } = tally;
  const rows = [
    row('bare pod, create → a watch shows it', bare.made),
    row('bare pod, create → bound', bare.bound),
    row('bare pod, create → Running', bare.running),
    row('VM, create → a watch shows it', vm.made),
    row('VM, create → its pod exists', podOfVm.made),
    row('VM, create → its pod bound', podOfVm.bound),
    row('VM, create → its pod Running', podOfVm.running),
    row('VM, create → VM Ready', vm.ready),
    row('with the bare operator: bare pod, create → Running', least.bare.running),
    row('with the bare operator: VM, create → VM Ready', least.vm.ready),
    ...Object.entries(writes.byKind).map(([what, value]) => ({ what, 'per VM': rounded(value / count) })),
  ];
  const figures = [
    beside('VM create → its pod Running', 50, podOfVm.running, bare.running),
    beside('VM create → its pod Running', 95, podOfVm.running, bare.running),
    beside('VM create → Ready', 50, vm.ready, bare.running),
    beside('VM create → Ready', 95, vm.ready, bare.running),
    beside('with the bare operator: VM create → Ready', 50, least.vm.ready, least.bare.running),
    beside('with the bare operator: VM create → Ready', 95, least.vm.ready, least.bare.running),
    {
      what: 'CPU of all processes per VM beside the bare operator',
      value: rounded(allCpuMs / leastCpuMs),
      atMost: 1.15,
    },
    { what: 'CPU of all processes per VM, ms', value: rounded(allCpuMs / count, 1) },
    { what: 'writes per VM (audit log)', value: rounded(writes.total / count), atMost: 6 },
    { what: 'CPU per VM, ms', value: rounded(cpuMs / count, 1), atMost: 12 },
    { what: 'RSS at the end, MB', value: rounded(rssMB, 1), atMost: 110 },
    { what: 'RSS at its peak, MB', value: rounded(peakRssMB, 1) },
  ];
  return { rows, figures };
}

function row(what: string, values: readonly number[]) {
  return {
    what,
    'P50 ms': Math.round(percentile(values, 0.5)),
    'P95 ms': Math.round(percentile(values, 0.95)),
    'P99 ms': Math.round(percentile(values, 0.99)),
  };
}

/** One percentile of times beside that of bare pods. */
function beside(what: string, percent: number, values: readonly number[], bare: readonly number[]) {
  const value = percentile(values, percent / 100) / percentile(bare, percent / 100);
  return { what: `${what}, P${percent} beside bare pods`, value: rounded(value) };
}
