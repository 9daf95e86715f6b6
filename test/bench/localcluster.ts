import { once } from 'node:events';
import { homedir } from 'node:os';
import { down, up } from '../../src/localcluster/cluster/cluster.ts';
import { type Places, placesOf, readReport } from '../../src/localcluster/shared/state.ts';
import type { Outcome } from './figures.ts';

export const clusterSetting = {
  SVC3_BENCH_CLUSTER: 'bench: name of the local cluster; one that runs is used and left as it is',
};

/** Measures on a whole local cluster, which is made for it unless it runs already, and goes with it, also where it is interrupted. */
export async function onLocalCluster(measure: (places: Places) => Promise<Outcome>): Promise<Outcome> {
  const places = placesOf(process.env['SVC3_BENCH_CLUSTER'] ?? 'bench', process.env, homedir());
  const progress = (text: string) => void process.stderr.write(`${text}\n`);
  const wasRunning = (await readReport(places)) !== undefined;
  const interrupted = new AbortController();
  const interrupt = (signal: NodeJS.Signals): void =>
    interrupted.abort(new Error(`interrupted by ${signal}`));
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  try {
    const { signal } = interrupted;
    if (!wasRunning) await up({ places, nodes: 1, bound: true, progress, signal });
    return await Promise.race([measure(places), rejectionBy(signal)]);
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    if (!wasRunning) await down(places, { purge: true });
  }
}

/** Rejects with the signal's reason. */
async function rejectionBy(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason as Error;
}
