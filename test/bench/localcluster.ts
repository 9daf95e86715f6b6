import { homedir } from 'node:os';
import { down, up } from '../../src/localcluster/cluster/cluster.ts';
import { type Places, placesOf, readReport } from '../../src/localcluster/shared/state.ts';
import type { Outcome } from './figures.ts';

export const clusterSetting = {
  SVC3_BENCH_CLUSTER: 'bench: name of the local cluster; one that runs is used and left as it is',
};

/** Measures on a whole local cluster, which is made for it unless it runs already. */
export async function onLocalCluster(measure: (places: Places) => Promise<Outcome>): Promise<Outcome> {
  const places = placesOf(process.env['SVC3_BENCH_CLUSTER'] ?? 'bench', process.env, homedir());
  const progress = (text: string) => void process.stderr.write(`${text}\n`);
  const wasRunning = (await readReport(places)) !== undefined;
  try {
    if (!wasRunning) await up({ places, nodes: 1, progress, signal: new AbortController().signal });
    return await measure(places);
  } finally {
    if (!wasRunning) await down(places, { purge: true });
  }
}
