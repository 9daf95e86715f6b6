import { statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Benchmark, median, type Outcome, rounded, size } from './figures.ts';
import { bundled, startOperatorProcess } from './operatorprocess.ts';
import { simulatedCluster } from './simulated.ts';

/** What an operator costs that has nothing to do. */
export const benchmark: Benchmark = {
  about: 'the idle operator: memory, time from start to synced, size of its bundle',
  settings: {
    SVC3_BENCH_STARTS: '7 starts, the first is warm-up',
    SVC3_BENCH_IDLE_SECONDS: '20 seconds before its memory is read',
  },
  measure,
};

async function measure(): Promise<Outcome> {
  const bundleMB = statSync(await bundled('operator')).size / 1e6;
  const cluster = await simulatedCluster([{ name: 'node-0' }]);
  const starts = Math.max(2, size('SVC3_BENCH_STARTS', 7));
  const readyMs: number[] = [];
  const rssMB: number[] = [];
  try {
    for (let i = 0; i < starts; i++) {
      const operator = await startOperatorProcess(cluster.operatorKubeconfigPath);
      readyMs.push(operator.readyMs);
      if (i === starts - 1) await delay(size('SVC3_BENCH_IDLE_SECONDS', 20) * 1000);
      rssMB.push(operator.usage().rssMB);
      await operator.stop();
    }
  } finally {
    await cluster.remove();
  }
  const measured = readyMs.slice(1);
  return {
    rows: readyMs.map((ms, i) => ({
      start: i === 0 ? 'warm-up' : i,
      'synced after ms': Math.round(ms),
      'RSS MB': rounded(rssMB[i] ?? NaN, 1),
    })),
    figures: [
      { what: 'RSS idle and leading, MB', value: rssMB.at(-1) ?? NaN, atMost: 90 },
      { what: 'start → synced, ms (median)', value: median(measured), atMost: 1000 },
      { what: 'bundle, MB', value: bundleMB, atMost: 3 },
    ],
  };
}
