import { setTimeout as delay } from 'node:timers/promises';
import { vms } from '../../src/api/resources.ts';
import { startApiProcess } from '../support/apiprocess.ts';
import { auditReader } from './audit.ts';
import { type Benchmark, type Outcome, rounded, size } from './figures.ts';
import { startOperatorProcess } from './operatorprocess.ts';
import { until } from './until.ts';
import { benchVm, createAtRate, deleteAll, isVmReady, observe, simulatedCluster } from './simulated.ts';

/** What operator and api write, by kube-apiserver's audit log: for VMs one by one, and when nothing is to be done. */
export const benchmark: Benchmark = {
  about: 'API writes in the life of a VM and in a converged cluster, from the audit log',
  settings: {
    SVC3_BENCH_LIVES: '50 VMs created, run and deleted',
    SVC3_BENCH_CONVERGED_SECONDS: '300 seconds in which nothing may be written',
  },
  measure,
};

const running = 10;

async function measure(): Promise<Outcome> {
  const lives = size('SVC3_BENCH_LIVES', 50);
  const seconds = size('SVC3_BENCH_CONVERGED_SECONDS', 300);
  const nodes = Array.from({ length: 10 }, (_, i) => ({ name: `node-${i}` }));
  const cluster = await simulatedCluster(nodes);
  const { client, controlPlane } = cluster;
  const operator = await startOperatorProcess(cluster.operatorKubeconfigPath);
  const api = await startApiProcess(controlPlane.kubeconfigPath).catch(async (error: unknown) => {
    await operator.stop();
    await cluster.remove();
    throw error;
  });
  const ready = observe(cluster.watched.vms, { ready: isVmReady });
  const run = async (prefix: string, amount: number): Promise<string[]> => {
    const names = Array.from({ length: amount }, (_, i) => `${prefix}-${i}`);
    await createAtRate(
      client,
      vms,
      names.map((name) => benchVm(name)),
      5,
    );
    await until('all VMs to run', () => names.every((name) => ready.at('ready', name) !== undefined));
    // Events are written behind.
    await delay(5_000);
    return names;
  };
  try {
    await deleteAll(client, vms, await run('warm', 2));
    const audit = auditReader(controlPlane.auditLogPath);
    await audit.since();
    await deleteAll(client, vms, await run('life', lives));
    await delay(5_000);
    const ofLives = await audit.since();
    await run('stays', running);
    await delay(10_000);
    await audit.since();
    await delay(seconds * 1000);
    const converged = await audit.since();
    const rows = (phase: string, byKind: Readonly<Record<string, number>>, of: number) =>
      Object.entries(byKind).map(([write, count]) => ({
        phase,
        write,
        count,
        'per VM': rounded(count / of),
      }));
    return {
      rows: [...rows('life', ofLives.byKind, lives), ...rows('converged', converged.byKind, running)],
      figures: [
        { what: 'writes in the life of a VM', value: ofLives.total / lives, atMost: 6 },
        { what: `writes in ${seconds} s with ${running} VMs`, value: converged.total, atMost: 0 },
      ],
    };
  } finally {
    ready.stop();
    await api.stop();
    await operator.stop();
    await cluster.remove();
  }
}
