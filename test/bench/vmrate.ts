import { setTimeout as delay } from 'node:timers/promises';
import { pods, vms } from '../../src/api/resources.ts';
import { resourcePath } from '../../src/kube/path.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import { auditReader, type WriteCounts } from './audit.ts';
import type { BareOperator, Template } from './bareoperator.ts';
import { startBareProcess } from './bareprocess.ts';
import { type Benchmark, type Outcome, percentile, rounded, size } from './figures.ts';
import { othersCpuMs, startOperatorProcess, type Usage } from './operatorprocess.ts';
import { until } from './parallel.ts';
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
  readonly usage: Usage;
}

interface Setting {
  readonly cluster: SimulatedCluster;
  readonly watches: Watches;
  readonly perSecond: number;
}

async function measure(): Promise<Outcome> {
  const count = size('SVC3_BENCH_VMS', 500);
  const perSecond = size('SVC3_BENCH_PER_SECOND', 10);
  const nodes = Array.from({ length: size('SVC3_BENCH_NODES', 100) }, (_, i) => ({
    name: `node-${i}`,
    allocatable: { cpu: '32', memory: '128Gi' },
  }));
  const cluster = await simulatedCluster(nodes);
  const watches = {
    pods: observe(cluster.watched.pods, podMarks),
    vms: observe(cluster.watched.vms, vmMarks),
  };
  const setting = { cluster, watches, perSecond };
  try {
    const { tally, cost, template } = await withSvc3(setting, count);
    const least = await withBareOperator(
      setting,
      count,
      nodes.map(({ name }) => name),
      template,
    );
    return outcome(tally, least, cost, count);
  } finally {
    watches.pods.stop();
    watches.vms.stop();
    await cluster.remove();
  }
}

async function withSvc3(
  setting: Setting,
  count: number,
): Promise<{ tally: Tally; cost: Cost; template: Template }> {
  const { cluster } = setting;
  const operator = await startOperatorProcess(cluster.operatorKubeconfigPath);
  try {
    await inTurns(setting, 'warm', warmUp(count), emptyTally());
    const template = await exampleOf(setting);
    const audit = auditReader(cluster.controlPlane.auditLogPath);
    await audit.since();
    const tally = emptyTally();
    let cpuMs = 0;
    let allCpuMs = 0;
    await inTurns(setting, 'svc3', count, tally, async (vms) => {
      const before = operator.usage().cpuMs;
      allCpuMs += await cpuOfOthers(vms);
      cpuMs += operator.usage().cpuMs - before;
    });
    const writes = await audit.since();
    return { tally, cost: { writes, cpuMs, allCpuMs, usage: operator.usage() }, template };
  } finally {
    await operator.stop();
  }
}

/** A VM at its goal and its pod, as svc3 has written them. */
async function exampleOf({ cluster: { client }, watches }: Setting): Promise<Template> {
  const name = 'the-example';
  await client.create(vms, benchVm(name));
  await until('the example to run', () => watches.vms.at('ready', name) !== undefined);
  const [vm, pod] = await Promise.all([
    client.get(vms, name, namespace),
    client.get(pods, podNameOf(name), namespace),
  ]);
  await deleteAll(client, vms, [name]);
  return { vm, pod };
}

/** The same pods and statuses, written by a process that does nothing else. */
async function withBareOperator(
  setting: Setting,
  count: number,
  nodes: readonly string[],
  template: Template,
): Promise<{ tally: Tally; allCpuMs: number }> {
  const { server, caPem, adminToken } = setting.cluster.controlPlane;
  const options: BareOperator = {
    origin: server,
    caPem,
    token: adminToken,
    podsPath: resourcePath(pods, { namespace }),
    vmsPath: resourcePath(vms, { namespace }),
    nodes,
    template,
  };
  const operator = await startBareProcess('bareoperator.ts', options);
  try {
    await inTurns(setting, 'bare-warm', warmUp(count), emptyTally());
    const tally = emptyTally();
    let allCpuMs = 0;
    await inTurns(setting, 'bare', count, tally, async (vms) => {
      allCpuMs += await cpuOfOthers(vms);
    });
    return { tally, allCpuMs };
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
  { writes, cpuMs, allCpuMs, usage }: Cost,
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
    { what: 'RSS at the end, MB', value: rounded(usage.rssMB, 1), atMost: 110 },
    { what: 'RSS at its peak, MB', value: rounded(usage.peakRssMB, 1) },
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
