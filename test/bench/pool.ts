import { finalizer } from '../../src/api/meta.ts';
import { vmPools, vms } from '../../src/api/resources.ts';
import type { Submitted } from '../../src/api/object.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { VmPool } from '../../src/api/vmpool.ts';
import { auditReader, type WriteCounts } from './audit.ts';
import { type Benchmark, type Outcome, percentile, rounded, size } from './figures.ts';
import { startOperatorProcess } from './operatorprocess.ts';
import { until } from './until.ts';
import {
  benchVm,
  createAtRate,
  deleteAll,
  isVmReady,
  namespace,
  observe,
  simulatedCluster,
  type SimulatedCluster,
} from './simulated.ts';
import { startWaitingRunners, type WaitingRunners } from './waitingrunners.ts';

/** VMs that claim guests of a full pool at a steady rate, while the pool fills up again. */
export const benchmark: Benchmark = {
  about: 'VMs that claim waiting guests at 10/s, with simulated kubelets and runners',
  settings: {
    SVC3_BENCH_CLAIMS: '200 VMs, and as many guests that wait for them',
    SVC3_BENCH_NODES: '20 nodes',
    SVC3_BENCH_PER_SECOND: '10 created in a second',
  },
  measure,
};

const warmUp = 10;

function thePool(minIdle: number): Submitted<VmPool> {
  const { powerState: _powerState, ...template } = benchVm('any').spec;
  const nodePorts = { ssh: 'Disabled', screenshare: 'Disabled' } as const;
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VMPool',
    metadata: { name: 'ci', namespace },
    spec: { template: { ...template, nodePorts }, minIdle, standby: 'Suspended', serveConfig: false },
  };
}

/** With the finalizer, as api and command line make VMs. */
function aClaim(name: string): Submitted<Vm> {
  const metadata = { name, namespace, finalizers: [finalizer] };
  return { apiVersion: 'svc3.dev/v1', kind: 'VM', metadata, spec: { pool: 'ci', powerState: 'Running' } };
}

interface Claims {
  readonly readyMs: readonly number[];
  readonly writes: WriteCounts;
}

async function measure(): Promise<Outcome> {
  const count = size('SVC3_BENCH_CLAIMS', 200);
  const nodes = Array.from({ length: size('SVC3_BENCH_NODES', 20) }, (_, i) => ({
    name: `node-${i}`,
    allocatable: { cpu: '64', memory: '128Gi' },
  }));
  const runners = await startWaitingRunners();
  try {
    const cluster = await simulatedCluster(nodes);
    try {
      const operator = await startOperatorProcess(cluster.operatorKubeconfigPath);
      try {
        return outcome(await claimsOf(cluster, count), count, runners);
      } finally {
        await operator.stop();
      }
    } finally {
      await cluster.remove();
    }
  } finally {
    await runners.stop();
  }
}

async function claimsOf({ client, controlPlane, watched }: SimulatedCluster, count: number): Promise<Claims> {
  const isFull = async () => (await client.get(vmPools, 'ci', namespace)).status?.idle === count;
  const ready = observe(watched.vms, { ready: isVmReady });
  const run = async (names: readonly string[]): Promise<number[]> => {
    const perSecond = size('SVC3_BENCH_PER_SECOND', 10);
    const begun = await createAtRate(client, vms, names.map(aClaim), perSecond);
    await until('all VMs to run', () => names.every((name) => ready.at('ready', name) !== undefined));
    return names.map((name) => (ready.at('ready', name) ?? Number.NaN) - (begun.get(name) ?? Number.NaN));
  };
  try {
    await client.create(vmPools, thePool(count));
    await until('the pool to be full', isFull);
    const first = Array.from({ length: warmUp }, (_, i) => `warm-${i}`);
    await run(first);
    await deleteAll(client, vms, first, { andWait: false });
    await until('those to be gone', async () => (await client.list(vms, { namespace })).items.length === 0);
    await until('the pool to be full again', isFull);
    const audit = auditReader(controlPlane.auditLogPath);
    await audit.since();
    const readyMs = await run(Array.from({ length: count }, (_, i) => `job-${i}`));
    return { readyMs, writes: await audit.since() };
  } finally {
    ready.stop();
  }
}

/** Of the claims; guests that are booted in the place of those that were taken are written beside them. */
function isOfClaim(write: string): boolean {
  return write === 'patch pods' || / vms(\/|$)/.test(write);
}

function outcome({ readyMs, writes }: Claims, count: number, runners: WaitingRunners): Outcome {
  const ofClaims = Object.entries(writes.byKind).filter(([write]) => isOfClaim(write));
  const total = ofClaims.reduce((sum, [, amount]) => sum + amount, 0);
  return {
    rows: Object.entries(writes.byKind).map(([write, amount]) => ({
      write,
      count: amount,
      'per VM': rounded(amount / count),
      'of the claim': isOfClaim(write),
    })),
    figures: [
      { what: 'create → Ready, ms (P50)', value: percentile(readyMs, 0.5), atMost: 100 },
      { what: 'create → Ready, ms (P99)', value: percentile(readyMs, 0.99), atMost: 400 },
      { what: 'writes of a claim', value: total / count, atMost: 3 },
      { what: 'VMs with a guest that waited', value: runners.claims() - warmUp, atLeast: count },
      { what: 'guests claimed twice', value: runners.conflicts(), atMost: 0 },
    ],
  };
}
