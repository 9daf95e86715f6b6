import { setTimeout as delay } from 'node:timers/promises';
import { pods, vms } from '../../src/api/resources.ts';
import { podNameOf } from '../../src/vm/names.ts';
import { auditReader } from './audit.ts';
import { type Benchmark, type Outcome, percentile, rounded, size } from './figures.ts';
import { startOperatorProcess } from './operatorprocess.ts';
import { until } from './parallel.ts';
import {
  barePod,
  benchVm,
  createAtRate,
  deleteAll,
  isPodBound,
  isPodRunning,
  isVmReady,
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
  cpuMs: number;
}

function emptyTally(): Tally {
  const podTimes = () => ({ made: [], bound: [], running: [] });
  return { bare: podTimes(), podOfVm: podTimes(), vm: { made: [], ready: [] }, cpuMs: 0 };
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

async function measure(): Promise<Outcome> {
  const count = size('SVC3_BENCH_VMS', 500);
  const perSecond = size('SVC3_BENCH_PER_SECOND', 10);
  const nodes = Array.from({ length: size('SVC3_BENCH_NODES', 100) }, (_, i) => ({
    name: `node-${i}`,
    allocatable: { cpu: '32', memory: '128Gi' },
  }));
  const cluster = await simulatedCluster(nodes);
  const operator = await startOperatorProcess(cluster.operatorKubeconfigPath);
  const watches = {
    pods: observe(cluster.watched.pods, podMarks),
    vms: observe(cluster.watched.vms, vmMarks),
  };
  try {
    const tally = emptyTally();
    const block = (name: string, amount: number, into: Tally) => ({
      pods: () => podBlock(cluster, watches, names(`pod-${name}`, amount), perSecond, into),
      async vms() {
        const before = operator.usage().cpuMs;
        await vmBlock(cluster, watches, names(`vm-${name}`, amount), perSecond, into);
        into.cpuMs += operator.usage().cpuMs - before;
      },
    });
    const warmUp = block('warm', Math.min(20, count), emptyTally());
    await warmUp.pods();
    await warmUp.vms();
    const audit = auditReader(cluster.controlPlane.auditLogPath);
    await audit.since();
    for (let done = 0, turn = 0; done < count; done += blockSize, turn++) {
      const { pods: bare, vms: made } = block(`${turn}`, Math.min(blockSize, count - done), tally);
      const inOrder = turn % 2 === 0 ? [bare, made] : [made, bare];
      for (const step of inOrder) await step();
    }
    return outcome(tally, await audit.since(), operator.usage(), count);
  } finally {
    watches.pods.stop();
    watches.vms.stop();
    await operator.stop();
    await cluster.remove();
  }
}

function names(prefix: string, amount: number): string[] {
  return Array.from({ length: amount }, (_, i) => `${prefix}-${i}`);
}

async function podBlock(
  { client }: SimulatedCluster,
  watches: Watches,
  wanted: readonly string[],
  perSecond: number,
  tally: Tally,
): Promise<void> {
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
  { client }: SimulatedCluster,
  watches: Watches,
  wanted: readonly string[],
  perSecond: number,
  tally: Tally,
): Promise<void> {
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
  { bare, podOfVm, vm, cpuMs }: Tally,
  writes: { total: number; byKind: Readonly<Record<string, number>> },
  { rssMB, peakRssMB }: { rssMB: number; peakRssMB: number },
  count: number,
): Outcome {
  const row = (what: string, values: readonly number[]) => ({
    what,
    'P50 ms': Math.round(percentile(values, 0.5)),
    'P95 ms': Math.round(percentile(values, 0.95)),
    'P99 ms': Math.round(percentile(values, 0.99)),
  });
  const ratio = (values: readonly number[], of: number) =>
    rounded(percentile(values, of) / percentile(bare.running, of));
  const rows = [
    row('bare pod, create → a watch shows it', bare.made),
    row('bare pod, create → bound', bare.bound),
    row('bare pod, create → Running', bare.running),
    row('VM, create → a watch shows it', vm.made),
    row('VM, create → its pod exists', podOfVm.made),
    row('VM, create → its pod bound', podOfVm.bound),
    row('VM, create → its pod Running', podOfVm.running),
    row('VM, create → VM Ready', vm.ready),
    ...Object.entries(writes.byKind).map(([what, value]) => ({ what, 'per VM': rounded(value / count) })),
  ];
  const figures = [
    { what: 'VM create → its pod Running, P50 beside bare pods', value: ratio(podOfVm.running, 0.5) },
    { what: 'VM create → its pod Running, P95 beside bare pods', value: ratio(podOfVm.running, 0.95) },
    { what: 'VM create → Ready, P50 beside bare pods', value: ratio(vm.ready, 0.5), atMost: 1.8 },
    { what: 'VM create → Ready, P95 beside bare pods', value: ratio(vm.ready, 0.95), atMost: 1.8 },
    { what: 'writes per VM (audit log)', value: rounded(writes.total / count), atMost: 5 },
    { what: 'CPU per VM, ms', value: rounded(cpuMs / count, 1), atMost: 12 },
    { what: 'RSS at the end, MB', value: rounded(rssMB, 1), atMost: 110 },
    { what: 'RSS at its peak, MB', value: rounded(peakRssMB, 1) },
  ];
  return { rows, figures };
}
